"""DecaProp: a reader in which every layer is connected to every other."""

import itertools
from typing import Any

import keras
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
from keras_quasiattn.models.functional_model import layer_maker
from keras_quasiattn.models.reader import Reader, Shape, SpanNetwork

Tensor = Any
POINTERS: dict[str, Any] = {"recurrent": RecurrentSpanPointer, "attentive": AttentiveSpanPointer}


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DecaProp(Reader):
    """Find the answer span in a passage by densely connected attention propagation.

    P_i, Q_i = BiGRU_i(P_{i−1}), BiGRU_i(Q_{i−1});
    P̃ = [P_1; …; P_n; connector_ij(P_i, Q_j) for all i, j], and Q̃ likewise; U_1 = BiGRU(attend(P̃,
    Q̃));  U_2 = BiGRU(attend(U_1, U_1)); logits = pointer([U_2; connector(U_k, Q_j) for all k, j])

    Each layer is 2d wide. Each of the n² connectors gives 3 numbers per position (6 with
    `use_intra`). `attend` is `layers.GatedContextQueryAttention`. In the paper's code the final
    connectors replace U_2; here they are concatenated with it. Two parts of the paper are missing:
    the variant that feeds features into the next recurrent layer, and contextual vectors. In
    training only one connector's tensors are in memory at a time; its gradient recomputes them.

    Args:
        vocabulary_size, embedding_dim, train_embedding, character_units, character_dim,
            exact_match, frequency: as for `AttentionFlowReader`.
        units: d, the size of every recurrent state in each direction and of the attention
            projections. Defaults to 64.
        num_layers: n, the number of recurrent layers; both texts share them. Defaults to 3.
        connectors: whether to use the n² connectors. Defaults to True.
        use_intra: whether the n² connectors also align each text to itself. Defaults to False.
        factors: number of factors of the factorization machines. Defaults to 32.
        attention: name of the attention from passage to question. Defaults to "softmax".
        attention_options: dict of the attention's options, such as {"gate_range": "centered"} for
            "coda"; they also apply to `self_attention` if it names the same attention.
        self_attention: name of the attention from the passage to itself, or "none". Defaults to
            "softmax".
        final_connectors: whether U_1, U_2 are connected to each question layer. Defaults to True.
        pointer: "recurrent" (`layers.RecurrentSpanPointer`, the default) or "attentive"
            (`layers.AttentiveSpanPointer`).
        dropout: rate in [0, 1) before every recurrent layer (all positions share one dropout mask)
            and before the gates of the attentions. Defaults to 0.2.
        attention_dropout: rate in [0, 1) before the projections that the attentions compare.
            Defaults to 0; see `layers.GatedContextQueryAttention`.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: dict of tensors, as for `AttentionFlowReader`.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32, −1e9 at padding.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = DecaProp(vocabulary_size=20, embedding_dim=6, units=4, num_layers=2)
    >>> words = {
    ...     "passage": keras.ops.ones((1, 7), "int32"),
    ...     "question": keras.ops.ones((1, 3), "int32"),
    ... }
    >>> model({**words, **{f"{side}_forms": ids for side, ids in words.items()}}).shape == (1, 7, 2)
    True

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    and its published code; with CoDA: Tay et al. 2019, "Compositional De-Attention Networks", §3.1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding_dim: int = 300,
        train_embedding: bool = True,
        character_units: int = 0,
        character_dim: int = 20,
        exact_match: bool = True,
        frequency: bool = True,
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
        attention_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(DecaPropNetwork, locals())


class DecaPropNetwork(SpanNetwork):
    """The network of `DecaProp`, with its arguments from `units` on."""

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
        dropout = check_rate(dropout, "dropout")
        check_rate(attention_dropout, "attention_dropout")
        check_choice(attention, ATTENTIONS, "attention")
        check_choice(self_attention, (*ATTENTIONS, "none"), "self_attention")
        check_choice(pointer, POINTERS, "pointer")
        self.units = units
        make, layers = layer_maker(self.dtype_policy), range(num_layers)
        connector, gru = BidirectionalAttentionConnector, BidirectionalGRU
        self.encoders = [make(gru, f"encoder_{i}", units, dropout) for i in layers]
        self.connectors = [
            make(connector, f"connector_{i}_{j}", factors, use_intra=use_intra)
            for i in layers
            for j in (layers if connectors else ())
        ]
        self.attentions, self.middle = [], []
        for name, kind in (("query", attention), ("self", self_attention)):
            if kind in ATTENTIONS:
                options = {
                    "attention": kind,
                    "attention_options": attention_options if kind == attention else None,
                    "dropout": dropout,
                    "input_dropout": attention_dropout,
                }
                named = f"{name}_attention"
                self.attentions.append(make(GatedContextQueryAttention, named, units, **options))
                self.middle.append(make(gru, f"{name}_states", units, dropout))
        self.final_connectors = [
            make(connector, f"final_connector_{i}_{j}", factors)
            for i in range(len(self.middle))
            for j in (layers if final_connectors else ())
        ]
        self.pointer: Any = make(POINTERS[pointer], "pointer", units, dtype="float32")

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create the weights."""
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
        takes_both = isinstance(self.pointer, AttentiveSpanPointer)
        self.pointer.build([pointed, question] if takes_both else pointed)

    def call(
        self,
        inputs: list[Tensor],
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Return the logits; see the class."""
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
    """Connect every passage layer to every question layer; return the features of both sides."""
    if not connectors:
        return [[], []]
    calls = [
        lambda *pair, connector=connector: tuple(
            connector(list(pair), mask=masks, training=training)
        )
        for connector in connectors
    ]
    pairs = list(itertools.product(passages, questions))
    if training:
        found = rematerialize_in_turn(calls, pairs)
    else:
        found = [call(*pair) for call, pair in zip(calls, pairs, strict=True)]
    return [list(side) for side in zip(*found, strict=True)]
