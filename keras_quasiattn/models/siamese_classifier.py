"""A Siamese classifier: one GRU encoder, attention and conflict between two texts, dense layers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_quasiattn.attention.conflict import DEFAULT_DIFFERENCE
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers import (
    AlignmentAttention,
    AttentionConflict,
    ConflictAttention,
    MaskedPooling,
)
from keras_quasiattn.layers.dense import Dense
from keras_quasiattn.layers.pooling import MODES
from keras_quasiattn.layers.recurrence import GRU, OrthogonalInitializer
from keras_quasiattn.models.functional_model import EmbeddingModel, id_inputs, is_real

Tensor = Any


class _Interaction(NamedTuple):
    """Constructors of the layers between the texts, and the names of their heads in order."""

    layers: tuple[Callable[..., keras.layers.Layer], ...]
    heads: tuple[str, ...]


def _attention(units: int, difference: str, **named: Any) -> keras.layers.Layer:
    return AlignmentAttention(units, **named)


_INTERACTIONS = {
    "none": _Interaction((), ()),
    "attention": _Interaction((_attention,), ("attention",)),
    "attentions": _Interaction((_attention, _attention), ("attention", "second_attention")),
    "conflict": _Interaction((ConflictAttention,), ("conflict",)),
    "both": _Interaction((AttentionConflict,), ("attention", "conflict")),
}


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SiameseClassifier(EmbeddingModel):
    """Classify two texts with one GRU encoder for both, an interaction layer and dense layers.

    u, v = GRU(… GRU(table[ids]));  u' = [u; v^A; v^C];  v' = [v; u^A; u^C]
    logits = W·Dense(… Dense([pool u'; pool v'])) + w

    For each word, v^A is what attention takes from the other text, and v^C what conflict takes.
    "attention" and "conflict" use only one of the two, "none" neither. The encoder and the
    interaction use the same weights in both directions.

    Padding is id 0, follows the text and has no effect. A text of padding alone pools to zeros.

    Args:
        vocabulary_size: number of token ids, including 0 for padding.
        num_classes: number of classes.
        interaction: "both" (the default), "attention", "conflict", "none", or "attentions", two
            heads of attention.
        difference: the difference that conflict uses, with the default of
            `layers.ConflictAttention`.
        embedding_dim: width of the embedding. Defaults to 300.
        train_embedding: whether the embedding is trained. Defaults to True.
        units: width of all GRUs, dense layers and the interaction's projections. Defaults to 150.
        num_recurrent_layers: number of GRU layers. Defaults to 2.
        num_dense_layers: number of tanh layers before the logits. Defaults to 4.
        pooling: "max" (the default), "mean" or "sum" over the words; the paper does not say which.
            With "max" a contradicting word counts as much in a long text as in a short one; a mean
            dilutes it.
        dropout: rate in [0, 1) after every GRU and tanh layer. Defaults to 0.2.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: {"first": ids (B, T), "second": ids (B, S)}, integers.
        training: whether dropout is on.

    Returns:
        Logits (B, num_classes), float32.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = SiameseClassifier(vocabulary_size=20, num_classes=2, units=8)
    >>> ids = {"first": keras.ops.ones((2, 5), "int32"), "second": keras.ops.ones((2, 4), "int32")}
    >>> model(ids).shape == (2, 2)
    True

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", §8 and §9.1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        interaction: str = "both",
        difference: str = DEFAULT_DIFFERENCE,
        embedding_dim: int = 300,
        train_embedding: bool = True,
        units: int = 150,
        num_recurrent_layers: int = 2,
        num_dense_layers: int = 4,
        pooling: str = "max",
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        check_choice(interaction, _INTERACTIONS, "interaction")
        check_choice(pooling, MODES, "pooling")
        make = self._begin(
            locals(),
            positive=("num_classes", "units", "num_recurrent_layers", "num_dense_layers"),
            rates=("dropout",),
        )
        self._hold_embedding(make)
        options = {"return_sequences": True, "recurrent_initializer": OrthogonalInitializer}
        layers: dict[str, Any] = {
            "recurrent": [
                make(GRU, f"recurrent_{number}", units, **options)
                for number in range(num_recurrent_layers)
            ],
            "recurrent_dropout": make(keras.layers.Dropout, "recurrent_dropout", dropout),
            "interaction": None,
            "second_interaction": None,
            "pooling": make(MaskedPooling, "pooling", pooling),
            "dense": [
                make(Dense, f"dense_{number}", units, activation="tanh")
                for number in range(num_dense_layers)
            ],
            "dense_dropout": make(keras.layers.Dropout, "dense_dropout", dropout),
            "output_layer": make(keras.layers.Dense, "logits", num_classes, dtype="float32"),
        }
        names = ("interaction", "second_interaction")
        for name, kind in zip(names, _INTERACTIONS[interaction].layers, strict=False):
            layers[name] = make(kind, name, units, difference=difference)
        self._hold(**{f"_{name}": value for name, value in layers.items()})
        inputs = id_inputs("first", "second")
        self._end(inputs, self._answer(**inputs)["logits"], kwargs)

    def explain(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Return the logits and, for each text, the weights of the interaction.

        For ids (B, T) and (B, S), and for the heads that the interaction has, these are
        `attention_first` and `conflict_first` (B, T, S), `attention_second` and `conflict_second`
        (B, S, T). Each row of the weights sums to 1.
        """
        return self._answer(ops.cast(first, "int32"), ops.cast(second, "int32"))

    def _answer(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        masks = [is_real(first), is_real(second)]
        states = [self._states(ids, mask) for ids, mask in zip((first, second), masks, strict=True)]
        heads = _INTERACTIONS[self._arguments["interaction"]].heads
        pooled = []
        answer: dict[str, Tensor] = {}
        for side, pair, both in (("first", states, masks), ("second", states[::-1], masks[::-1])):
            seen = [pair[0]]
            matrices = []
            for layer in filter(None, (self._interaction, self._second_interaction)):
                # One head: (B, L, units). Two heads: [u; v^A; v^C], (B, L, 3·units), u included.
                found, *weights = layer(pair, mask=both, return_attention_scores=True)
                seen = [found] if len(weights) == 2 else [*seen, found]
                matrices += weights
            names = [f"{head}_{side}" for head in heads]
            answer |= dict(zip(names, matrices, strict=True))
            pooled.append(self._pooling(ops.concatenate(seen, axis=-1), mask=both[0]))
        x = ops.concatenate(pooled, axis=-1)  # (B, 2·width of u')
        for dense in self._dense:
            x = self._dense_dropout(dense(x))
        return {"logits": self._output_layer(x), **answer}

    def _states(self, ids: Tensor, mask: Tensor) -> Tensor:
        # (B, L, embedding_dim), then (B, L, units) from every recurrent layer; L = T or S
        x = self._embedding(ids)
        for recurrent in self._recurrent:
            x = self._recurrent_dropout(recurrent(x, mask=mask))
        return x
