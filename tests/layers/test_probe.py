"""A probe sees what the layers return as scores, and probing changes nothing."""

import keras
import numpy as np
import pytest
from cases import ONE_OF_EACH
from running import masked_outputs, shared_layer
from tools import to_numpy

from keras_quasiattn.attention.probe import attention_layers, probe, temperatures, watching
from keras_quasiattn.layers import (
    CoDA,
    GatedAttention,
    MultiHeadCoDA,
    MultiHeadSoftmax,
    TransformerEncoder,
)

RANDOM = np.random.default_rng(0)
A, B = (RANDOM.normal(size=(2, length, 8)).astype("float32") for length in (4, 5))


@pytest.mark.parametrize("case", [case for case in ONE_OF_EACH if case.has_scores], ids=str)
def test_every_layer_with_scores_is_seen(case):
    layer, sequences, masks = shared_layer(case), case.sequences(), case.masks()
    scores = to_numpy(case.run(layer, sequences, masks, return_attention_scores=True))[-1]
    with watching(layer) as maps:
        watched = to_numpy(case.run(layer, sequences, masks))
    for got, expected in zip(watched, masked_outputs(case), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)
    assert "call" not in vars(layer)
    name, last = list(maps[-1].matrices.items())[-1]
    values, visible = (
        to_numpy(last.values),
        True if last.visible is None else to_numpy(last.visible),
    )
    values = np.where(visible, values, 0)
    if name == "weights_second":  # seen from the second sequence
        values = np.swapaxes(values, -1, -2)
    # Hidden pairs, rows of padding included, have weight 0.
    np.testing.assert_allclose(values, scores, atol=1e-5)


def test_factors_multiply_to_the_weights_and_say_what_they_are():
    layer = CoDA(gate_range="raw", gate="arctan", similarity="sigmoid")
    layer([A, B])
    _, (found,) = probe(layer, [A, B])
    similarity, gate, weights = found.matrices.values()
    product = to_numpy(similarity.values) * to_numpy(gate.values)
    np.testing.assert_allclose(product, to_numpy(weights.values), atol=1e-6)
    assert (similarity.label, gate.label, weights.label) == ("sigmoid(E)", "arctan(N)", "M")


def test_layers_within_a_model_are_found_by_path_and_told_by_call():
    options = {"attention": "coda", "attention_options": {"alpha": "learned"}}
    block = TransformerEncoder(intermediate_dim=4, num_heads=2, **options)
    x = keras.Input((None, 8))
    model = keras.Model(x, block(block(x)))
    _, maps = probe(model, A)
    (path,) = attention_layers(model)
    assert [(one.layer, one.call) for one in maps] == [(path, 0), (path, 1)]
    assert maps[0].kind == "MultiHeadCoDA"
    np.testing.assert_allclose(to_numpy(temperatures(model)[f"{path}/alpha"]), [1, 1])


@pytest.mark.parametrize(
    "options,call",
    [
        ({}, {}),
        ({"use_bias": False}, {"use_causal_mask": True}),
        ({"sliding_window": 2}, {"query_mask": np.arange(4) < [[4], [2]]}),
        ({}, {"attention_mask": np.tri(4, dtype="bool"), "key_mask": np.arange(4) < [[4], [3]]}),
    ],
)
def test_keras_attention_is_seen_as_ours_after_a_swap(options, call):
    if "sliding_window" not in keras.layers.MultiHeadAttention(1, 1).get_config():
        options = {name: value for name, value in options.items() if name != "sliding_window"}
    before, after = (
        kind(2, 4, name="attention", **options)
        for kind in (keras.layers.MultiHeadAttention, MultiHeadSoftmax)
    )
    before.build(A.shape, A.shape)
    after.build(A.shape, A.shape)
    after.set_weights(before.get_weights())
    output, (one,) = probe(before, A, A, A, **call)
    np.testing.assert_allclose(to_numpy(output), to_numpy(before(A, A, A, **call)), atol=1e-6)
    _, (other,) = probe(after, A, A, A, **call)
    assert (one.layer, one.kind, one.call) == ("attention", "MultiHeadAttention", 0)
    assert list(one.matrices) == list(other.matrices) == ["weights"]
    assert one.matrices["weights"].label == other.matrices["weights"].label
    seen = []
    for found in (one, other):
        values, visible = found.matrices["weights"][:2]
        shape = to_numpy(values).shape
        seen.append(np.broadcast_to(True if visible is None else to_numpy(visible), shape))
        seen.append(np.where(seen[-1], to_numpy(values), 0))
    np.testing.assert_array_equal(seen[0], seen[2])
    np.testing.assert_allclose(seen[1], seen[3], atol=1e-5)
    assert "call" not in vars(before)


@pytest.mark.parametrize("kind", [keras.layers.MultiHeadAttention, MultiHeadCoDA])
def test_queries_of_padding_were_shown_where_a_mask_hid_the_keys_alone(kind):
    """KerasHub's layers pass masks (B, 1, S), and no mask of queries."""
    layer, mask = kind(2, 4), np.array([[True, True, True, False]] * 2)
    x, copied = map(keras.ops.convert_to_tensor, (A, A))
    layer(x, x)
    for other, rows in ((x, mask), (copied, np.ones_like(mask))):
        _, (found,) = probe(layer, x, other, attention_mask=mask[:, None])
        visible = to_numpy(found.matrices["weights"].visible)
        expected = rows[:, None, :, None] & mask[:, None, None]
        np.testing.assert_array_equal(np.broadcast_to(visible, expected.shape), expected)


def test_keras_attention_over_two_axes_within_a_model():
    x = keras.Input((3, 2, 8))
    y = keras.layers.MultiHeadAttention(2, 4, name="keras")(x, x, return_attention_scores=True)
    model = keras.Model(x, y)
    image = RANDOM.normal(size=(1, 3, 2, 8)).astype("float32")
    (_, scores), (one,) = probe(model, image)
    weights = to_numpy(one.matrices["weights"].values)
    assert one.layer == "keras" and weights.shape == (1, 2, 6, 6)
    np.testing.assert_allclose(weights.reshape(to_numpy(scores).shape), to_numpy(scores))


def test_temperature_of_gates():
    layer = GatedAttention(units=2, temperature=2.0, name="gated")
    layer.build((None, None, 8), (None, None, 8))
    assert temperatures(layer) == {"gated/temperature": 2.0}


def test_nothing_is_left_behind_by_an_error():
    layer = CoDA()
    layer([A, B])
    with pytest.raises(ValueError):
        probe(layer, [A, B], mask=[np.ones((2, 4), "float32"), None])
    assert "call" not in vars(layer)


def test_a_graph_that_does_not_know_the_lengths(tensorflow_only):
    import tensorflow as tf

    layer = MultiHeadCoDA(num_heads=2, key_dim=4)
    layer(A, B)

    @tf.function(input_signature=[tf.TensorSpec((None, None, 8))] * 2)
    def weights(a, b):
        return probe(layer, a, b)[1][0].matrices["weights"].values

    np.testing.assert_allclose(
        weights(A, B), layer(A, B, return_attention_scores=True)[1], atol=1e-5
    )
