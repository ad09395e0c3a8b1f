"""The ops against the plain NumPy definitions, at odd, unequal and degenerate sizes; gradients by differences."""

import itertools

import numpy as np
import pytest
import reference
from tools import CODA_IMPLEMENTATIONS, run_with_gradients, to_numpy

from keras_quasiattn import ops

SIZES = [
    (5, 7, 11),
    (7, 5, 1),
    (1, 7, 3),
    (5, 1, 3),
    (1, 1, 1),
    (0, 7, 3),
    (5, 0, 3),
    (0, 0, 3),
    (17, 33, 13),
]
every_size = pytest.mark.parametrize("size", SIZES, ids=str)
every_implementation = pytest.mark.parametrize("implementation", CODA_IMPLEMENTATIONS)

OPTIONS = [
    *(
        {"similarity": similarity, "gate": gate, "gate_range": gate_range}
        for similarity, gate in itertools.product(
            ("tanh", "sigmoid"), ("sigmoid", "tanh", "arctan", "algebraic")
        )
        for gate_range in ("scaled", "centered")
    ),
    {"gate_range": "raw"},
    {"center_similarity": True},
    {"center_similarity": True, "gate_range": "centered", "center_per_query": True},
    {"is_causal": True},
    {"is_causal": True, "center_similarity": True, "gate_range": "centered"},
    {"alpha": 0.25, "beta": 0.125},
]
every_option = pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda options: "-".join(str(value) for value in options.values())
)


def arrays(size, leading=(2, 3), value_features=4):
    length, source, features = size
    random = np.random.default_rng(0)
    return [
        0.5 * random.normal(size=(*leading, *shape))
        for shape in ((length, features), (source, features), (source, value_features))
    ]


def some_mask(size):
    """(2, 1, T, S) with an empty row, an empty column and an empty example."""
    mask = np.random.default_rng(1).random((2, 1, *size[:2])) > 0.4
    mask[0, :, :1] = False
    mask[0, :, :, -1:] = False
    mask[1] = False
    return mask


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


@every_size
def test_pairwise_l1(size):
    x, y, _ = arrays(size)
    weights = np.random.default_rng(2).normal(size=size[2])
    close(to_numpy(ops.pairwise_l1(x, y)), reference.pairwise_l1(x, y))
    close(to_numpy(ops.pairwise_l1(x[:, :1], y, weights)), reference.pairwise_l1(x[:, :1], y, weights))


@every_implementation
@every_option
def test_coda_attention_options(options, implementation):
    query, key, value = arrays((5, 7, 11))
    for mask in (None, some_mask((5, 7)), some_mask((5, 7))[:, :, :1], some_mask((5, 7))[:, :, :, :1]):
        check_coda((query, key, value), mask, options, implementation)


@every_implementation
@every_size
def test_coda_attention_sizes(size, implementation):
    for options in ({}, {"gate_range": "centered", "center_similarity": True}, {"is_causal": True}):
        for mask in (None, some_mask(size)):
            check_coda(arrays(size), mask, options, implementation)


def check_coda(inputs, mask, options, implementation):
    query, key, value = inputs
    weights = reference.coda_weights(query, key, mask, **options)
    options = {**options, "implementation": implementation}
    output, scores = to_numpy(ops.coda_attention(*inputs, mask, return_scores=True, **options))
    close(scores, weights)
    close(output, weights @ value)
    close(to_numpy(ops.coda_attention(*inputs, mask, **options)), weights @ value)


@every_implementation
def test_coda_attention_with_temperatures_per_head(implementation):
    query, key, value = arrays((5, 7, 11))
    temperatures = {
        "alpha": np.array([0.5, 1.0, 2.0])[:, None, None],
        "beta": np.array([[[0.1]], [[0.0]], [[1.0]]]),
    }
    check_coda((query, key, value), some_mask((5, 7)), temperatures, implementation)


@every_implementation
@every_size
def test_coda_pair(size, implementation):
    a, b, _ = arrays(size, leading=(2,))
    distance = [0.7 * x[..., :1] for x in (a, b)]
    values = [np.concatenate([x, x * x], -1) for x in (a, b)]
    mask_a, mask_b = (np.random.default_rng(3).random((2, n)) > 0.3 for n in size[:2])
    mask_b[1] = False
    for options in (
        {},
        {"gate_range": "centered", "center_similarity": True},
        {"gate": "arctan", "alpha": 0.5},
    ):
        for masks in ((None, None), (mask_a, mask_b), (None, mask_b)):
            pair = np.ones((2, *size[:2]), "bool")
            pair &= True if masks[0] is None else masks[0][:, :, None]
            pair &= True if masks[1] is None else masks[1][:, None]
            weights = reference.coda_weights(a, b, pair, distance=distance, **options)
            result = ops.coda_pair(
                a,
                b,
                *masks,
                distance_a=distance[0],
                distance_b=distance[1],
                value_a=values[0],
                value_b=values[1],
                return_scores=True,
                implementation=implementation,
                **options,
            )
            expected = weights @ values[1], np.swapaxes(weights, -1, -2) @ values[0], weights
            for got, truth in zip(to_numpy(list(result)), expected, strict=True):
                close(got, truth)


@every_size
@pytest.mark.parametrize("is_causal", [False, True])
def test_softmax_attention(size, is_causal):
    query, key, value = arrays(size)
    for mask in (None, some_mask(size)):
        weights = reference.softmax_weights(query, key, mask, scale=0.3, is_causal=is_causal)
        output, scores = to_numpy(
            ops.softmax_attention(query, key, value, mask, scale=0.3, is_causal=is_causal, return_scores=True)
        )
        close(scores, weights)
        close(output, weights @ value)


def test_softmax_attention_of_large_scores():
    x = np.array([[[1e4], [-1e4]]], "float32")
    np.testing.assert_array_equal(to_numpy(ops.softmax_attention(x, x, x)), x)


def central_difference(function, inputs, cotangent, step=1e-6):
    gradients = []
    for index, array in enumerate(inputs):
        gradient = np.zeros_like(array)
        for position in np.ndindex(array.shape):
            moved = [x.copy() for x in inputs]
            moved[index][position] += step
            above = (function(*moved) * cotangent).sum()
            moved[index][position] -= 2 * step
            gradient[position] = (above - (function(*moved) * cotangent).sum()) / (2 * step)
        gradients.append(gradient)
    return gradients


def check_gradients(op, truth, inputs):
    cotangent = np.random.default_rng(4).normal(size=truth(*inputs).shape)
    _, gradients = run_with_gradients(lambda *x: [op(*x)], inputs, [cotangent])
    for got, expected in zip(gradients, central_difference(truth, inputs, cotangent), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)


@every_implementation
@every_option
def test_coda_attention_gradients(options, implementation):
    inputs = arrays((3, 4, 2), leading=(2, 1), value_features=3)
    mask = some_mask((3, 4))
    numbers = {key: options[key] for key in ("alpha", "beta") if key in options}
    others = {key: value for key, value in options.items() if key not in numbers}
    temperatures = [np.array(numbers.get(key, 1.0)) for key in ("alpha", "beta")]

    def op(query, key, value, alpha, beta):
        return ops.coda_attention(
            query, key, value, mask, alpha=alpha, beta=beta, implementation=implementation, **others
        )

    def truth(query, key, value, alpha, beta):
        return reference.coda_weights(query, key, mask, alpha=alpha, beta=beta, **others) @ value

    check_gradients(op, truth, [*inputs, *temperatures])


def test_softmax_attention_gradients():
    mask = some_mask((3, 4))
    check_gradients(
        lambda q, k, v: ops.softmax_attention(q, k, v, mask, scale=0.5),
        lambda q, k, v: reference.softmax_weights(q, k, mask, scale=0.5) @ v,
        arrays((3, 4, 2), leading=(2, 1), value_features=3),
    )


def test_the_distance_of_a_position_to_itself_has_no_gradient():
    x = np.random.default_rng(0).normal(size=(4, 3))
    _, (left, right) = run_with_gradients(
        lambda x, y: [ops.pairwise_l1(x, y)], [x, x.copy()], [np.diag(np.arange(1.0, 5.0))]
    )
    assert not left.any() and not right.any()


def sequence_mask(length, seed=5):
    """(2, 1, length): holes in the first example, nothing in the second."""
    mask = np.random.default_rng(seed).random((2, 1, length)) > 0.3
    mask[1] = False
    return mask


def pair_of_masks(size):
    """Nothing is real in the first side's second example, nor in the second side's first."""
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
        full = [np.ones(x.shape[:-1], "bool") if m is None else m for x, m in zip((a, b), masks, strict=True)]
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
        close(to_numpy(ops.conflict_attention(u, v, kernel, values, mask, difference)), weights @ values)


def multi_head_conflict_weights(query, key, kernels, difference, mask, is_causal=False):
    count = kernels.shape[1]
    weights = reference.softmax_weights(query, key, mask, scale=0.3, is_causal=is_causal)
    for index, head in enumerate(range(query.shape[1] - count, query.shape[1])):
        heads = None if mask is None else np.broadcast_to(mask, weights.shape)[:, head]
        u, v = np.tanh(query[:, head]), np.tanh(key[:, head])
        weights[:, head] = reference.conflict_weights(u, v, kernels[:, index], difference, heads, is_causal)
    return weights


@every_size
@every_difference
def test_multi_head_conflict_attention(size, difference):
    query, key, value = arrays(size)
    for count, is_causal in itertools.product((1, 2, 3), (False, True)):
        kernels = np.random.default_rng(2).normal(size=(size[2], count))
        for mask in (None, some_mask(size)):
            weights = multi_head_conflict_weights(query, key, kernels, difference, mask, is_causal)
            got = ops.multi_head_conflict_attention(
                *(query, key, value, kernels, mask),
                scale=0.3,
                difference=difference,
                is_causal=is_causal,
                return_scores=True,
            )
            for one, other in zip(to_numpy(list(got)), (weights @ value, weights), strict=True):
                close(one, other)


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
            got = ops.intra_attention(features, values, bias, mask, signed=signed, return_scores=True)
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
        lambda a, b, value_b: ops.alignment_pair(a, b, *masks, value_a=a * a, value_b=value_b)[side],
        truth,
        inputs,
    )


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
    mask = some_mask((3, 4))
    check_gradients(
        lambda q, k, v, kernels: ops.multi_head_conflict_attention(
            q, k, v, kernels, mask, scale=0.3, difference=difference
        ),
        lambda q, k, v, kernels: multi_head_conflict_weights(q, k, kernels, difference, mask) @ v,
        [*arrays((3, 4, 2), leading=(2, 2), value_features=3), kernel[:, None]],
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


def test_the_printed_conflict_does_not_look_at_the_first_sequence():
    u, v, values = arrays((5, 7, 11))
    kernel = np.random.default_rng(2).normal(size=11)
    got = to_numpy(ops.conflict_attention(u, v, kernel, values, difference="signed"))
    np.testing.assert_array_equal(
        got, to_numpy(ops.conflict_attention(-u, v, kernel, values, None, "signed"))
    )
    np.testing.assert_array_equal(got, np.broadcast_to(got[..., :1, :], got.shape))
