"""Reading layers beyond the laws: what they compute, their gradients, and what they reject."""

import random

import keras
import numpy as np
import pytest
import reading_reference as reference
from layer_case import made
from tools import run_with_gradients, to_numpy

from keras_quasiattn import layers, ops

A = np.random.default_rng(0).normal(size=(3, 5, 7))
B = np.random.default_rng(1).normal(size=(3, 4, 7))
WIDE = np.random.default_rng(2).normal(size=(3, 4, 3))
MASKS = [np.arange(5) < np.array([[5], [2], [1]]), np.arange(4) < np.array([[4], [1], [3]])]


def weights_of(layer):
    return {weight.path.rpartition("/")[2]: to_numpy(weight.value) for weight in layer.weights}


def in_order(layer):
    return [to_numpy(weight.value) for weight in layer.weights]


def padded(rows, length):
    return np.pad(rows, ((0, length - len(rows)), (0, 0)))


# On JAX and PyTorch Keras' own layers multiply matrices in float32 under any policy.
OF_KERAS = 1e-9 if keras.backend.backend() == "tensorflow" else 1e-4


def check(layer_call, expected_of, inputs, error=1e-9):
    """Check outputs against the reference, and gradients against its differences."""
    random = np.random.default_rng(5)
    expected = expected_of(*inputs)
    cotangents = [random.normal(size=x.shape) for x in expected]
    outputs, gradients = run_with_gradients(layer_call, inputs, cotangents)
    for one, other in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=error, atol=error)
    step = 1e-6
    for number, gradient in enumerate(gradients):
        direction = random.normal(size=gradient.shape)

        def total(shift, number=number, direction=direction):
            moved = [x + shift * direction if i == number else x for i, x in enumerate(inputs)]
            return sum((x * c).sum() for x, c in zip(expected_of(*moved), cotangents, strict=True))

        slope = (total(step) - total(-step)) / (2 * step)
        np.testing.assert_allclose(
            (gradient * direction).sum(), slope, rtol=max(1e-5, 10 * error), atol=1e-6 + error
        )


def by_example(function, count=1):
    """Turn a reference for single examples without padding into one for batches."""

    def batched(a, b):
        results = [function(x[m], y[n]) for x, y, m, n in zip(a, b, *MASKS, strict=True)]
        results = [one if count == 2 else [one] for one in results]
        lengths = (a.shape[1], b.shape[1])
        return [np.stack([padded(one[i], lengths[i]) for one in results]) for i in range(count)]

    return batched


@pytest.mark.parametrize("use_intra", [False, True])
def test_connector(use_intra):
    layer = made(
        layers.BidirectionalAttentionConnector(3, use_intra=use_intra, dtype="float64"), [A, B]
    )
    kernels, rest = in_order(layer)[:2], in_order(layer)[2:]
    machines = [rest[start : start + 3] for start in range(0, len(rest), 3)]
    assert len(machines) == (6 if use_intra else 3)
    check(
        lambda a, b: layer([a, b], mask=MASKS),
        by_example(lambda x, y: reference.connector(x, y, kernels, machines), 2),
        [A, B],
    )


def test_connector_weights_are_both_softmaxes():
    layer = made(layers.BidirectionalAttentionConnector(3), [A, B])
    _, _, rows, columns = to_numpy(layer([A, B], mask=MASKS, return_attention_scores=True))
    np.testing.assert_allclose(rows.sum(-1)[MASKS[0]], 1, rtol=1e-5)
    np.testing.assert_allclose(columns.sum(1)[MASKS[1]], 1, rtol=1e-5)


def test_connector_starts_with_numbers_near_zero_of_its_own_for_each_operator():
    layer = layers.BidirectionalAttentionConnector()
    layer.build([A.shape, B.shape])
    values = weights_of(layer)
    for operator in ("product", "concatenation", "difference"):
        assert not values[f"{operator}_bias"].any() and not values[f"{operator}_weights"].any()
        assert 0.05 < values[f"{operator}_factors"].std() < 0.15
        assert values[f"{operator}_factors"].shape == (14 if operator == "concatenation" else 7, 32)
    assert not np.array_equal(values["product_factors"], values["difference_factors"])
    assert not np.array_equal(values["projection_0"], values["projection_1"])


def test_factorization_machine():
    layer = made(layers.FactorizationMachine(3, dtype="float64"), A)
    values = in_order(layer)
    check(
        lambda a: [layer(a, mask=MASKS[0])],
        lambda a: [np.where(MASKS[0], reference.factorization(a, *values), 0)[..., None]],
        [A],
    )


def test_a_given_initializer_of_the_factors_draws_no_seed_for_the_default():
    layer = layers.FactorizationMachine(3, factors_initializer="ones")
    config = layer.get_config()
    before = random.getstate()
    layers.FactorizationMachine.from_config(config)
    assert random.getstate() == before


def test_factorization_machine_refuses_other_features():
    with pytest.raises(ValueError, match="because `z` has 7 features"):
        ops.factorization_machine(A, 0.0, np.zeros(6), np.zeros((7, 2)))


@pytest.mark.parametrize("other", [WIDE, B], ids=["wider", "as wide"])
@pytest.mark.parametrize("coda", [False, True], ids=["softmax", "coda"])
def test_gated_context_query_attention(coda, other):
    options = {"alpha": 0.5, "beta": 0.25, "gate_range": "centered"} if coda else {}
    given = (
        {"attention": "coda", "attention_options": {**options, "scaling": "none"}} if coda else {}
    )
    layer = made(layers.GatedContextQueryAttention(4, dtype="float64", **given), [A, other])
    # CoDA has one F for both, if they are equally wide.
    query = layer.context_projection if coda and other is B else layer.query_projection
    kernels = [in_order(part)[0] for part in (layer.context_projection, query, layer.gate)]
    check(
        lambda a, b: [layer([a, b], mask=MASKS)],
        by_example(lambda p, q: reference.gated_context(p, q, *kernels, **options)),
        [A, other],
        OF_KERAS,
    )


def test_attention_flow():
    layer = made(layers.AttentionFlow(dtype="float64"), [A, B])
    kernel = in_order(layer)[0][:, 0]
    check(
        lambda a, b: [layer([a, b], mask=MASKS)],
        by_example(lambda p, q: reference.attention_flow(p, q, kernel)),
        [A, B],
    )
    found, matters = ops.attention_flow(A, B, A, B, mask_v=np.zeros((3, 4), "bool"))
    assert not to_numpy(found).any() and not to_numpy(matters).any()


def test_recurrent_span_pointer():
    layer = made(layers.RecurrentSpanPointer(2, dtype="float64"), A)
    first, second = (in_order(part) for part in (layer.start_recurrent, layer.end_recurrent))
    ends = [in_order(part) for part in (layer.start_logit, layer.end_logit)]

    def logits(p, _):
        start = reference.bidirectional(p, first)
        end = reference.bidirectional(start, second)
        parts = [h @ kernel for h, (kernel,) in zip((start, end), ends, strict=True)]
        return np.concatenate(parts, -1)

    check(
        lambda a, b: [layer(a, mask=MASKS[0]) + 0 * b[:, :1, :2]],
        by_example(logits),
        [A, B],
        OF_KERAS,
    )


def test_attentive_span_pointer():
    layer = made(layers.AttentiveSpanPointer(5, dtype="float64"), [A, WIDE])
    values = weights_of(layer)
    names = ("question_kernel", "passage_kernel", "state_kernel", "question_score", "passage_score")
    given = [values[name] for name in names]
    gru = in_order(layer.recurrent_cell)
    check(
        lambda a, b: [layer([a, b], mask=MASKS)],
        by_example(lambda p, q: reference.attentive_pointer(p, q, *given, gru)),
        [A, WIDE],
        OF_KERAS,
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: layers.BidirectionalAttentionConnector()([A, WIDE]),
            "the same, known number of features",
        ),
        (lambda: layers.AttentiveSpanPointer(2.5), "`units` must be a positive integer"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
