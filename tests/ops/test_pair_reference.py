"""Alignment, conflict and intra-sentence attention against the plain NumPy definitions."""

import numpy as np
import pytest
import reference
from checks import arrays, check_gradients, close, every_size
from tools import to_numpy

from keras_quasiattn import ops


def sequence_mask(length, seed=5):
    """Return a mask (2, 1, length): holes in the first example, nothing in the second."""
    mask = np.random.default_rng(seed).random((2, 1, length)) > 0.3
    mask[1] = False
    return mask


def pair_of_masks(size):
    """Return two masks; the first is empty in example 1, the second in example 0."""
    return sequence_mask(size[0]), sequence_mask(size[1], seed=6)[::-1]


def both_real(mask_a, mask_b):
    return mask_a[..., :, None] & mask_b[..., None, :]


every_difference = pytest.mark.parametrize("difference", ["absolute", "signed", "squared"])


@every_size
def test_alignment_attention(size):
    u, v, values = arrays(size)
    for mask in (None, sequence_mask(size[1])):
        weights = reference.softmax_weights(u, v, None if mask is None else mask[..., None, :])
        got = ops.alignment_attention(u, v, values, mask, return_scores=True)
        for one, other in zip(to_numpy(list(got)), (weights @ values, weights), strict=True):
            close(one, other)


@every_size
def test_alignment_pair(size):
    a, b, value_b = arrays(size)
    value_a = a * a
    for masks in ((None, None), pair_of_masks(size), (None, sequence_mask(size[1]))):
        full = [
            np.ones(x.shape[:-1], "bool") if m is None else m
            for x, m in zip((a, b), masks, strict=True)
        ]
        to_b = reference.softmax_weights(a, b, both_real(*full))
        to_a = reference.softmax_weights(b, a, both_real(*full[::-1]))
        got = ops.alignment_pair(a, b, *masks, value_a=value_a, value_b=value_b, return_scores=True)
        expected = to_b @ value_b, to_a @ value_a, to_b, np.swapaxes(to_a, -1, -2)
        for one, other in zip(to_numpy(list(got)), expected, strict=True):
            close(one, other)


@every_size
@every_difference
def test_conflict_attention(size, difference):
    u, v, values = arrays(size)
    kernel = np.random.default_rng(2).normal(size=size[2])
    for mask in (None, sequence_mask(size[1])):
        keys = None if mask is None else mask[..., None, :]
        weights = reference.conflict_weights(u, v, kernel, difference, keys)
        got = ops.conflict_attention(u, v, kernel, values, mask, difference, return_scores=True)
        for one, other in zip(to_numpy(list(got)), (weights @ values, weights), strict=True):
            close(one, other)
        close(
            to_numpy(ops.conflict_attention(u, v, kernel, values, mask, difference)),
            weights @ values,
        )


@every_size
@pytest.mark.parametrize("signed", [True, False])
def test_intra_attention(size, signed):
    features, _, _ = arrays(size)
    values = features[..., :1] ** 2
    for largest in (0, 2, 40):
        bias = np.random.default_rng(2).normal(size=2 * largest + 3 if signed else largest + 2)
        for mask in (None, sequence_mask(size[0])):
            full = np.ones(features.shape[:-1], "bool") & (True if mask is None else mask)
            weights = reference.intra_weights(features, bias, full, signed)
            got = ops.intra_attention(
                features, values, bias, mask, signed=signed, return_scores=True
            )
            for one, other in zip(to_numpy(list(got)), (weights @ values, weights), strict=True):
                close(one, other)


@pytest.mark.parametrize("side", [0, 1])
def test_alignment_gradients(side):
    inputs = arrays((3, 4, 2), leading=(2, 1), value_features=3)
    mask = sequence_mask(4)
    check_gradients(
        lambda u, v, values: ops.alignment_attention(u, v, values, mask),
        lambda u, v, values: reference.softmax_weights(u, v, mask[..., None, :]) @ values,
        inputs,
    )
    masks = pair_of_masks((3, 4))

    def truth(a, b, value_b):
        x, y, value = ((a, b, value_b), (b, a, a * a))[side]
        return reference.softmax_weights(x, y, both_real(masks[side], masks[1 - side])) @ value

    check_gradients(
        lambda a, b, value_b: ops.alignment_pair(a, b, *masks, value_a=a * a, value_b=value_b)[
            side
        ],
        truth,
        inputs,
    )


@every_difference
def test_signed_conflict_did_not_have_the_leading_axes_of_u(difference):
    u, v = arrays((5, 7, 3))[0], arrays((5, 7, 3), leading=(3,))[1]  # (2, 3, 5, 3) and (3, 7, 3)
    kernel = np.array([0.7, -1.3, 0.4])
    weights = reference.conflict_weights(u, v, kernel, difference, None)
    got = ops.conflict_attention(u, v, kernel, v, None, difference, return_scores=True)
    for one, other in zip(to_numpy(list(got)), (weights @ v, weights), strict=True):
        close(one, other)
    options = {"difference": difference, "return_scores": True}
    got = ops.multi_head_conflict_attention(u, v, v, kernel[:, None], **options)
    of_head = reference.conflict_weights(np.tanh(u[:, 2]), np.tanh(v[2]), kernel, difference, None)
    close(to_numpy(got[1])[:, 2], of_head)


@every_difference
def test_conflict_gradients(difference):
    inputs = arrays((3, 4, 2), leading=(2, 1), value_features=3)
    kernel, mask = np.array([0.7, -1.3]), sequence_mask(4)
    check_gradients(
        lambda u, v, values, kernel: ops.conflict_attention(u, v, kernel, values, mask, difference),
        lambda u, v, values, kernel: (
            reference.conflict_weights(u, v, kernel, difference, mask[..., None, :]) @ values
        ),
        [*inputs, kernel],
    )


@pytest.mark.parametrize("signed", [True, False])
def test_intra_gradients(signed):
    features, _, _ = arrays((4, 1, 2), leading=(2, 1))
    bias = np.random.default_rng(2).normal(size=5 if signed else 3)
    mask = sequence_mask(4)
    check_gradients(
        lambda x, values, bias: ops.intra_attention(x, values, bias, mask, signed=signed),
        lambda x, values, bias: reference.intra_weights(x, bias, mask, signed) @ values,
        [features, features**2, bias],
    )


@every_difference
def test_conflict_of_float16_is_computed_in_float32(difference):
    u, v, values = (x.astype("float16") for x in arrays((5, 7, 11)))
    kernel = np.random.default_rng(2).normal(size=11).astype("float32")
    expected = ops.conflict_attention(
        *(x.astype("float32") for x in (u, v)), kernel, values, None, difference
    )
    np.testing.assert_array_equal(
        to_numpy(ops.conflict_attention(u, v, kernel, values, None, difference)), to_numpy(expected)
    )
