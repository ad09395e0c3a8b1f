"""Adaptive computation time: decide per position how often to apply a shared block."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check, check_sequence
from keras_quasiattn.core.configured import ConfiguredLayer
from keras_quasiattn.core.masks import masked_mean, sequence_mask, zero_padding
from keras_quasiattn.layers.dense import make_dense

Tensor = Any
_PROGRESS = ("state", "output", "steps", "remainder", "spent", "running")


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AdaptiveHalting(ConfiguredLayer):
    """Halt each position of a sequence separately and return a weighted sum of its states.

    p_n = sigmoid(x_n·w + b);  N = the first n with p_1 + … + p_n > threshold, or the last step
    c_n = p_n for n < N;  c_N = 1 − (p_1 + … + p_{N−1});  output = Σ_n c_n·s_n, n = 1 … N
    cost = ponder_weight · (mean of N + c_N over the real positions)

    At step n the block reads x_n and produces s_n; the layer is then called with both and with the
    result of its previous call. A position that halted at step N keeps the state s_N, which the
    others see later on. Every step computes all positions, so halting saves no time, but the result
    for an example does not depend on the rest of its batch. Sums are float32 or higher, also in
    16-bit layers. In training the last call adds the cost to the loss; padding does not count, and
    values there, NaN included, have no effect. Every returned tensor keeps the mask.

    Args:
        threshold: number in (0, 1]. A position halts when Σ p exceeds it. Defaults to 0.99.
        initial_bias: initial value of b. With a larger value, positions halt earlier at the start
            of training. Defaults to 1.0.
        ponder_weight: number ≥ 0, the weight of the cost in the loss. Defaults to 0.01.

    Call arguments:
        inputs: (B, T, D), x_n.
        state: (B, T, D), s_n, the block's output for `inputs`.
        progress: what the previous call returned; None at the first step.
        mask: boolean (B, T), True = real.
        is_last: whether this is the last step, a Python boolean.
        training: whether to add the cost to the loss.

    Returns:
        A dict of tensors: `state` (B, T, D), s_n, the input of the next step; `output` (B, T, D),
        the sum so far, complete once every position has halted; and (B, T, 1) each `steps`, N,
        `remainder`, c_N, `spent`, the sum of p so far, and `running`, whether a position continues.

    Raises:
        ValueError: an argument out of range, inputs that are not (B, T, D), or a float mask.

    Example:
    >>> x = keras.ops.ones((1, 3, 8))
    >>> halting, block = AdaptiveHalting(), keras.layers.Dense(8)
    >>> progress = halting(x, block(x))
    >>> progress = halting(progress["state"], block(progress["state"]), progress, is_last=True)
    >>> progress["output"].shape == (1, 3, 8)
    True

    Source: Graves 2016, "Adaptive Computation Time for Recurrent Neural Networks", eqs. 5–13;
    per position: Dehghani et al. 2019, "Universal Transformers", section 2.2; p computed from the
    block's input, and the default values, as in Tensor2Tensor.
    """

    def __init__(
        self,
        threshold: float = 0.99,
        initial_bias: float = 1.0,
        ponder_weight: float = 0.01,
        **kwargs: Any,
    ) -> None:
        # No autocast: 16 bits cannot resolve sums of p close to the threshold.
        super().__init__(autocast=False, **kwargs)
        self.threshold = check(0 < threshold <= 1, threshold, "threshold", "in (0, 1]")
        self.ponder_weight = check(ponder_weight >= 0, ponder_weight, "ponder_weight", "0 or more")
        self.initial_bias = initial_bias

    def build(self, inputs_shape: tuple[int | None, ...], *_: Any) -> None:
        """Create w and b."""
        check_sequence(inputs_shape, "inputs")
        self.unit = make_dense(
            self,
            "unit",
            1,
            inputs_shape,
            activation="sigmoid",
            bias_initializer=keras.initializers.Constant(self.initial_bias),
            dtype=keras.backend.result_type(self.compute_dtype, "float32"),
        )

    def call(
        self,
        inputs: Tensor,
        state: Tensor,
        progress: dict[str, Tensor] | None = None,
        mask: Tensor | None = None,
        is_last: bool = False,
        training: bool | None = None,
    ) -> dict[str, Tensor]:
        """Process one step; see the class."""
        mask = sequence_mask(mask, "mask", inputs, reads_implicit=True)
        inputs, state = zero_padding(inputs, mask), zero_padding(state, mask)
        probability = self.unit(inputs)  # (B, T, 1)
        if progress is None:
            zeros = ops.zeros_like(probability)
            running = ops.ones_like(probability, dtype="bool")
            spent = output = steps = remainder = zeros
        else:
            running, spent, output = progress["running"], progress["spent"], progress["output"]
            steps, remainder = progress["steps"], progress["remainder"]
            state = ops.where(running, state, progress["state"])
        left, spent = 1.0 - spent, spent + probability
        goes_on = (
            ops.zeros_like(running)
            if is_last
            else ops.logical_and(running, spent <= self.threshold)  # (B, T, 1)
        )
        halts = ops.logical_and(running, ops.logical_not(goes_on))
        # (B, T, 1): the share of this step's state in the output
        weight = ops.where(halts, left, ops.where(goes_on, probability, 0.0))
        output = output + weight * ops.cast(state, weight.dtype)  # (B, T, 1) · (B, T, D)
        steps = steps + ops.cast(running, steps.dtype)
        remainder = ops.where(halts, left, remainder)
        if is_last and training and self.ponder_weight:
            real = None if mask is None else ops.expand_dims(mask, -1)  # (B, T, 1)
            cost = masked_mean(steps + remainder, real, axis=(0, 1, 2))
            cost = self.ponder_weight * ops.squeeze(cost)
            self.add_loss(ops.cast(cost, keras.config.floatx()))  # as Keras' losses
        found = (state, output, steps, remainder, spent, goes_on)
        return dict(zip(_PROGRESS, found, strict=True))

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """Return the mask of the inputs for each returned tensor."""
        return None if mask is None else dict.fromkeys(_PROGRESS, mask)
