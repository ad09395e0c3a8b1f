"""DecaProp from word vectors on: recurrent layers, each connected to every other."""

import itertools
from typing import Any

from keras import ops

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.core.arguments import check_positive_integer, check_rate
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.core.tiling import rematerialize_in_turn
from keras_quasiattn.layers import (
    AttentiveSpanPointer,
    BidirectionalAttentionConnector,
    GatedContextQueryAttention,
    RecurrentSpanPointer,
)
from keras_quasiattn.layers.recurrence import BidirectionalGRU
from keras_quasiattn.models.span_network import Shape, SpanNetwork

Tensor = Any
POINTERS = ("recurrent", "attentive")


class DecaPropNetwork(SpanNetwork):
    """`DecaProp` without its word features: two sequences of vectors to the logits of a span.

    Its arguments are those of `DecaProp` from `units` on.

    Raises:
        ValueError: if an argument is out of range.

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    §3.
    """

    def __init__(
        self,
        *,
        units: int,
        num_layers: int,
        connectors: bool,
        use_intra: bool,
        factors: int,
        attention: str,
        attention_options: dict[str, Any] | None,
        self_attention: str,
        final_connectors: bool,
        pointer: str,
        dropout: float,
        attention_dropout: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer(units, "units")
        check_positive_integer(num_layers, "num_layers")
        check_rate(dropout, "dropout")
        check_choice(attention, ATTENTIONS, "attention")
        check_choice(self_attention, (*ATTENTIONS, "none"), "self_attention")
        check_choice(pointer, POINTERS, "pointer")
        self.units = units
        policy = self.dtype_policy
        layers = range(num_layers)
        self.encoders = [
            BidirectionalGRU(units, dropout, dtype=policy, name=f"encoder_{layer}")
            for layer in layers
        ]
        pairs = [(i, j) for i in layers for j in layers] if connectors else []
        self.connectors = [
            BidirectionalAttentionConnector(
                factors, use_intra=use_intra, dtype=policy, name=f"connector_{i}_{j}"
            )
            for i, j in pairs
        ]
        self.attentions, self.middle = [], []
        for name, kind in (("query", attention), ("self", self_attention)):
            if kind in ATTENTIONS:
                self.attentions.append(
                    GatedContextQueryAttention(
                        units,
                        attention=kind,
                        attention_options=attention_options if kind == attention else None,
                        dropout=dropout,
                        input_dropout=attention_dropout,
                        dtype=policy,
                        name=f"{name}_attention",
                    )
                )
                self.middle.append(
                    BidirectionalGRU(units, dropout, dtype=policy, name=f"{name}_states")
                )
        self.final_connectors = [
            BidirectionalAttentionConnector(factors, dtype=policy, name=f"final_connector_{i}_{j}")
            for i in range(len(self.middle))
            for j in (layers if final_connectors else ())
        ]
        pointers: dict[str, Any] = {
            "recurrent": RecurrentSpanPointer,
            "attentive": AttentiveSpanPointer,
        }
        self.pointer: Any = pointers[pointer](units, dtype="float32", name="pointer")

    def build(self, inputs_shape: list[Shape]) -> None:
        """Creates the weights."""
        width = 2 * self.units
        states = (*inputs_shape[0][:-1], width)
        joined = len(self.encoders) * width
        shape = inputs_shape[0]
        for encoder in self.encoders:
            encoder.build(shape)
            shape = states
        for connector in (*self.connectors, *self.final_connectors):
            connector.build([states, states])
            if connector in self.connectors:
                joined += connector.compute_output_shape([states, states])[0][-1]
        context = query = (*states[:-1], joined)
        for attention, middle in zip(self.attentions, self.middle, strict=True):
            attention.build([context, query])
            middle.build(attention.compute_output_shape([context, query]))
            context = query = states
        pointed = (*states[:-1], width + 3 * len(self.final_connectors))
        question = (*states[:-1], joined)
        self.pointer.build(
            [pointed, question] if isinstance(self.pointer, AttentiveSpanPointer) else pointed
        )

    def call(
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Returns the logits; see the class."""
        masks = list(mask or (None, None))
        # Per side, the outputs of the n encoders: (B, P, 2d) and (B, Q, 2d) each.
        layers: list[list[Tensor]] = [[], []]
        for found, x, one in zip(layers, inputs, masks, strict=True):
            for encoder in self.encoders:
                x = encoder(x, mask=one, training=training)
                found.append(x)
        features = _connected(self.connectors, layers[0], layers[1], masks, training)
        # (B, P, 2dn + 3n²) and (B, Q, 2dn + 3n²); 6n² with `use_intra`.
        passage, question = (
            ops.concatenate([*found, *extra], axis=-1)
            for found, extra in zip(layers, features, strict=True)
        )
        context, pair_masks = [passage, question], masks
        states = []
        for attention, middle in zip(self.attentions, self.middle, strict=True):
            attended = attention(context, mask=pair_masks, training=training)
            states.append(middle(attended, mask=masks[0], training=training))  # (B, P, 2d)
            context, pair_masks = [states[-1]] * 2, [masks[0]] * 2
        # With m attentions there are m·n final connectors of 3 features: x (B, P, 2d + 3mn).
        features = _connected(self.final_connectors, states, layers[1], masks, training)
        x = ops.concatenate([states[-1], *features[0]], axis=-1)
        if isinstance(self.pointer, AttentiveSpanPointer):
            return self.pointer([x, question], mask=masks)
        return self.pointer(x, mask=masks[0])


def _connected(
    connectors: list[BidirectionalAttentionConnector],
    passages: list[Tensor],
    questions: list[Tensor],
    masks: list[Tensor | None],
    training: bool | None,
) -> list[list[Tensor]]:
    """Connects every passage layer to every question layer; returns the features of both sides.

    In training only one connector's tensors are in memory at a time: its gradient recomputes its
    alignments, (B, P, Q).
    """
    if not connectors:
        return [[], []]
    calls = [
        lambda *pair, connector=connector: tuple(
            connector(list(pair), mask=masks, training=training)
        )
        for connector in connectors
    ]
    pairs = list(itertools.product(passages, questions))
    found = (
        rematerialize_in_turn(calls, pairs)
        if training
        else [call(*pair) for call, pair in zip(calls, pairs, strict=True)]
    )
    return [list(side) for side in zip(*found, strict=True)]
