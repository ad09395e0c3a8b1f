"""Base class of the layers in which one sequence attends to another."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.layers.shared.pair_attention import PairAttention, Shape, check_pair
from keras_quasiattn.ops.masking import zero_padding
from keras_quasiattn.ops.recording import mark_visible

Tensor = Any


class OneWayAttention(PairAttention):
    """Takes [u, v]; every position of u attends to v: (B, T, features of v).

    The projections are tanh(u·W_u) and tanh(v·W_v); subclasses implement `weigh`.

    Args:
        units: size of the projections. Defaults to the number of features of u.
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = None if units is None else check_positive_integer(units, "units")

    def weigh(
        self, u: Tensor, v: Tensor, values: Tensor, mask_v: Tensor | None, return_scores: bool
    ) -> Any:
        """Attends from projected u to projected v: (B, T, V), or that and the weights (B, T, S)."""
        raise NotImplementedError

    def build(self, inputs_shape: list[Shape]) -> None:
        """Creates the projections."""
        check_pair(inputs_shape, same_features=False)
        units = self.units or inputs_shape[0][-1]
        self.u_projection, self.v_projection = (
            Dense(units, activation="tanh", use_bias=False, dtype=self.dtype_policy, name=name)
            for name in ("u_projection", "v_projection")
        )
        self.u_projection.build(inputs_shape[0])
        self.v_projection.build(inputs_shape[1])

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Tensor | None, mask_b: Tensor | None, **options: Any
    ) -> Any:
        """Returns the weighted sums of v, with masked rows of u set to 0."""
        scored = options["return_scores"]
        results = self.weigh(self.u_projection(a), self.v_projection(b), b, mask_b, scored)
        mark_visible(None if mask_a is None else keras.ops.expand_dims(mask_a, -1))
        cleared = tuple(zero_padding(x, mask_a) for x in (results if scored else [results]))
        return cleared if scored else cleared[0]

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """Returns the mask of u."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """(B, T, features of v)."""
        return (*inputs_shape[0][:-1], inputs_shape[1][-1])

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "units": self.units}
