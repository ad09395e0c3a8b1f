"""Forgetting attention against its definition, and against the paper's with a causal mask."""

import numpy as np
from checks import arrays, close
from tools import to_numpy
from weight_laws import LEADING, WeightLaws, products, softmax

from keras_quasiattn import layers, ops


class TestForgetting(WeightLaws):
    op = staticmethod(ops.forgetting_attention)
    layer = layers.MultiHeadForgetting

    def tensors(self, size):
        gates = np.random.default_rng(5).uniform(0.1, 1, size=(*LEADING, size[1]))
        return {"log_forget": np.log(gates)}

    def arguments_of(self, layer, query, key):
        learned = {weight.name: to_numpy(weight) for weight in layer.weights}
        logits = np.einsum("bnsh,hn->bns", to_numpy(key), learned["forget_kernel"])
        gates = 1 / (1 + np.exp(-logits - learned["forget_bias"]))
        return {**super().arguments_of(layer, query, key), "log_forget": np.log(gates)}

    def weights(self, query, key, seen, bias, *, log_forget, scale=1.0):
        later = np.arange(key.shape[-2])[:, None] < np.arange(key.shape[-2])  # r after s: [s, r]
        forgotten = np.where(seen, log_forget[..., None, :], 0)  # (..., T, r)
        lowered = np.einsum("...tr,sr->...ts", forgotten, later)
        return softmax(products(query, key, scale) + bias + lowered, seen)


def test_with_a_causal_mask_it_is_the_papers_equation():
    query, key, value = arrays((7, 7, 3))
    gates = np.random.default_rng(5).uniform(0.1, 1, size=(*LEADING, 7))
    scores = np.einsum("...td,...sd->...ts", query, key)
    for t, s in np.ndindex(7, 7):
        scores[..., t, s] += np.log(gates)[..., s + 1 : t + 1].sum(-1)
    weights = softmax(scores, np.broadcast_to(np.tril(np.ones((7, 7), "bool")), scores.shape))
    got = ops.forgetting_attention(query, key, value, log_forget=np.log(gates), is_causal=True)
    close(to_numpy(got), weights @ value)


def test_open_gates_forget_nothing_and_a_shut_one_all_before_it():
    query, key, value = arrays((5, 7, 3))
    open_gates = np.zeros((*LEADING, 7))
    plain = to_numpy(ops.softmax_attention(query, key, value))
    close(to_numpy(ops.forgetting_attention(query, key, value, log_forget=open_gates)), plain)
    shut = np.where(np.arange(7) == 3, -1e4, open_gates)
    close(
        to_numpy(ops.forgetting_attention(query, key, value, log_forget=shut)),
        to_numpy(ops.softmax_attention(query, key, value, np.arange(7) >= 3)),
    )
