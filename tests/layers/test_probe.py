"""What a probe sees is what the layers return as their scores, and looking on changes nothing."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_quasiattn.layers import (
    AttentionConflict,
    CoDA,
    ConflictAttention,
    DecomposableAttention,
    GatedAttention,
    IntraSentenceAttention,
    LocalAttention,
    MultiHeadCoDA,
    MultiHeadConflict,
    MultiHeadGated,
    MultiHeadSoftmax,
    SoftAttention,
    TransformerEncoder,
)
from keras_quasiattn.layers.probe import attention_layers, probe, temperatures

RANDOM = np.random.default_rng(0)
A, B = (RANDOM.normal(size=(2, length, 8)).astype("float32") for length in (4, 5))
MASK_A, MASK_B = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], bool), np.array([[1, 1, 0, 0, 0], [1] * 5], bool)
HEADS = {"num_heads": 2, "key_dim": 4}
PAIRS = [
    CoDA(),
    CoDA(gate_range="centered", implementation="blockwise", alpha="learned"),
    DecomposableAttention(6),
    DecomposableAttention(6, attention="coda"),
    ConflictAttention(6),
    AttentionConflict(6),
]
HEADED = [
    MultiHeadCoDA(**HEADS),
    MultiHeadSoftmax(**HEADS),
    MultiHeadConflict(**HEADS),
    MultiHeadGated(**HEADS),
]
POOLING = [SoftAttention(), LocalAttention(), GatedAttention(units=3), IntraSentenceAttention(6)]


def array(x):
    return np.asarray(ops.convert_to_numpy(x))


def check(layer, *args, **kwargs):
    """The recorded weights are the returned scores wherever something is to be seen; the output is the plain one."""
    plain = keras.tree.flatten(layer(*args, **kwargs))
    scores = keras.tree.flatten(layer(*args, return_attention_scores=True, **kwargs))[len(plain) :]
    output, maps = probe(layer, *args, **kwargs)
    for got, expected in zip(keras.tree.flatten(output), plain, strict=True):
        np.testing.assert_allclose(array(got), array(expected), atol=1e-5)
    assert "call" not in vars(layer)
    recorded = [
        one for found in maps for name, one in found.matrices.items() if name not in ("similarity", "gate")
    ]
    for one, score in zip(sorted(recorded, key=lambda r: r.label != "gates"), scores, strict=True):
        values = array(one.values).astype("float32")
        visible = np.broadcast_to(True if one.visible is None else array(one.visible), values.shape)
        if values.shape != tuple(score.shape):  # weights of the second text, the other way round
            values, visible = np.swapaxes(values, -1, -2), np.swapaxes(visible, -1, -2)
        np.testing.assert_allclose(
            np.where(visible, values, 0), np.where(visible, array(score), 0), atol=1e-5
        )
    return maps


@pytest.mark.parametrize("layer", PAIRS, ids=lambda layer: layer.name)
def test_pairs(layer):
    check(layer, [A, B[:, :5]], mask=[MASK_A, MASK_B])


@pytest.mark.parametrize("layer", HEADED, ids=lambda layer: layer.name)
def test_heads(layer):
    if isinstance(layer, MultiHeadGated):
        layer(A, A)
        _, (found,) = probe(layer, A, A)
        assert set(found.matrices) == {"gates", "weights"}
    else:
        maps = check(layer, A, B, query_mask=MASK_A, value_mask=MASK_B)
        assert not np.broadcast_to(array(maps[0].matrices["weights"].visible), (2, 2, 4, 5))[0, :, 3].any()


@pytest.mark.parametrize("layer", POOLING, ids=lambda layer: layer.name)
def test_one_sequence(layer):
    check(layer, A, mask=MASK_A)


def test_factors_multiply_to_the_weights_and_say_what_they_are():
    _, (found,) = probe_built(CoDA(gate_range="raw", gate="arctan", similarity="sigmoid"), [A, B])
    similarity, gate, weights = found.matrices.values()
    np.testing.assert_allclose(
        array(similarity.values) * array(gate.values), array(weights.values), atol=1e-6
    )
    assert (similarity.label, gate.label, weights.label) == ("sigmoid(E)", "arctan(N)", "M")


def probe_built(layer, *args):
    layer(*args)
    return probe(layer, *args)


def test_layers_within_a_model_are_found_by_path_and_told_by_call():
    block = TransformerEncoder(
        intermediate_dim=4, num_heads=2, attention="coda", attention_options={"alpha": "learned"}
    )
    x = keras.Input((None, 8))
    model = keras.Model(x, block(block(x)))
    _, maps = probe(model, A)
    (path,) = attention_layers(model)
    assert [(one.layer, one.call) for one in maps] == [(path, 0), (path, 1)] and maps[
        0
    ].kind == "MultiHeadCoDA"
    np.testing.assert_allclose(array(temperatures(model)[f"{path}/alpha"]), [1, 1])


def test_temperature_of_gates():
    layer = GatedAttention(units=2, temperature=2.0, name="gated")
    layer.build((None, None, 8), (None, None, 8))
    assert temperatures(layer) == {"gated/temperature": 2.0}


def test_nothing_is_left_behind_by_an_error():
    layer = CoDA()
    layer([A, B])
    with pytest.raises(ValueError):
        probe(layer, [A, B], mask=[MASK_A.astype("float32"), None])
    assert "call" not in vars(layer)


def test_a_graph_that_does_not_know_the_lengths(tensorflow_only):
    import tensorflow as tf

    layer = MultiHeadCoDA(**HEADS)
    layer(A, B)

    @tf.function(input_signature=[tf.TensorSpec((None, None, 8))] * 2)
    def weights(a, b):
        return probe(layer, a, b)[1][0].matrices["weights"].values

    np.testing.assert_allclose(weights(A, B), layer(A, B, return_attention_scores=True)[1], atol=1e-5)
