"""Context-guided quasi-attention against its definition, and the range of its weights."""

import numpy as np
import pytest
from reading_reference import sigmoid
from tools import to_numpy
from weight_laws import LEADING, WeightLaws, products, softmax

from keras_quasiattn import layers, ops


class TestContextGuided(WeightLaws):
    op = staticmethod(ops.context_guided_attention)
    layer = layers.MultiHeadContextGuided
    options = ({"scale": 0.3}, {"scale": 0.3, "alpha": 0.5})

    def tensors(self, size):
        random = np.random.default_rng(5)
        shapes = {"query": size[0], "key": size[1]}
        return {
            **{f"{s}_context": random.normal(size=(*LEADING, n, 2)) for s, n in shapes.items()},
            **{f"{s}_gate": random.random((*LEADING, n)) for s, n in shapes.items()},
        }

    def arguments_of(self, layer, query, key):
        learned = {weight.name: to_numpy(weight) for weight in layer.weights}
        sides = {}
        for side, x in (("query", to_numpy(query)), ("key", to_numpy(key))):
            sides[f"{side}_context"] = x @ learned[f"{side}_context_kernel"]
            gates = np.einsum("bnlh,hn->bnl", x, learned[f"{side}_gate_kernel"])
            sides[f"{side}_gate"] = sigmoid(gates)
        return {**super().arguments_of(layer, query, key), **sides}

    def weights(self, query, key, seen, bias, *, scale=1.0, alpha=1.0, **more):
        gate = 1 - more["query_gate"][..., None] - more["key_gate"][..., None, :]
        quasi = sigmoid(products(more["query_context"], more["key_context"], scale))
        first = softmax(products(query, key, scale) + bias, seen)
        return first + np.where(seen, alpha * gate * quasi, 0)


def test_alpha_is_a_number():
    with pytest.raises(ValueError, match="`alpha` must be a finite number. Received.*'learned'"):
        layers.MultiHeadContextGuided(2, 4, alpha="learned")
