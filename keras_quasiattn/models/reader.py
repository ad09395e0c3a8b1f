"""The base class of models that find an answer in a passage: inputs, and logits without padding."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer
from keras_quasiattn.core.masks import zero_masked
from keras_quasiattn.models.character_states import CharacterStates
from keras_quasiattn.models.functional_model import FunctionalModel, policy_of
from keras_quasiattn.models.span_network import SpanNetwork

Tensor = Any
SIDES = ("passage", "question")
WORD_FEATURES = (
    *("vocabulary_size", "embedding_dim", "train_embedding"),
    *("character_units", "character_dim", "exact_match", "frequency"),
)
# Logit of padding: its float32 probability is exactly 0, and the sum of two stays finite.
PADDING_LOGIT = -1e9


class Reader(FunctionalModel):
    """Finds where an answer begins and ends in a passage; subclasses provide the network.

    logits = network([table[ids]; characters; exact match; frequency] of passage and of question)

    Exact match tells of each word whether it occurs in the other text, frequency which share of its
    own text it makes up. Both compare the words' forms: integers that are equal for words that
    count as the same, including words outside the vocabulary.

    Padding is id 0, follows the text and changes nothing. A passage or question that is all padding
    gives finite logits.

    Args:
        network: class of the network, a `SpanNetwork`.
        arguments: what the subclass was given: `vocabulary_size`, `embedding_dim`,
            `train_embedding`, `character_units`, `character_dim`, `exact_match` and `frequency` are
            for the words' features, all others are arguments of the network.
        dtype: a dtype policy; the logits are always float32.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: {"passage": ids (B, P), "question": ids (B, Q)}, integers. With characters also
            "passage_characters" (B, P, C) and "question_characters" (B, Q, C), integers from 0
            (padding) to 256. With exact match or frequency also "passage_forms" (B, P) and
            "question_forms" (B, Q), any integers.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32, −1e9 at padding.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self,
        network: type[SpanNetwork],
        arguments: dict[str, Any],
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        self._arguments, of_network = arguments, dict(arguments)
        words = {name: of_network.pop(name) for name in WORD_FEATURES}
        check_positive_integer(words["vocabulary_size"], "vocabulary_size")
        check_positive_integer(words["embedding_dim"], "embedding_dim")
        policy = policy_of(dtype)
        embedding = keras.layers.Embedding(
            words["vocabulary_size"],
            words["embedding_dim"],
            trainable=words["train_embedding"],
            dtype=policy,
            name="embedding",
        )
        units, width = words["character_units"], words["character_dim"]
        self._hold(
            _network=network(**of_network, dtype=policy, name="network"),
            _embedding=embedding,
            _characters=CharacterStates(units, width, dtype=policy, name="characters")
            if units
            else None,
        )
        inputs = {side: keras.Input((None,), dtype="int32", name=side) for side in SIDES}
        for side in SIDES:
            if units:
                name = f"{side}_characters"
                inputs[name] = keras.Input((None, None), dtype="int32", name=name)
            if words["exact_match"] or words["frequency"]:
                name = f"{side}_forms"
                inputs[name] = keras.Input((None,), dtype="int32", name=name)
        super().__init__(
            inputs=inputs, outputs=self._answer(inputs, policy.compute_dtype), **kwargs
        )
        self.dtype_policy = policy

    @property
    def embedding(self) -> keras.layers.Embedding:
        """The embedding layer; its table can be set to pretrained word vectors."""
        return self._embedding

    def _answer(self, inputs: dict[str, Tensor], dtype: str) -> Tensor:
        masks = [ops.not_equal(inputs[side], 0) for side in SIDES]
        pair = []
        for side, mask, other, other_mask in zip(
            SIDES, masks, SIDES[::-1], masks[::-1], strict=True
        ):
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
        return zero_masked(logits, real) + PADDING_LOGIT * ops.cast(
            ops.logical_not(real), "float32"
        )


def _same(forms: Tensor, others: Tensor, mask: Tensor) -> Tensor:
    """(B, L, M): whether word l of `forms` (B, L) equals the real word m of `others` (B, M)."""
    return ops.logical_and(ops.equal(forms[:, :, None], others[:, None, :]), mask[:, None, :])
