"""A bias on the scores: its definition, its gradient in its own shape, and masked pairs."""

import keras
import numpy as np
import pytest
import reference
from checks import arrays, close, some_mask
from tools import CODA_IMPLEMENTATIONS, run_with_gradients, to_numpy
from weight_laws import WeightLaws

from keras_quasiattn import layers, ops
from keras_quasiattn.attention.coda import choice
from keras_quasiattn.attention.coda.composition import Composition, Pairs
from keras_quasiattn.core.tensors import training_call
from keras_quasiattn.core.tiling import KEYS_PER_TILE

CENTERED = {"gate_range": "centered", "center_similarity": True}
BY_ROW = {**CENTERED, "center_per_query": True}


class TestCoDA(WeightLaws):
    op = staticmethod(ops.coda_attention)
    layer = layers.MultiHeadCoDA
    options = ({"alpha": 0.5, "beta": 0.1}, {"similarity": "sigmoid", "gate": "arctan"}, BY_ROW)

    def arguments_of(self, layer, query, key):
        return dict.fromkeys(("alpha", "beta"), 1 / layer.key_dim)

    def weights(self, query, key, seen, bias, implementation=None, **options):
        return reference.coda_weights(query, key, seen, bias=bias, **options)


class TestTiledCoDA(TestCoDA):
    options = tuple({**one, "implementation": "blockwise"} for one in TestCoDA.options)


def bias_of(*shape):
    return np.random.default_rng(6).normal(size=shape)


@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_the_mean_of_e_over_all_pairs_includes_it(implementation):
    query, key, value = arrays((5, 37, 3))
    mask, bias = some_mask((5, 37)), bias_of(3, 5, 37)
    weights = reference.coda_weights(query, key, mask, bias=bias, **CENTERED)
    options = {"bias": bias, **CENTERED, "implementation": implementation}
    got = ops.coda_attention(query, key, value, mask, **options)
    close(to_numpy(got), weights @ value)


def coda(inputs, implementation, mask=None, **options):
    def function(query, key, value, bias, *alpha):
        given = {**options, "bias": bias, "implementation": implementation}
        given |= {"alpha": alpha[0]} if alpha else {}
        return [ops.coda_attention(query, key, value, mask, **given)]

    shape = (*inputs[0].shape[:-1], inputs[2].shape[-1])
    return run_with_gradients(function, inputs, [np.random.default_rng(9).normal(size=shape)])


DROPOUT = {"dropout": 0.4, "dropout_seed": np.array([3, -7], "int32")}


EVERYTHING = {**CENTERED, "is_causal": True, **DROPOUT}


@pytest.mark.parametrize(
    "target,source,shape,options",
    [
        (9, KEYS_PER_TILE + 3, (3, 9, KEYS_PER_TILE + 3), {}),
        (9, KEYS_PER_TILE + 3, (3, 9, KEYS_PER_TILE + 3), EVERYTHING),
        (5, KEYS_PER_TILE, (2, 1, 1, KEYS_PER_TILE), EVERYTHING),
        (5, 4 * KEYS_PER_TILE + 1, (3, 5, 1), EVERYTHING),
        (5, 4 * KEYS_PER_TILE + 1, (2, 3, 1, 1), CENTERED),
        (1, 7, (2, 3, 1, 7), CENTERED),
        (7, 1, (7, 1), EVERYTHING),
        (0, 7, (0, 7), CENTERED),
        (5, 0, (3, 5, 0), EVERYTHING),
    ],
    ids=lambda one: f"{len(one)}_options" if isinstance(one, dict) else str(one),
)
def test_tiles_give_what_the_definition_gives(target, source, shape, options):
    inputs = [*arrays((target, source, 5)), bias_of(*shape)]
    if options:
        inputs.append(np.abs(bias_of(1, source)))  # α that differs by key
    for mask in (None, some_mask((target, source))):
        expected, expected_gradients = coda(inputs, "reference", mask, beta=0.1, **options)
        got, gradients = coda(inputs, "blockwise", mask, beta=0.1, **options)
        for want, have in zip(expected + expected_gradients, got + gradients, strict=True):
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "op,truth",
    [
        (ops.softmax_attention, reference.softmax_weights),
        (ops.coda_attention, reference.coda_weights),
    ],
)
def test_a_bias_of_half_precision_is_added_in_float32(op, truth):
    query, key, value = (np.zeros((1, 2, *n), "float16") for n in ((1, 2), (2, 2), (2, 1)))
    bias = np.array([[[[-7.0, 0.0009765]]]], "float16") + np.zeros((1, 2, 1, 1), "float16")
    got = to_numpy(op(query, key, value + 1, bias=bias))
    want = truth(query.astype("float64"), key, bias=bias.astype("float64"))
    np.testing.assert_allclose(got, want.sum(-1, keepdims=True), rtol=1e-3)


def test_auto_takes_another_implementation_than_compiled_loops():
    query = keras.KerasTensor((64, 70, 8))
    pairs = Pairs(query, query, query, query, Composition(), bias=np.zeros((70, 70)))
    with training_call(True):
        taken = choice.compute_by_choice(lambda name: name, "auto", pairs)
    assert taken == "blockwise"
    if "compiled" in CODA_IMPLEMENTATIONS:
        with pytest.raises(ValueError, match="implementation='compiled'` cannot add a `bias`"):
            choice.compute_by_choice(lambda name: name, "compiled", pairs)
