"""Bidirectional attention flow from vectors on."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers import AttentionFlow
from keras_quasiattn.layers.shared.bidirectional_gru import BidirectionalGRU

Tensor = Any
Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentionFlowNetwork(keras.layers.Layer):
    """All of `AttentionFlowReader` but the words, from two sequences of vectors to the logits of a span.

    Args:
        units: size of a recurrent state in each direction.
        dropout: rate in [0, 1) before every recurrent layer.
        **kwargs: `name`, `dtype` and the like; the logits are float32 under any policy.

    Call arguments:
        inputs: [passage (B, P, width), question (B, Q, width)].
        mask: [mask_p, mask_q], each boolean (B, P) and (B, Q), True = real.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32.

    Raises:
        ValueError: an argument is out of range.

    Source: Seo et al. 2017, "Bidirectional Attention Flow for Machine Comprehension".
    """

    def __init__(self, units: int = 64, dropout: float = 0.2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units, self.dropout = units, dropout
        self.supports_masking = True
        self.encoder, *self.modelling, self.ending = (
            BidirectionalGRU(units, dropout, dtype=self.dtype_policy, name=name)
            for name in ("encoder", "modelling_0", "modelling_1", "ending")
        )
        self.flow = AttentionFlow(dtype=self.dtype_policy, name="flow")
        self.start_logit, self.end_logit = (
            keras.layers.Dense(1, use_bias=False, dtype="float32", name=f"{side}_logit")
            for side in ("start", "end")
        )

    def build(self, inputs_shape: list[Shape]) -> None:
        """Makes every weight."""
        states = (*inputs_shape[0][:-1], 2 * self.units)
        self.encoder.build(inputs_shape[0])
        self.flow.build([states, states])
        flow = self.flow.compute_output_shape([states, states])
        for layer, shape in zip(
            (*self.modelling, self.ending), (flow, states, states), strict=True
        ):
            layer.build(shape)
        for logit in (self.start_logit, self.end_logit):
            logit.build((*states[:-1], flow[-1] + states[-1]))

    def call(
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """The logits; see the class."""
        masks = list(mask or (None, None))
        pair = [
            self.encoder(x, mask=m, training=training) for x, m in zip(inputs, masks, strict=True)
        ]
        flow = states = self.flow(pair, mask=masks)
        for layer in self.modelling:
            states = layer(states, mask=masks[0], training=training)
        ending = self.ending(states, mask=masks[0], training=training)
        start = self.start_logit(ops.concatenate([flow, states], axis=-1))
        return ops.concatenate(
            [start, self.end_logit(ops.concatenate([flow, ending], axis=-1))], axis=-1
        )

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """The mask of the passage."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Shape:
        """(B, P, 2)."""
        return (*inputs_shape[0][:-1], 2)

    def compute_output_spec(
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Any:
        """Symbolic logits (B, P, 2)."""
        return keras.KerasTensor((*inputs[0].shape[:-1], 2), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {**super().get_config(), "units": self.units, "dropout": self.dropout}
