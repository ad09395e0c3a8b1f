"""The ops against plain NumPy definitions, at odd, unequal and degenerate sizes.

Gradients are compared with differences.
"""

import itertools

import numpy as np
import pytest
import reference
from checks import SIZES, arrays, check_gradients, close, every_size, some_mask
from tools import CODA_IMPLEMENTATIONS, run_with_gradients, sampled, to_numpy

from keras_quasiattn import ops

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


def name_of(option):
    """Return the values of a dictionary of options."""
    return (
        "-".join(str(value) for value in option.values())
        if isinstance(option, dict)
        else str(option)
    )


def some_options(seed):
    """Sample a third of the product of options and implementations.

    Every implementation occurs with every option.
    """
    product = itertools.product(OPTIONS, CODA_IMPLEMENTATIONS)
    return pytest.mark.parametrize(
        "options,implementation", sampled(product, 36, seed), ids=name_of
    )


def some_sizes(seed):
    """Sample a third of the product of sizes and implementations."""
    product = itertools.product(SIZES, CODA_IMPLEMENTATIONS)
    return pytest.mark.parametrize("size,implementation", sampled(product, 14, seed), ids=name_of)


@every_size
def test_pairwise_l1(size):
    x, y, _ = arrays(size)
    weights = np.random.default_rng(2).normal(size=size[2])
    close(to_numpy(ops.pairwise_l1(x, y)), reference.pairwise_l1(x, y))
    close(
        to_numpy(ops.pairwise_l1(x[:, :1], y, weights)), reference.pairwise_l1(x[:, :1], y, weights)
    )


@some_options(seed=0)
def test_coda_attention_options(options, implementation):
    query, key, value = arrays((5, 7, 11))
    for mask in (
        None,
        some_mask((5, 7)),
        some_mask((5, 7))[:, :, :1],
        some_mask((5, 7))[:, :, :, :1],
    ):
        check_coda((query, key, value), mask, options, implementation)


@some_sizes(seed=0)
def test_coda_attention_sizes(size, implementation):
    for options in ({}, {"gate_range": "centered", "center_similarity": True}, {"is_causal": True}):
        for mask in (None, some_mask(size)):
            check_coda(arrays(size), mask, options, implementation)


def check_coda(inputs, mask, options, implementation):
    query, key, value = inputs
    weights = reference.coda_weights(query, key, mask, **options)
    options = {**options, "implementation": implementation}
    close(to_numpy(ops.coda_attention(*inputs, mask, **options)), weights @ value)
    if implementation != "compiled":  # which has no scores
        output, scores = to_numpy(ops.coda_attention(*inputs, mask, return_scores=True, **options))
        close(scores, weights)
        close(output, weights @ value)


@every_implementation
def test_coda_attention_with_temperatures_per_head(implementation):
    query, key, value = arrays((5, 7, 11))
    temperatures = {
        "alpha": np.array([0.5, 1.0, 2.0])[:, None, None],
        "beta": np.array([[[0.1]], [[0.0]], [[1.0]]]),
    }
    check_coda((query, key, value), some_mask((5, 7)), temperatures, implementation)


@some_sizes(seed=1)
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
            expected = weights @ values[1], np.swapaxes(weights, -1, -2) @ values[0], weights
            for return_scores in (False, True) if implementation != "compiled" else (False,):
                result = ops.coda_pair(
                    a,
                    b,
                    *masks,
                    distance_a=distance[0],
                    distance_b=distance[1],
                    value_a=values[0],
                    value_b=values[1],
                    return_scores=return_scores,
                    implementation=implementation,
                    **options,
                )
                for got, truth in zip(
                    to_numpy(list(result)), expected[: 2 + return_scores], strict=True
                ):
                    close(got, truth)


@some_options(seed=1)
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


def test_the_distance_of_a_position_to_itself_has_no_gradient():
    x = np.random.default_rng(0).normal(size=(4, 3))
    _, (left, right) = run_with_gradients(
        lambda x, y: [ops.pairwise_l1(x, y)], [x, x.copy()], [np.diag(np.arange(1.0, 5.0))]
    )
    assert not left.any() and not right.any()
