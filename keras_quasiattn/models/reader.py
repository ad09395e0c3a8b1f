"""What all readers share: word features, logits without padding, and best spans."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check, check_positive_integer
from keras_quasiattn.core.configured import ConfiguredLayer, QuantizedParts
from keras_quasiattn.core.masks import LOWEST, largest, zero_padding
from keras_quasiattn.layers.recurrence import Bidirectional, OrthogonalInitializer
from keras_quasiattn.models.functional_model import EmbeddingModel, id_inputs, is_real, layer_maker

Tensor = Any
Shape = tuple[int | None, ...]
SIDES = ("passage", "question")
CHARACTERS = 257  # 256 byte values, plus 0 for padding
WORD_FEATURES = (
    *("vocabulary_size", "embedding_dim", "train_embedding"),
    *("character_units", "character_dim", "exact_match", "frequency"),
)
# Logit of padding: its float32 probability is exactly 0, and the sum of two such logits is finite.
PADDING_LOGIT = -1e9


class SpanNetwork(QuantizedParts, keras.layers.Layer):
    """Base class of networks from two sequences of vectors to span logits; a `Reader` creates one.

    They map [passage (B, P, width), question (B, Q, width)] and their masks to (B, P, 2), float32.
    """

    supports_masking = True

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """Return the mask of the passage."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Shape:
        """Return (B, P, 2)."""
        return (*inputs_shape[0][:-1], 2)

    def compute_output_spec(self, inputs: list[Tensor], **options: Any) -> Any:
        """Return symbolic logits (B, P, 2)."""
        shapes = [tuple(x.shape) for x in inputs]
        return keras.KerasTensor(self.compute_output_shape(shapes), dtype="float32")


class Reader(EmbeddingModel):
    """Find where an answer begins and ends in a passage; subclasses provide the network.

    logits = network([table[ids]; characters; exact match; frequency] of passage and of question)

    Exact match is 1 for a word that occurs in the other text; frequency is a word's share of its
    own text. Both compare the words' forms: integers that are equal for words that count as the
    same, including words outside the vocabulary. Padding is id 0, follows the text and has no
    effect. A passage or question of padding alone gives finite logits.

    `network` is a `SpanNetwork`, and `given` the `locals()` of the subclass's constructor, of which
    `WORD_FEATURES` configure the word features, and all others the network.
    """

    def __init__(self, network: type[SpanNetwork], given: dict[str, Any]) -> None:
        make = self._begin(given)
        of_network = dict(self._arguments)
        words = {name: of_network.pop(name) for name in WORD_FEATURES}
        self._hold_embedding(make)
        units, width = words["character_units"], words["character_dim"]
        self._hold(
            _network=make(network, "network", **of_network),
            _characters=make(CharacterStates, "characters", units, width) if units else None,
        )
        inputs = id_inputs(*SIDES)
        with_forms = words["exact_match"] or words["frequency"]
        for side in SIDES:
            for kind, rank, read in (("characters", 2, units), ("forms", 1, with_forms)):
                if read:
                    name = f"{side}_{kind}"
                    inputs[name] = keras.Input((None,) * rank, dtype="int32", name=name)
        outputs = self._answer(inputs, self._policy.compute_dtype)
        self._end(inputs, outputs, given["kwargs"])

    def _answer(self, inputs: dict[str, Tensor], dtype: str) -> Tensor:
        masks = [is_real(inputs[side]) for side in SIDES]
        pair = []
        both = zip(SIDES, masks, SIDES[::-1], masks[::-1], strict=True)
        for side, mask, other, other_mask in both:
            parts = [self._embedding(inputs[side])]  # (B, L, embedding_dim), L = P or Q
            if self._characters:
                # (B, L, 2·character_units)
                parts.append(self._characters(inputs[f"{side}_characters"]))
            if self._arguments["exact_match"]:
                same = _same(inputs[f"{side}_forms"], inputs[f"{other}_forms"], other_mask)
                parts.append(ops.cast(ops.any(same, axis=-1, keepdims=True), dtype))  # (B, L, 1)
            if self._arguments["frequency"]:
                forms = inputs[f"{side}_forms"]
                same = _same(forms, forms, mask)  # (B, L, L)
                count = ops.sum(ops.cast(same, "float32"), axis=-1, keepdims=True)  # (B, L, 1)
                length = ops.sum(ops.cast(mask, "float32"), axis=-1)[:, None, None]  # (B, 1, 1)
                parts.append(ops.cast(count / ops.maximum(length, 1.0), dtype))
            pair.append(ops.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0])
        logits = ops.cast(self._network(pair, mask=masks), "float32")
        real = ops.expand_dims(masks[0], -1)
        return ops.where(real, logits, PADDING_LOGIT)


def _same(forms: Tensor, others: Tensor, mask: Tensor) -> Tensor:
    """Return (B, L, M): whether word l of `forms` (B, L) is the real word m of `others` (B, M)."""
    return ops.logical_and(ops.equal(forms[:, :, None], others[:, None, :]), mask[:, None, :])


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class CharacterStates(ConfiguredLayer):
    """The last states of a bidirectional GRU over the characters of each word.

    Maps ids (B, T, C), from 0 to 256, to states (B, T, 2·units). Padding is id 0 and follows the
    characters. A word without characters gives exact zeros.

    Example:
    >>> CharacterStates(4)(keras.ops.ones((2, 5, 3), "int32")).shape == (2, 5, 8)
    True

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    §3.1.
    """

    def __init__(self, units: int, embedding_dim: int = 20, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self.embedding_dim = check_positive_integer(embedding_dim, "embedding_dim")

    def build(self, inputs_shape: Shape) -> None:
        """Create the embedding and the GRU."""
        make = layer_maker(self.dtype_policy)
        self.embedding = make(keras.layers.Embedding, "embedding", CHARACTERS, self.embedding_dim)
        self.embedding.build(None)
        options = {"recurrent_initializer": OrthogonalInitializer}
        gru = make(keras.layers.GRU, "gru", self.units, **options)
        self.recurrent = make(Bidirectional, "recurrent", gru)
        self.recurrent.build((None, inputs_shape[-1], self.embedding_dim))

    def call(self, inputs: Tensor) -> Tensor:
        """Return the states; see the class."""
        batch, length, characters = ops.shape(inputs)
        words = ops.reshape(inputs, (batch * length, characters))  # (B·T, C)
        mask = ops.not_equal(words, 0)
        # (B·T, 2·units)
        states = self.recurrent(self.embedding(words), mask=mask)
        states = zero_padding(states, ops.any(mask, axis=-1))
        return ops.reshape(states, (batch, length, 2 * self.units))

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, T, 2·units)."""
        return (*inputs_shape[:-1], 2 * self.units)


def best_spans(start: Tensor, end: Tensor, longest: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best span of each row: the largest start_i + end_j with i ≤ j < i + longest.

    Of spans with equal scores, the one that begins first wins, then the shortest. Memory is
    P·longest per row.

    Args:
        start: scores (B, P) of beginning at a position; P is at least 1.
        end: scores (B, P) of ending at a position.
        longest: maximum number of positions in a span, at least 1. Defaults to 16.

    Returns:
        The positions of the span's first and last token, int32 (B,), and the score (B,).

    Raises:
        ValueError: if `longest` is below 1.

    Example:
    >>> start, end = np.array([[0.0, 5.0, 1.0, 0.0]]), np.array([[9.0, 0.0, 1.0, 2.0]])
    >>> [np.asarray(x).tolist() for x in best_spans(start, end, longest=2)]
    [[0], [0], [9.0]]
    """
    check(longest >= 1, longest, "longest", "at least 1")
    start, end = ops.convert_to_tensor(start), ops.convert_to_tensor(end)
    # (P, longest): the positions where a span from each start may end.
    starts = ops.arange(ops.shape(start)[1], dtype="int32")
    positions = starts[:, None] + ops.arange(longest, dtype="int32")
    lowest = LOWEST / 4  # sums with it are finite
    padded = ops.pad(end, ((0, 0), (0, longest - 1)), constant_values=lowest)
    ends = ops.take(padded, positions, axis=1)  # (B, P, longest)
    totals = start + largest(ends, -1, lowest)  # (B, P)
    first = ops.cast(ops.argmax(totals, axis=-1), "int32")  # (B,)
    lengths = ops.cast(ops.argmax(ends, axis=-1), "int32")  # (B, P): best length − 1 of each start
    last = first + ops.squeeze(ops.take_along_axis(lengths, first[:, None], axis=1), 1)
    return first, last, largest(totals, -1, lowest)
