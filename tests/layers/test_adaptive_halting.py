import keras
import numpy as np
import pytest
from keras import ops
from tools import run_with_gradients

from keras_quasiattn.layers import AdaptiveHalting

B, T, D, STEPS = 3, 5, 7, 4


def run(halting, block, x, steps=STEPS, **options):
    progress = None
    for n in range(steps):
        here = x if progress is None else progress["state"]
        progress = halting(here, block(here), progress, is_last=n == steps - 1, **options)
    return {name: ops.convert_to_numpy(value) for name, value in progress.items()}


def make(spread=1.0, **options):
    """Return a halting unit that distinguishes positions, and a block that changes them."""
    generator = np.random.default_rng(5)
    halting = AdaptiveHalting(**options)
    halting.build((None, None, D))
    kernel, bias = generator.normal(scale=spread, size=(D, 1)).astype("float32"), np.zeros(1)
    halting.unit.set_weights([kernel, bias])
    turn = generator.normal(scale=0.5, size=(D, D)).astype("float32")
    return halting, kernel, turn, generator.normal(size=(B, T, D)).astype("float32")


def by_definition(x, kernel, turn, threshold):
    """Return one position's output, last state, number of steps and remainder, in float64."""
    x, spent, output = x.astype("float64"), 0.0, 0.0
    for n in range(1, STEPS + 1):
        probability = 1 / (1 + np.exp(-(x @ kernel)[0]))
        x = np.tanh(x @ turn)
        if spent + probability > threshold or n == STEPS:
            return output + (1 - spent) * x, x, n, 1 - spent
        output, spent = output + probability * x, spent + probability


@pytest.mark.parametrize("threshold", [0.5, 0.99, 1.0])
def test_every_position_goes_its_own_way(threshold):
    halting, kernel, turn, x = make(threshold=threshold)
    got = run(halting, lambda x: ops.tanh(ops.matmul(x, turn)), x)
    want = [by_definition(position, kernel, turn, threshold) for position in x.reshape(-1, D)]
    for name, values in zip(
        ("output", "state", "steps", "remainder"), zip(*want, strict=True), strict=True
    ):
        values = np.stack(values).reshape(B, T, -1)
        np.testing.assert_allclose(got[name], values, atol=1e-5, err_msg=name)
    assert not got["running"].any()
    assert len(np.unique(got["steps"])) >= 2


def test_a_mean_of_equal_states_is_that_state():
    halting, *_, x = make()
    np.testing.assert_allclose(run(halting, lambda x: x, x)["output"], x, atol=1e-6)


def test_the_cost_counts_real_positions_in_training_only():
    halting, _, turn, x = make(ponder_weight=0.5)
    mask = np.arange(T) < np.array([[T], [2], [0]])
    x[~mask] = np.nan
    got = run(halting, lambda x: ops.tanh(ops.matmul(x, turn)), x, mask=mask)
    assert not halting.losses
    run(halting, lambda x: ops.tanh(ops.matmul(x, turn)), x, mask=mask, training=True)
    (loss,) = halting.losses
    assert float(loss) == pytest.approx(
        0.5 * (got["steps"] + got["remainder"])[mask].mean(), rel=1e-5
    )
    nothing = np.zeros((B, T), "bool")
    run(halting, lambda x: x, np.zeros_like(x), mask=nothing, training=True)
    assert float(halting.losses[0]) == 0.0
    free = make(ponder_weight=0.0)[0]
    run(free, lambda x: x, np.zeros_like(x), training=True)
    assert not free.losses


def test_nan_at_padding_was_in_the_gradient_of_the_cost():
    halting, *_, x = make()
    mask = np.arange(T) < np.array([[T], [2], [0]])
    x[~mask] = np.nan

    def cost(x):
        progress = halting(x, x, mask=mask, training=True)
        halting(x, x, progress, mask=mask, is_last=True, training=True)
        return halting.losses

    _, (gradient,) = run_with_gradients(cost, [x], [1.0])
    assert np.isfinite(gradient).all() and gradient[mask].any() and not gradient[~mask].any()
    assert np.isfinite(run(halting, lambda x: x, x, mask=mask)["output"]).all()


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_sums_are_not_rounded_to_16_bits(policy):
    halting = AdaptiveHalting(
        initial_bias=-9.0, dtype=policy
    )  # p = 1.2e-4, lost beside 1/2 in bfloat16
    halting.build((None, None, D))
    x = ops.zeros((1, 1, D), dtype=halting.compute_dtype)
    got = run(halting, lambda x: x, x, steps=3)
    assert got["spent"].dtype == got["output"].dtype == "float32"
    assert got["remainder"][0, 0, 0] == pytest.approx(1 - 2 / (1 + np.exp(9.0)), abs=1e-7)


def test_the_first_bias_says_how_early_positions_halt():
    x = np.zeros((1, 1, D), "float32")
    steps = [
        run(AdaptiveHalting(initial_bias=bias), lambda x: x, x)["steps"].item()
        for bias in (-3.0, 1.0, 9.0)
    ]
    assert steps == [4, 2, 1]


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="threshold=0"):
        AdaptiveHalting(threshold=0)
    with pytest.raises(ValueError, match="ponder_weight=-1"):
        AdaptiveHalting(ponder_weight=-1)
    with pytest.raises(ValueError, match="with a known width"):
        AdaptiveHalting().build((None, D))
    with pytest.raises(ValueError, match="`mask`"):
        x = keras.ops.ones((1, 2, D))
        AdaptiveHalting()(x, x, mask=np.ones((1, 2), "float32"))


def test_the_mask_that_an_earlier_layer_set_did_not_count_in_the_cost():
    halting, *_, x = make(ponder_weight=0.5)
    mask = np.arange(T) < np.array([[T], [2], [0]])
    x[~mask] = 0.0  # what `Masking` looks for
    costs = []
    for inputs, given in ((keras.layers.Masking()(x), None), (x, mask)):
        run(halting, lambda x: x, inputs, mask=given, training=True)
        costs.append(float(halting.losses[0]))
    assert costs[0] == pytest.approx(costs[1], rel=1e-6)
