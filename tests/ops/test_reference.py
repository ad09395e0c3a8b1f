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
