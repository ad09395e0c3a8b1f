"""Rotated queries and keys, and key/value heads that several query heads share."""

import numpy as np
import pytest
import reference
from layer_case import randomize
from running import as_tensor
from tools import normal, to_numpy

from keras_quasiattn import layers
from keras_quasiattn.attention.base import ATTENTIONS

B, T, S, FEATURES = 3, 5, 7, 12
OPTIONS = {"num_key_value_heads": 2, "rotary_base": 100.0}
every_name = pytest.mark.parametrize("name", sorted(ATTENTIONS))


def built(layer_type, num_heads=4, key_dim=8, **options):
    layer = layer_type(num_heads, key_dim, **options)
    layer.build((None, None, FEATURES), (None, None, FEATURES))
    randomize(layer)
    return layer


def heads(layer, x, dense):
    """Compute (B, heads, L, H) in float64 from the kernels alone."""
    kernel, bias = (to_numpy(weight.value).astype("float64") for weight in dense.weights)
    return np.einsum("btd,dnh->bnth", x, kernel) + bias[:, None]


@pytest.mark.parametrize("rotary_base", [None, 100.0])
@pytest.mark.parametrize("num_key_value_heads", [1, 2, 4])
def test_weights_are_those_of_the_definition(num_key_value_heads, rotary_base):
    """Each key/value head serves N / G query heads, in order."""
    query, value = normal(B, T, FEATURES), normal(B, S, FEATURES, seed=1)
    for layer_type in (layers.MultiHeadCoDA, layers.MultiHeadSoftmax):
        options = {"num_key_value_heads": num_key_value_heads, "rotary_base": rotary_base}
        layer = built(layer_type, value_dim=5, **options)
        q, k, v = (
            heads(layer, x, dense)
            for x, dense in (
                (query, layer.query_dense),
                (value, layer.key_dense),
                (value, layer.value_dense),
            )
        )
        k, v = (np.repeat(x, 4 // num_key_value_heads, axis=1) for x in (k, v))
        if rotary_base:
            q, k = (reference.rotated(x, rotary_base) for x in (q, k))
        if layer_type is layers.MultiHeadCoDA:
            weights = reference.coda_weights(q, k, alpha=1 / 8, beta=1 / 8)
        else:
            weights = reference.softmax_weights(q, k, scale=8**-0.5)
        output, scores = to_numpy(layer(query, value, return_attention_scores=True))
        np.testing.assert_allclose(scores, weights, rtol=1e-4, atol=1e-5)
        kernel, bias = (to_numpy(weight.value) for weight in layer.output_dense.weights)
        want = np.einsum("bnth,nhd->btd", weights @ v, kernel) + bias
        np.testing.assert_allclose(output, want, rtol=1e-4, atol=1e-4)


@every_name
def test_shared_heads_are_fewer_weights_and_the_scores_have_all_heads(name):
    layer = built(ATTENTIONS[name], value_dim=5, **OPTIONS)
    assert {
        dense: tuple(getattr(layer, dense).kernel.shape)
        for dense in ("query_dense", "key_dense", "value_dense", "output_dense")
    } == {
        "query_dense": (FEATURES, 4, 8),
        "key_dense": (FEATURES, 2, 8),
        "value_dense": (FEATURES, 2, 5),
        "output_dense": (4, 5, FEATURES),
    }
    x, y = normal(B, T, FEATURES), normal(B, S, FEATURES)
    output, scores = layer(x, y, return_attention_scores=True)
    assert tuple(output.shape) == (B, T, FEATURES) and tuple(scores.shape) == (B, 4, T, S)
    # A layer with the same heads, repeated for every query head, gives the same result.
    full = built(ATTENTIONS[name], value_dim=5, rotary_base=100.0)
    for mine, theirs in zip(full.weights, layer.weights, strict=True):
        weight, axis = to_numpy(theirs.value), len(theirs.shape) - 2
        repeated = tuple(mine.shape) != weight.shape
        mine.assign(np.repeat(weight, 2, axis=axis) if repeated else weight)
    np.testing.assert_allclose(to_numpy(full(x, y)), to_numpy(output), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["coda", "forgetting"])
def test_a_block_takes_them_by_name_and_its_decoder_steps_give_the_rows_of_one_call(name):
    encoder = layers.TransformerEncoder(13, 4, name, attention_options=OPTIONS, key_dim=8)
    assert encoder(normal(B, T, FEATURES)).shape == (B, T, FEATURES)
    assert encoder.attention.num_key_value_heads == 2 and encoder.attention.rotary_base == 100.0
    decoder = layers.TransformerDecoder(13, 4, name, attention_options=OPTIONS, key_dim=8)
    decoder.build((None, None, FEATURES), (None, None, FEATURES))
    randomize(decoder)
    x, y = as_tensor(normal(B, T, FEATURES)), as_tensor(normal(B, S, FEATURES, seed=1))
    mask = as_tensor(np.arange(S) < np.array([[S], [4], [1]]))
    want = to_numpy(decoder(x, y, encoder_mask=mask, training=False))
    cache = decoder.start_cache(y, T, encoder_mask=mask)
    for index in range(T):
        row, cache = decoder.step(x[:, index : index + 1], index, cache, encoder_mask=mask)
        np.testing.assert_allclose(to_numpy(row)[:, 0], want[:, index], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"num_key_value_heads": 3}, "must divide `num_heads`.*num_key_value_heads=3, num_heads=4"),
        ({"rotary_base": True}, "`rotary_base` must be None or a number above 1.*=True"),
        ({"rotary_base": 1.0}, "`rotary_base` must be None or a number above 1.*=1.0"),
        (
            {"rotary_base": 10.0, "key_dim": 3},
            "`key_dim` must be a multiple of .*key_dim=3, rotary_base=10",
        ),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        layers.MultiHeadCoDA(**{"num_heads": 4, "key_dim": 8, **options})


def test_positions_on_several_axes_have_no_order():
    with pytest.raises(ValueError, match="`rotary_base` requires a single attention axis"):
        layers.MultiHeadSoftmax(2, 6, rotary_base=10.0).build((3, 2, 5, 8), (3, 2, 5, 8))


def test_rotation_and_shared_heads_over_one_of_two_axes():
    x = normal(B, 2, T, FEATURES)
    layer = layers.MultiHeadSoftmax(4, 6, attention_axes=2, **OPTIONS)
    layer.build(x.shape, x.shape)
    flat = layers.MultiHeadSoftmax(4, 6, **OPTIONS)
    flat.build((None, T, FEATURES), (None, T, FEATURES))
    flat.set_weights(layer.get_weights())
    np.testing.assert_allclose(
        to_numpy(layer(x, x)).reshape(-1, T, FEATURES),
        to_numpy(flat(x.reshape(-1, T, FEATURES), x.reshape(-1, T, FEATURES))),
        rtol=1e-4,
        atol=1e-5,
    )
