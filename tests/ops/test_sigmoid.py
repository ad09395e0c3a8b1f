"""Sigmoid attention against its definition, and by its name wherever an attention is chosen."""

import keras
import numpy as np
import pytest
from checks import arrays, check_gradients, close, every_size, some_mask
from reference import full_mask
from tools import to_numpy

from keras_quasiattn import layers, models, ops


def sigmoid_weights(query, key, mask=None, *, scale=1.0, score_bias=None, is_causal=False):
    e = scale * query @ np.swapaxes(key, -1, -2)
    seen = full_mask(mask, e.shape, is_causal)
    counted = np.maximum(seen.sum(-1, keepdims=True), 1)
    return np.where(
        seen, 1 / (1 + np.exp(-e - (-np.log(counted) if score_bias is None else score_bias))), 0
    )


@every_size
@pytest.mark.parametrize("score_bias", [None, -1.5])
def test_sigmoid_attention(size, score_bias):
    query, key, value = arrays(size)
    for mask, is_causal in ((None, False), (some_mask(size), False), (some_mask(size), True)):
        options = {"scale": 0.3, "score_bias": score_bias, "is_causal": is_causal}
        weights = sigmoid_weights(query, key, mask, **options)
        got = to_numpy(
            ops.sigmoid_attention(query, key, value, mask, return_scores=True, **options)
        )
        close(got[0], weights @ value)
        close(got[1], weights)
        close(to_numpy(ops.sigmoid_attention(query, key, value, mask, **options)), weights @ value)


def test_gradients():
    size = (2, 3, 2)
    mask = some_mask(size)
    check_gradients(
        lambda *x: ops.sigmoid_attention(*x, mask),
        lambda query, key, value: sigmoid_weights(query, key, mask) @ value,
        arrays(size),
    )


def test_its_name_is_enough():
    ids = np.array([[4, 3, 2, 1], [5, 6, 0, 0]])
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    for layer, inputs in (
        (layers.TransformerEncoder(7, 2, "sigmoid", attention_options={"score_bias": -1.0}), [x]),
        (layers.TransformerDecoder(7, 2, "sigmoid"), [x, x]),
        (layers.DecomposableAttention(4, attention="sigmoid"), [[x, x[:, :3]]]),
        (layers.DotAttention(attention="sigmoid", attention_options={"score_bias": 0.0}), [[x, x]]),
        (layers.GatedContextQueryAttention(4, attention="sigmoid"), [[x, x]]),
        (models.TextClassifier(9, 2, attention="sigmoid", embedding_dim=4, units=3), [ids]),
        (
            models.PairClassifier(9, 2, attention="sigmoid", embedding_dim=4, units=3),
            [{"first": ids, "second": ids}],
        ),
    ):
        outputs = layer(*inputs)
        assert all(
            np.isfinite(to_numpy(one)).all()
            for one in (outputs if isinstance(outputs, list) else [outputs])
        )


def test_pairs_have_the_weights_of_both_directions():
    a, b, _ = arrays((3, 5, 6), leading=(2,))
    mask_a, mask_b = np.arange(3) < [[2], [3]], np.arange(5) < [[4], [2]]
    layer = layers.DecomposableAttention(4, attention="sigmoid", dtype="float64")
    beta, alpha, of_a, of_b = map(
        to_numpy, layer([a, b], mask=[mask_a, mask_b], return_attention_scores=True)
    )
    query, key = (to_numpy(layer.network(x)) for x in (a, b))
    expected = sigmoid_weights(query, key, mask_a[:, :, None] & mask_b[:, None])
    close(of_a, expected)
    close(beta, expected @ b)
    expected = sigmoid_weights(key, query, mask_b[:, :, None] & mask_a[:, None])
    close(of_b, np.swapaxes(expected, 1, 2))
    close(alpha, expected @ a)


def test_swapped_in_by_name():
    x = keras.Input((None, 8))
    model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x))
    swapped = models.swap_attention(model, "sigmoid", score_bias=-2.0).get_layer("attention")
    assert type(swapped) is layers.MultiHeadSigmoid and swapped.score_bias == -2.0


def test_a_bias_is_a_number():
    with pytest.raises(ValueError, match="score_bias='large'"):
        layers.MultiHeadSigmoid(2, 4, score_bias="large")
