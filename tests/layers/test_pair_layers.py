"""Pair layers beyond the laws: what they compute, and what they reject."""

import functools

import keras
import numpy as np
import pytest
import reference
from layer_case import made
from reading_reference import relu
from tools import normal, to_numpy

from keras_quasiattn import layers


def arrays(*tensors):
    return to_numpy(keras.tree.flatten(list(tensors)))


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


A, B = normal(3, 5, 11), normal(3, 7, 11, seed=1)
MASKS = [np.arange(5) < np.array([[5], [2], [0]]), np.arange(7) < np.array([[4], [0], [7]])]


def both_real():
    return MASKS[0][:, :, None] & MASKS[1][:, None]


def network(layer, x, name="network", last=relu):
    denses = getattr(layer, name).denses
    for dense in denses:
        kernel, bias = to_numpy([w.value for w in dense.weights])
        x = x @ kernel + bias
        x = last(x) if dense is denses[-1] else relu(x)
    return x


@pytest.mark.parametrize("alpha", [1.0, 0.5, "learned"])
def test_softmax_alignment_of_sentences(alpha):
    layer = made(layers.DecomposableAttention(13, attention_options={"alpha": alpha}), [A, B])
    factor = float(arrays(layer.weights[0].value)[0]) if alpha == "learned" else alpha
    assert (factor == 1) == (alpha == 1)
    got = arrays(layer([A, B], mask=MASKS, return_attention_scores=True))
    (a, b), pairs = (network(layer, x) for x in (A, B)), both_real()
    to_b = reference.softmax_weights(factor * a, b, pairs)
    to_a = reference.softmax_weights(factor * b, a, np.swapaxes(pairs, 1, 2))
    for one, other in zip(got, (to_b @ B, to_a @ A, to_b, np.swapaxes(to_a, 1, 2)), strict=True):
        close(one, other)


@pytest.mark.parametrize(
    ("activation", "last"), [("relu", relu), ("linear", lambda x: x), ("tanh", np.tanh)]
)
def test_coda_of_sentences(activation, last):
    """With a separate distance and the default options, and a similarity of either sign."""
    shared, given = activation == "relu", {"attention": "coda", "last_activation": activation}
    options = {"alpha": 1 / 13, "beta": 1 / 13}
    if shared:
        options = {"alpha": 0.5, "beta": 0.25, "gate_range": "centered"}
        given["attention_options"] = {**options, "scaling": "none"}
    layer = made(layers.DecomposableAttention(13, share_networks=shared, **given), [A, B])
    if not shared:
        options["distance"] = [network(layer, x, "distance_network", last) for x in (A, B)]
    of_each = (network(layer, x, last=last) for x in (A, B))
    weights = reference.coda_weights(*of_each, both_real(), **options)
    assert (weights.min() < -0.01) != shared
    got = arrays(layer([A, B], mask=MASKS, return_attention_scores=True))
    for one, other in zip(got, (weights @ B, np.swapaxes(weights, 1, 2) @ A, weights), strict=True):
        close(one, other)


@pytest.mark.parametrize("difference", ["absolute", "signed", "squared"])
def test_decomposable_attention_by_conflict(difference):
    options = {"attention": "conflict", "attention_options": {"difference": difference}}
    layer = made(layers.DecomposableAttention(3, **options), [A, B])
    a, b = (np.tanh(network(layer, x)) for x in (A, B))
    kernel, visible = arrays(layer.score_kernels.value)[0], both_real()
    of_a = reference.conflict_weights(a, b, kernel, difference, visible)
    of_b = reference.conflict_weights(b, a, kernel, difference, visible.swapaxes(1, 2))
    expected = (of_a @ B, of_b @ A, of_a, of_b.swapaxes(1, 2))
    got = arrays(layer([A, B], mask=MASKS, return_attention_scores=True))
    for one, other in zip(got, expected, strict=True):
        close(one, other)


def test_dot_attention_to_the_keys_whose_gates_are_open():
    layer = made(layers.DotAttention(attention="gated"), [A, B])
    output, weights = arrays(layer([A, B], mask=MASKS, return_attention_scores=True))
    keys = B @ arrays(layer.key_projection.kernel.value)[0]
    kernel, bias = arrays(layer.gate_kernel.value, layer.gate_bias.value)
    is_open = (np.tanh(keys) @ kernel + bias > 0) & MASKS[1]
    assert is_open.any(1).tolist() == MASKS[1].any(1).tolist() and (is_open != MASKS[1]).any()
    visible = both_real() & is_open[:, None]
    close(weights, reference.softmax_weights(A, keys, visible))
    close(output, reference.softmax_weights(A, keys, visible) @ B)


@pytest.mark.parametrize("of", [layers.DotAttention, layers.DecomposableAttention])
def test_the_cost_of_gates_counts_no_padding_of_either_sequence(of):
    layer = made(of(attention="gated", attention_options={"open_gate_cost": 0.5}), [A, B])
    layer([A, B], mask=MASKS, training=False)
    expected = arrays(*layer.losses)
    wider = [np.pad(x, ((0, 0), (0, 2), (0, 0)), constant_values=9) for x in (A, B)]
    layer(wider, mask=[np.pad(mask, ((0, 0), (0, 2))) for mask in MASKS], training=False)
    assert len(expected) == (1 if of is layers.DotAttention else 2)
    np.testing.assert_allclose(arrays(*layer.losses), expected, rtol=1e-5)


def test_coda_with_a_projection_for_distances():
    layer = made(layers.CoDA(4, share_projections=False, activation="tanh"), [A, B])
    projections = arrays(
        layer.similarity_projection.kernel.value, layer.distance_projection.kernel.value
    )
    (e_a, e_b), (n_a, n_b) = ([np.tanh(x @ kernel) for x in (A, B)] for kernel in projections)
    weights = reference.coda_weights(
        e_a, e_b, both_real(), distance=(n_a, n_b), alpha=1 / 4, beta=1 / 4
    )
    got = arrays(layer([A, B], mask=MASKS, return_attention_scores=True))
    for one, other in zip(got, (weights @ B, np.swapaxes(weights, 1, 2) @ A, weights), strict=True):
        close(one, other)


@pytest.mark.parametrize("signed", [True, False])
def test_intra_sentence_attention(signed):
    layer = made(layers.IntraSentenceAttention(13, max_distance=2, signed=signed), A)
    bias = arrays(layer.distance_bias.value)[0]
    assert bias.shape == ((7,) if signed else (4,))
    weights = reference.intra_weights(network(layer, A), bias, MASKS[0], signed)
    output, scores = arrays(layer(A, mask=MASKS[0], return_attention_scores=True))
    close(scores, weights)
    close(output, np.concatenate([np.where(MASKS[0][..., None], A, 0), weights @ A], -1))


@pytest.mark.parametrize("difference", ["absolute", "signed", "squared"])
def test_attention_conflict_is_both_beside_the_sequence(difference):
    layer = made(layers.AttentionConflict(3, difference=difference), [A, B])
    output, *weights = arrays(layer([A, B], mask=MASKS, return_attention_scores=True))
    for part, matrix in zip((layer.alignment, layer.conflict), weights, strict=True):
        projections = arrays(part.u_projection.kernel.value, part.v_projection.kernel.value)
        u, v = (np.tanh(x @ kernel) for x, kernel in zip((A, B), projections, strict=True))
        if part is layer.alignment:
            close(matrix, reference.softmax_weights(u, v, both_real()))
        else:
            kernel = arrays(part.score_kernel.value)[0][:, 0]
            close(matrix, reference.conflict_weights(u, v, kernel, difference, both_real()))
    u = np.where(MASKS[0][..., None], A, 0)
    close(output, np.concatenate([u, *(matrix @ B for matrix in weights)], -1))
    assert not output[1, :, 11:].any(), "nothing of v is real there"


def test_the_features_of_the_two_sequences_may_differ():
    for layer, width in ((layers.AlignmentAttention(), 3), (layers.AttentionConflict(), 17)):
        assert tuple(layer([A, B[..., :3]]).shape) == (3, 5, width)


@pytest.mark.parametrize(
    "make,message",
    [
        (
            lambda: layers.DecomposableAttention(
                attention="signed_softmax", attention_options={"alpha": 2.0}
            ),
            r"attention='signed_softmax' accepts no `attention_options`. Received: \['alpha'\]",
        ),
        (
            lambda: layers.DecomposableAttention(attention_options={"alpha": -1.0}),
            "`alpha` must be a finite number.*alpha=-1.0",
        ),
        (
            lambda: layers.DecomposableAttention(share_networks=False),
            "attention='softmax' compares no distances.*share_networks=False",
        ),
        (
            lambda: layers.DecomposableAttention(attention="coda", attention_options={"units": 3}),
            r"attention='coda' accepts only .* as `attention_options`. Received: \['units'\]",
        ),
        (
            lambda: layers.IntraSentenceAttention(max_distance=-1),
            "`max_distance` must be.*max_distance=-1",
        ),
        (
            lambda: layers.MultiHeadConflict(2, 3, conflict_heads=3),
            "`conflict_heads` must be at most `num_heads`.*conflict_heads=3, num_heads=2",
        ),
        (
            lambda: layers.DotAttention(
                attention="conflict", attention_options={"conflict_heads": 2}
            ),
            "`conflict_heads` must be at most `num_heads`, which is 1 in a layer without heads.*=2",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_unknown_activation_is_one_error_not_two():
    with pytest.raises(ValueError, match="`last_activation` must be a function") as caught:
        layers.DecomposableAttention(4, last_activation="none such")
    assert caught.value.__suppress_context__  # Keras' own message is not shown


def test_one_unit_is_enough():
    layer = layers.CoDA(units=1)
    layer([normal(2, 3, 4), normal(2, 5, 4)])
    assert 1 in layer.weights[0].shape


@pytest.mark.parametrize(
    "layer_type", [layers.CoDA, layers.DecomposableAttention, layers.AttentionConflict]
)
def test_bad_inputs(layer_type):
    with pytest.raises(ValueError, match=r"`inputs` must be a list \[a, b\].*\(3, 11\)"):
        layer_type().build([(3, 5, 11), (3, 11)])
    with pytest.raises(
        ValueError, match="`inputs` a and b must have .* known number of features.*None"
    ):
        layer_type().build([(3, 5, 11), (3, 5, None)])
    with pytest.raises(ValueError, match=r"`mask` must be a list \[mask_a, mask_b\]"):
        layer_type()([A, B], mask=MASKS[0])


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(layers.DecomposableAttention, dropout=0.0),
        functools.partial(layers.GatedContextQueryAttention, dropout=0.5),
    ],
)
def test_without_dropout_before_what_is_compared_equal_words_have_no_distance(make):
    # With dropout, which draws for each word separately, the gate of equal words is closed in
    # training and open afterwards. So this dropout has its own option.
    options = {"scaling": "none", "similarity": "sigmoid"}
    layer = made(make(200, attention="coda", attention_options=options), [A, A])
    weights = arrays(layer([A, A], training=True, return_attention_scores=True))[-1]
    equal = np.eye(5, dtype=bool)
    assert np.all(weights[:, equal] >= 0.5) and np.all(weights[:, ~equal] < 0.1)
