import keras
import numpy as np
import pytest
from keras import ops

from keras_quasiattn.layers import StepSignal, TimingSignal


def signal(length, width, **arguments):
    call = {name: arguments.pop(name) for name in ("start_index",) if name in arguments}
    return ops.convert_to_numpy(TimingSignal(**arguments)(ops.zeros((1, length, width)), **call))[0]


@pytest.mark.parametrize("width", [1, 2, 3, 8, 11])
def test_timing_signal_is_tensor2tensors(width):
    half = width // 2
    rates = np.exp(-np.log(500.0) / max(half - 1, 1) * np.arange(half))
    angles = np.arange(4)[:, None] * rates
    want = np.concatenate([np.sin(angles), np.cos(angles), np.zeros((4, width % 2))], axis=1)
    np.testing.assert_allclose(signal(4, width, max_timescale=500.0), want, atol=1e-6)


def test_timing_signal_of_a_piece_is_a_piece_of_the_signal():
    whole = signal(9, 6)
    np.testing.assert_allclose(signal(3, 6, start_index=5), whole[5:8], atol=1e-6)
    start = ops.convert_to_tensor(5, dtype="int32")
    np.testing.assert_allclose(signal(3, 6, start_index=start), whole[5:8], atol=1e-6)


def test_timing_signal_tells_distant_positions_apart_in_half_precision():
    layer = TimingSignal(dtype="mixed_float16")
    out = layer(ops.zeros((1, 2, 4)), start_index=4096)
    assert keras.backend.standardize_dtype(out.dtype) == "float16"
    np.testing.assert_allclose(
        ops.convert_to_numpy(out)[0].astype("float32"), signal(2, 4, start_index=4096), atol=1e-3
    )


def test_timing_signal_in_float64_was_rounded_to_float32():
    layer = TimingSignal(dtype="float64")
    angles = 4096.0 * 1e4 ** -np.array([0.0, 1.0])
    want = np.concatenate([np.sin(angles), np.cos(angles)])
    got = ops.convert_to_numpy(layer(np.zeros((1, 1, 4)), start_index=4096))[0, 0]
    np.testing.assert_allclose(got, want, atol=1e-10)


def test_step_signal_adds_its_own_vector_at_every_step():
    layer = StepSignal(3)
    x = np.ones((2, 4, 5), "float32")
    for step in range(3):
        out = ops.convert_to_numpy(layer(x, step=step))
        want = x + np.sqrt(5) * layer.get_weights()[0][step]
        np.testing.assert_allclose(out, want, atol=1e-6)
    assert len(np.unique(layer.get_weights()[0], axis=0)) == 3


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="num_steps=0"):
        StepSignal(0)
    with pytest.raises(ValueError, match="step=3"):
        StepSignal(3)(np.ones((1, 1, 2), "float32"), step=3)
    for wrong in (1, float("inf")):
        with pytest.raises(ValueError, match=f"max_timescale={wrong}"):
            TimingSignal(wrong)


def test_a_step_signal_took_no_integers():
    layer, x = StepSignal(2), np.arange(8).reshape(1, 2, 4)
    want = ops.convert_to_numpy(layer(x.astype("float32"), step=1))
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x, step=1)), want, atol=1e-6)
