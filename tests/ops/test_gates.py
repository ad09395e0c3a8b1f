"""Gates and pooling against NumPy definitions and independent vectors, gradients included."""

import gating
import numpy as np
import pytest
from conformance import cases
from keras import ops as keras_ops
from tools import run_with_gradients, to_numpy

from keras_quasiattn import ops
from keras_quasiattn.core.randomness import gumbel_noise, uniform_noise

VECTORS = cases("gated") or [(None,) * 5]
SIZES = [(3, 7, 5), (1, 1, 1), (3, 0, 2), (0, 4, 2), (5, 1, 3), (2, 13, 11)]
every_size = pytest.mark.parametrize("size", SIZES, ids=str)


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


def examples(size):
    """Return states, kernel, probability, noise, and a mask with holes and an empty last row."""
    random = np.random.default_rng(0)
    batch, length, width = size
    mask = random.random((batch, length)) > 0.3
    mask[-1:] = False
    return (
        random.normal(size=size),
        random.normal(size=width),
        random.random((batch, length)),
        random.gumbel(size=(batch, length, 2)),
        mask,
    )


@pytest.mark.parametrize(
    "name,config,inputs,outputs,gradients", VECTORS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_conformance(name, config, inputs, outputs, gradients):
    if name is None:
        pytest.skip("no conformance vectors here")
    mask = inputs.get("mask")
    if "gate" in inputs:
        weights = ops.gated_softmax(inputs["scores"], inputs["gate"], mask)
        close(to_numpy(weights), outputs["weights"])
        close(np.einsum("bt,btd->bd", to_numpy(weights), inputs["values"]), outputs["context"])
        return

    def function(probability, scores, values):
        gate = ops.gumbel_gate(probability, inputs["noise"], config["temperature"])
        weights = ops.gated_softmax(scores, gate, mask)
        return [gate, weights, keras_ops.einsum("bt,btd->bd", weights, values)]

    names = ("probability", "scores", "values")
    got, got_gradients = run_with_gradients(
        function, [inputs[name] for name in names], [None, None, inputs["cotangent"]]
    )
    for key, array in zip(("gate", "weights", "context"), got, strict=True):
        close(array, outputs[key])
    for key, array in zip(names, got_gradients, strict=True):
        close(array, gradients[key])


@every_size
@pytest.mark.parametrize("temperature", [0.1, 1.0, 2.0])
def test_gumbel_gate_and_gated_softmax(size, temperature):
    states, kernel, probability, noise, mask = examples(size)
    gates = gating.gumbel_gate(probability, noise, temperature)
    close(to_numpy(ops.gumbel_gate(probability, noise, temperature)), gates)
    scores = gating.scores(states, kernel)
    close(
        to_numpy(ops.gated_softmax(scores, gates, mask)), gating.gated_softmax(scores, gates, mask)
    )


def test_gates_at_the_ends_are_finite_and_so_are_their_gradients():
    for dtype in ("float32", "float16", "float64"):
        probability = np.array([0.0, 1e-7, 0.5, 1 - 1e-3, 1.0], dtype)
        noise = np.array([[16.0, -2.8]] * 5, dtype)
        (gates,), (gradient, _) = run_with_gradients(
            lambda p, e: [ops.gumbel_gate(p, e, 0.05)], [probability, noise], [np.ones(5)]
        )
        assert (gates > 0).all() and (gates <= 1).all() and np.isfinite(gradient).all()
        assert gates.dtype == ("float64" if dtype == "float64" else "float32")


def test_an_exact_zero_is_closed_and_large_scores_do_not_overflow():
    scores = np.array([[1e4, 0.0, -1e4], [5.0, 1.0, 2.0]])
    gates = np.array([[0.0, 1.0, 0.5], [0.0, 0.0, 0.0]])

    def function(scores, gates):
        return [ops.gated_softmax(scores, gates)]

    (weights,), gradients = run_with_gradients(function, [scores, gates], [np.ones((2, 3))])
    np.testing.assert_array_equal(weights, [[0, 1, 0], [0, 0, 0]])
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert not gradients[0][1].any() and not gradients[1][1].any()


@every_size
@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.97, 1.0])
def test_hard_gates(size, threshold):
    *_, probability, _, mask = examples(size)
    gates = to_numpy(ops.hard_gates(probability, threshold, mask))
    assert gates.dtype == "bool"
    np.testing.assert_array_equal(gates, gating.hard_gates(probability, threshold, mask))
    everything = np.ones(probability.shape, "bool")
    np.testing.assert_array_equal(
        to_numpy(ops.hard_gates(probability, threshold)),
        gating.hard_gates(probability, threshold, everything),
    )


def test_hard_gates_open_the_first_of_several_highest():
    probability = np.array([[0.1, 0.3, 0.3], [0.0, 0.0, 0.0], [0.4, 0.2, 0.1]])
    mask = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]])
    gates = to_numpy(ops.hard_gates(probability, 0.5, mask))
    np.testing.assert_array_equal(gates, [[0, 1, 0], [0, 1, 0], [0, 0, 1]])


def test_hard_gates_for_a_mask_of_pairs():
    random = np.random.default_rng(0)
    probability, mask = random.random((2, 1, 7)), random.random((2, 5, 7)) > 0.7
    mask[0, 1] = False
    gates = to_numpy(ops.hard_gates(probability, 0.9, mask))
    expected = gating.hard_gates(np.broadcast_to(probability, mask.shape), 0.9, mask)
    np.testing.assert_array_equal(gates, expected)


def test_the_same_seed_draws_the_same_everywhere():
    """The noise is integer arithmetic like dropout, but another stream.

    The expected numbers are the first draws of seed 5, in steps of 2⁻²⁴.
    """
    uniform = to_numpy(uniform_noise(np.array([5, 0], "int32"), (2, 3), draws=2))
    first = [[13240995, 12180635, 15196437], [5706039, 4432465, 15921075]]
    second = [[2669087, 16090239, 2722907], [5875547, 3821081, 15848295]]
    np.testing.assert_array_equal(uniform * 2.0**24, np.stack([first, second], axis=-1))


def test_noise_is_gumbel_and_its_draws_are_apart():
    noise = to_numpy(gumbel_noise(np.array([5, 0], "int32"), (50, 400)))
    assert noise.shape == (50, 400, 2) and noise.dtype == "float32"
    assert abs(noise.mean() - 0.5772) < 0.02 and abs(noise.var() - np.pi**2 / 6) < 0.05
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.02
    again, other = (to_numpy(gumbel_noise(np.array([s, 0], "int32"), (50, 400))) for s in (5, 6))
    np.testing.assert_array_equal(again, noise)
    assert abs(np.corrcoef(noise.ravel(), other.ravel())[0, 1]) < 0.02
    # Gates drawn with this noise are open as often as p says.
    gates = to_numpy(ops.gumbel_gate(np.full((50, 400), 0.3, "float32"), noise, 1.0))
    assert abs((gates >= 0.5).mean() - 0.3) < 0.01


@every_size
@pytest.mark.parametrize("masked", [False, True])
def test_soft_and_local_attention(size, masked):
    states, kernel, probability, _, mask = examples(size)
    given, mask = (mask, mask) if masked else (None, np.ones_like(mask))
    for gates in (None, probability):
        got = ops.soft_attention(states, kernel, given, gates=gates, return_scores=True)
        expected = gating.soft_attention(states, kernel, mask, 1.0 if gates is None else gates)
        for one, other in zip(got, expected, strict=True):
            close(to_numpy(one), other)
    center = np.random.default_rng(1).random(size[0])
    for window in (1, 3, 10):
        got = ops.local_attention(states, kernel, center, given, window=window, return_scores=True)
        for one, other in zip(
            got, gating.local_attention(states, kernel, center, mask, window), strict=True
        ):
            close(to_numpy(one), other)


def test_the_gradient_of_the_center_is_that_of_the_bell():
    states, kernel, *_, mask = examples((3, 7, 5))
    center, step = np.array([0.3, 0.61, 0.9]), 1e-6
    cotangent = np.random.default_rng(2).normal(size=(3, 5))

    def total(center):
        return (gating.local_attention(states, kernel, center, mask, 3)[0] * cotangent).sum(-1)

    _, (gradient,) = run_with_gradients(
        lambda c: [ops.local_attention(states, kernel, c, mask, window=3)], [center], [cotangent]
    )
    difference = (total(center + step) - total(center - step)) / (2 * step)
    np.testing.assert_allclose(gradient, difference, rtol=1e-6, atol=1e-9)


def test_errors():
    with pytest.raises(ValueError, match=r"`noise` must have shape \(\.\.\., 2\).*\(3, 7\)"):
        ops.gumbel_gate(np.ones((3, 7)), np.ones((3, 7)), 1.0)
    states, kernel, probability, *_ = examples((3, 7, 5))
    floats = np.ones((3, 7))
    for call in (
        lambda: ops.gated_softmax(probability, probability, floats),
        lambda: ops.hard_gates(probability, 0.5, floats),
        lambda: ops.soft_attention(states, kernel, floats),
        lambda: ops.local_attention(states, kernel, np.ones(3), floats),
    ):
        with pytest.raises(ValueError, match="`mask` must be boolean.*float64"):
            call()
    with pytest.raises(ValueError, match="`window` must be above 0.*window=0"):  # gave NaN
        ops.local_attention(states, kernel, np.ones(3), window=0)
