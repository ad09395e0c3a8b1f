"""The sinusoidal position signal."""

import math
from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TimingSignal(keras.layers.Layer):
    """Adds to every position t a fixed vector of sines and cosines of t.

    signal[t] = [sin(t·r_0) … sin(t·r_{h−1}), cos(t·r_0) … cos(t·r_{h−1})], h = D // 2,
    r_i = max_timescale^(−i / (h − 1))

    If D is odd, the last feature of the signal is 0. There are no weights, so any length works. The
    layer ignores a mask and passes it on.

    Args:
        max_timescale: number above 1; the slowest wave has the wavelength 2π·max_timescale.
            Defaults to 10,000.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, D).
        start_index: scalar integer, position of the first input. Defaults to 0.

    Returns:
        (B, T, D).

    Raises:
        ValueError: `max_timescale` is not a number above 1.

    Example:
    >>> keras.ops.convert_to_numpy(TimingSignal()(keras.ops.zeros((1, 2, 4))))[0, 0].tolist()
    [0.0, 0.0, 1.0, 1.0]

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.5, in Tensor2Tensor's
    order of features.
    """

    def __init__(self, max_timescale: float = 1e4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(max_timescale, (int, float)) or not max_timescale > 1:
            raise ValueError(
                "`max_timescale` must be a number above 1. "
                f"Received: max_timescale={max_timescale!r}"
            )
        self.supports_masking = True
        self.max_timescale = max_timescale

    def call(self, inputs: Tensor, start_index: Any = 0) -> Tensor:
        """Adds the signal; see the class."""
        length, width = ops.shape(inputs)[1], inputs.shape[-1]
        half = width // 2
        # float32 throughout: float16 cannot tell positions above 2048 apart.
        positions = ops.cast(
            ops.arange(length, dtype="int32") + ops.cast(start_index, "int32"), "float32"
        )
        rates = ops.exp(
            ops.arange(half, dtype="float32") * (-math.log(self.max_timescale) / max(half - 1, 1))
        )
        angles = ops.expand_dims(positions, 1) * ops.expand_dims(rates, 0)  # (T, D // 2)
        signal = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)  # (T, 2·(D // 2))
        signal = ops.pad(signal, [[0, 0], [0, width % 2]])  # (T, D)
        return inputs + ops.cast(ops.expand_dims(signal, 0), inputs.dtype)

    def compute_output_shape(self, inputs_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Returns the shape of the inputs."""
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "max_timescale": self.max_timescale}
