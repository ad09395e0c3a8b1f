"""Adaptive computation time: how often a shared block is applied to each position."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import check_sequence, sequence_mask
from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.ops.masking import masked_mean

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AdaptiveHalting(keras.layers.Layer):
    """Halts every position of a sequence by itself, and gives the mean of the states it went through.

    p_n = sigmoid(x_n·w + b);  N = the first n with p_1 + … + p_n > threshold, or the last step
    c_n = p_n for n < N;  c_N = 1 − (p_1 + … + p_{N−1});  output = Σ_n c_n·s_n, n = 1 … N
    cost = ponder_weight · (mean of N + c_N over the real positions)

    x_n is what the block reads at step n and s_n what it makes of it. After its step N a position keeps the state
    s_N, which is what other positions find there from then on. The layer is called after every step with what it
    gave before. Every step is computed for all positions, so a step costs the same whoever has halted, batches
    give what their items give alone, and nothing depends on a position to which the block does not attend.

    Sums are in float32 at least. In training the last call adds the cost to the loss; padding does not count. The
    mask travels on.

    Args:
        threshold: number in (0, 1], the sum of p that ends a position. Defaults to 0.99.
        initial_bias: first value of b; the larger, the earlier a position halts at first. Defaults to 1.0.
        ponder_weight: number, 0 or more, the weight of the cost in the loss. Defaults to 0.01.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, D), x_n.
        state: (B, T, D), what the block made of `inputs`.
        progress: what the call after the previous step gave; None after the first.
        mask: optional boolean or 0/1 integer (B, T), True = a real position.
        is_last: Python boolean, whether no step will follow. Defaults to False.
        training: whether the cost joins the loss.

    Returns:
        A dict of tensors: `state` (B, T, D), s_n, from which to go on; `output` (B, T, D), float32, the sum so far,
        whole once every position has halted; `steps` and `remainder` (B, T, 1), float32, N and c_N; and `spent` and
        `running` (B, T, 1), the sum of p and whether the position goes on.

    Raises:
        ValueError: an argument is out of range, inputs that are not (B, T, D), a float mask.

    Example:
    >>> x = keras.ops.ones((1, 3, 8))
    >>> halting, block = AdaptiveHalting(), keras.layers.Dense(8)
    >>> progress = halting(x, block(x))
    >>> progress = halting(progress["state"], block(progress["state"]), progress, is_last=True)
    >>> progress["output"].shape == (1, 3, 8)
    True

    Reference: Graves 2016, "Adaptive Computation Time for Recurrent Neural Networks", eqs. 5–13; by position:
    Dehghani et al. 2019, "Universal Transformers", section 2.2; p of the block's input, and the default values, as in
    Tensor2Tensor.
    """

    def __init__(
        self,
        threshold: float = 0.99,
        initial_bias: float = 1.0,
        ponder_weight: float = 0.01,
        **kwargs: Any,
    ) -> None:
        # Not cast to 16 bits: sums of p near the threshold would be lost.
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        if not 0 < threshold <= 1:
            raise ValueError(f"`threshold` must be in (0, 1]. Received: threshold={threshold!r}")
        if not ponder_weight >= 0:
            raise ValueError(
                f"`ponder_weight` must be 0 or more. Received: ponder_weight={ponder_weight!r}"
            )
        self.threshold, self.initial_bias, self.ponder_weight = (
            threshold,
            initial_bias,
            ponder_weight,
        )

    def build(self, inputs_shape: tuple[int | None, ...], *_: Any) -> None:
        """Makes w and b."""
        check_sequence(inputs_shape, "inputs")
        self.unit = Dense(
            1,
            activation="sigmoid",
            bias_initializer=keras.initializers.Constant(self.initial_bias),
            dtype=keras.backend.result_type(self.compute_dtype, "float32"),
            name="unit",
        )
        self.unit.build(inputs_shape)

    def call(
        self,
        inputs: Tensor,
        state: Tensor,
        progress: dict[str, Tensor] | None = None,
        mask: Tensor | None = None,
        is_last: bool = False,
        training: bool | None = None,
    ) -> dict[str, Tensor]:
        """Takes account of one step; see the class."""
        mask = sequence_mask(mask, "mask")
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
            else ops.logical_and(running, spent <= self.threshold)
        )
        halts = ops.logical_and(running, ops.logical_not(goes_on))
        weight = ops.where(halts, left, ops.where(goes_on, probability, 0.0))
        output = output + weight * ops.cast(state, weight.dtype)
        steps = steps + ops.cast(running, steps.dtype)
        remainder = ops.where(halts, left, remainder)
        if is_last and training and self.ponder_weight:
            real = None if mask is None else ops.expand_dims(mask, -1)
            cost = masked_mean(steps + remainder, real, axis=(0, 1, 2))
            self.add_loss(self.ponder_weight * ops.squeeze(cost))
        return {
            "state": state,
            "output": output,
            "steps": steps,
            "remainder": remainder,
            "spent": spent,
            "running": goes_on,
        }

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """The mask of the inputs, for each tensor that is returned."""
        names = ("state", "output", "steps", "remainder", "spent", "running")
        return None if mask is None else dict.fromkeys(names, mask)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        names = ("threshold", "initial_bias", "ponder_weight")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
