"""A learned signal that tells a shared block how often it has been applied."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.arguments import check_positive_integer, check_sequence

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class StepSignal(keras.layers.Layer):
    """Adds a learned vector for the current step to every position.

    output = x + √D·table[step], table drawn from N(0, 1/D)

    The layer ignores a mask and passes it on.

    Args:
        num_steps: positive integer, the number of steps.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, D).
        step: Python integer in [0, num_steps).

    Returns:
        (B, T, D).

    Raises:
        ValueError: `num_steps` is not a positive integer, or `step` is out of range.

    Example:
    >>> StepSignal(num_steps=4)(keras.ops.zeros((1, 2, 8)), step=3).shape == (1, 2, 8)
    True

    Reference: Dehghani et al. 2019, "Universal Transformers", section 2.1, learned as in
    Tensor2Tensor.
    """

    def __init__(self, num_steps: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_steps = check_positive_integer(num_steps, "num_steps")

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        """Makes the table (num_steps, D)."""
        width = check_sequence(inputs_shape, "inputs")
        self.table = self.add_weight(
            name="table",
            shape=(self.num_steps, width),
            initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
        )

    def call(self, inputs: Tensor, step: int) -> Tensor:
        """Adds the vector of `step`; see the class."""
        if not 0 <= step < self.num_steps:
            raise ValueError(f"`step` must be in [0, {self.num_steps}). Received: step={step!r}")
        return inputs + self.table[step] * inputs.shape[-1] ** 0.5

    def compute_output_shape(self, inputs_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Returns the shape of the inputs."""
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "num_steps": self.num_steps}
