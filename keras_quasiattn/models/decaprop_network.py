"""DecaProp from word vectors on: recurrent layers, each connected to every other."""

import itertools
from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers import (
    AttentiveSpanPointer,
    BidirectionalAttentionConnector,
    GatedContextQueryAttention,
    RecurrentSpanPointer,
)
from keras_quasiattn.layers.shared.arguments import check_positive_integer, check_rate
from keras_quasiattn.layers.shared.bidirectional_gru import BidirectionalGRU
from keras_quasiattn.layers.shared.mechanisms import MECHANISMS
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.rematerialization import rematerialize_in_turn

Tensor = Any
Shape = tuple[int | None, ...]
SELF_ATTENTIONS = (*MECHANISMS, "none")
POINTERS = ("recurrent", "attentive")


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DecaPropNetwork(keras.layers.Layer):
    """`DecaProp` without its word features: two sequences of vectors to the logits of a span.

    Args:
        units: d, the size of every recurrent state in each direction and of the attention
            projections.
        num_layers: n, the number of recurrent layers; both sequences share them.
        connectors: whether every passage layer is connected to every question layer, which takes n²
            connectors.
        use_intra: whether these connectors also align each sequence to itself.
        factors: number of factors of the connectors' factorization machines.
        attention: mechanism by which the passage attends to the question, such as "softmax" (the
            default) or "coda".
        attention_options: for "coda", dict of constructor arguments of `CoDA`; they also apply to
            `self_attention` where it names the same mechanism.
        self_attention: mechanism by which the passage attends to itself, or "none".
        final_connectors: whether the states after each attention are connected to every question
            layer.
        pointer: "recurrent" or "attentive".
        dropout: rate in [0, 1) before every recurrent layer and within the attentions.
        **kwargs: `name`, `dtype` and other `Layer` arguments; the logits are always float32.

    Call arguments:
        inputs: [passage (B, P, width), question (B, Q, width)].
        mask: [mask_p, mask_q], each None or boolean (B, P) and (B, Q), True = real.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32.

    Raises:
        ValueError: if an argument is out of range.

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    §3.
    """

    def __init__(
        self,
        units: int = 64,
        num_layers: int = 3,
        connectors: bool = True,
        use_intra: bool = False,
        factors: int = 32,
        attention: str = "softmax",
        attention_options: dict[str, Any] | None = None,
        self_attention: str = "softmax",
        final_connectors: bool = True,
        pointer: str = "recurrent",
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer(units, "units")
        check_positive_integer(num_layers, "num_layers")
        check_rate(dropout, "dropout")
        check_choice(attention, MECHANISMS, "attention")
        check_choice(self_attention, SELF_ATTENTIONS, "self_attention")
        check_choice(pointer, POINTERS, "pointer")
        self.supports_masking = True
        self._arguments: dict[str, Any] = {
            "units": units,
            "num_layers": num_layers,
            "connectors": connectors,
            "use_intra": use_intra,
            "factors": factors,
            "attention": attention,
            "attention_options": attention_options,
            "self_attention": self_attention,
            "final_connectors": final_connectors,
            "pointer": pointer,
            "dropout": dropout,
        }
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
            if kind in MECHANISMS:
                self.attentions.append(
                    GatedContextQueryAttention(
                        units,
                        attention=kind,
                        attention_options=attention_options if kind == attention else None,
                        dropout=dropout,
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
        width = 2 * self._arguments["units"]
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
            [pointed, question] if self._arguments["pointer"] == "attentive" else pointed
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
        if self._arguments["pointer"] == "attentive":
            return self.pointer([x, question], mask=masks)
        return self.pointer(x, mask=masks[0])

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """Returns the mask of the passage."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Shape:
        """Returns (B, P, 2)."""
        return (*inputs_shape[0][:-1], 2)

    def compute_output_spec(
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Any:
        """Returns symbolic logits (B, P, 2)."""
        shapes = [tuple(x.shape) for x in inputs]
        return keras.KerasTensor(self.compute_output_shape(shapes), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        return {**super().get_config(), **self._arguments}


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
