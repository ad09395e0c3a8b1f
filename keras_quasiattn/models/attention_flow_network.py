"""Bidirectional attention flow, from word vectors to span logits."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers import AttentionFlow
from keras_quasiattn.layers.recurrence import BidirectionalGRU
from keras_quasiattn.models.span_network import Shape, SpanNetwork

Tensor = Any


class AttentionFlowNetwork(SpanNetwork):
    """`AttentionFlowReader` without its word features: two sequences of vectors to span logits.

    Args:
        units: size of each recurrent state in each direction.
        dropout: rate in [0, 1) before every recurrent layer.
        **kwargs: `name` and `dtype`.

    Source: Seo et al. 2017, "Bidirectional Attention Flow for Machine Comprehension".
    """

    def __init__(self, *, units: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
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
        """Creates the weights."""
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
        """Returns the logits; see the class."""
        masks = list(mask or (None, None))
        pair = [
            self.encoder(x, mask=m, training=training) for x, m in zip(inputs, masks, strict=True)
        ]
        flow = states = self.flow(pair, mask=masks)  # (B, P, 8·units)
        for layer in self.modelling:
            states = layer(states, mask=masks[0], training=training)  # (B, P, 2·units)
        ending = self.ending(states, mask=masks[0], training=training)
        start = self.start_logit(ops.concatenate([flow, states], axis=-1))  # (B, P, 1)
        return ops.concatenate(
            [start, self.end_logit(ops.concatenate([flow, ending], axis=-1))], axis=-1
        )
