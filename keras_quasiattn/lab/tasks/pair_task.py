"""Base of the tasks on two texts: the null token, batches of pairs, and the models."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    TextPairs,
    evaluation_batches,
    fill_last_batch,
    training_batches,
)
from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.batches import as_bytes, in_batches, joined, weights_of
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.tasks.encoder_reading import EncoderReading
from keras_quasiattn.lab.tasks.pair_options import INTERACTIONS, MIXTURES
from keras_quasiattn.lab.tasks.tokenized_texts import TokenizedTexts
from keras_quasiattn.lab.tasks.vocabulary_task import VocabularyTask
from keras_quasiattn.models import MixtureClassifier, PairClassifier, SiameseClassifier

NULL = "[NULL]"  # no text has this token: cleanings drop or split off brackets
_NETWORK_OPTIONS = (
    *("units", "num_layers", "projection_dim", "dropout", "attention_dropout", "comparison"),
)


class PairTask(VocabularyTask):
    """A task on pairs of texts, `first` and `second`.

    Data options besides those of `VocabularyTask`: `null_token`, whether both texts start with a
    token that words without a counterpart can align to, and `unit_norm`, whether word vectors are
    scaled to length 1. For `min_count`, a text that is in several pairs counts once.

    The `decomposable*` models attend, compare and aggregate (`models.PairClassifier`), `mixture` is
    a mixture of several of them (`models.MixtureClassifier`), and the `siamese_*` models have
    recurrent encoders (`models.SiameseClassifier`).
    """

    readings: ClassVar[Mapping[str, type]] = {ENCODER: EncoderReading}
    _input_names: ClassVar[tuple[str, ...]] = ("first", "second")
    # As in the models with CoDA: see `pair_options`.
    attention_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"coda": {"scaling": "none"}}

    def _training_texts(self) -> list[bytes]:
        # A text in several pairs counts once. Otherwise a reply that is also drawn as a wrong one
        # for other questions would have no unknown words, and unknown words would mark the right
        # replies.
        train = self._data.splits["train"]
        return list(dict.fromkeys([*train.first.tolist(), *train.second.tolist()]))

    def _learn(self, texts: list[bytes]) -> list[str]:
        words = super()._learn(texts)
        return [*words, NULL] if self.options.data["null_token"] else words

    def _tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        tokens = self.tokenizer.split(texts)
        if self.options.data["null_token"]:
            null = tf.RaggedTensor.from_tensor(tf.fill([tf.shape(texts)[0], 1], NULL))  # (B, 1)
            tokens = tf.concat([null, tokens], axis=1)
        return tokens[:, : self._most_tokens]

    def _table(self) -> np.ndarray | None:
        table = super()._table()
        if self.options.data["unit_norm"]:
            if table is None:
                # Keras' initial vectors are so short that all dot products and weights are near 0:
                # not even equal words would align.
                shape = (self.tokenizer.vocabulary_size, self.options.model["embedding_dim"])
                table = np.random.default_rng(self.seed).normal(size=shape).astype(np.float32)
                table[0] = 0.0
            table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
        return table

    def _make_model(self, vocabulary_size: int, num_classes: int) -> keras.Model:
        options: dict[str, Any] = {**self.options.model}
        sizes: dict[str, Any] = {"vocabulary_size": vocabulary_size, "num_classes": num_classes}
        if self.model in INTERACTIONS:
            return SiameseClassifier(**sizes, interaction=INTERACTIONS[self.model], **options)
        if self.model in MIXTURES:
            plain, intra = (options.pop(f"{kind}_components") for kind in ("plain", "intra"))
            common = {name: options.pop(name) for name in _NETWORK_OPTIONS}
            components: list[dict[str, Any]] = [{} for _ in range(plain)]
            components += [{"intra_attention": True} for _ in range(intra)]
            return MixtureClassifier(**sizes, components=components, common=common, **options)
        options, attention = attention_of(options)
        return PairClassifier(**sizes, **options, **attention)

    @abc.abstractmethod
    def _target(self, examples: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the target of a batch; a `row` of −1 tells ranking metrics to skip the example."""

    def training_data(self, first_step: int) -> tf.data.Dataset:
        """Return the training pairs, reshuffled in every pass.

        Pairs of similar length share a batch.
        """
        pairs = self._data.splits["train"]
        return training_batches(
            self._dataset(pairs, np.full(len(pairs), -1)).skip,
            batch_size=self._batch_size,
            seed=self.seed,
            first_step=first_step,
            encode=self._encode,
            shuffle_buffer=len(pairs),
            length_key="length",
        )

    def validation_data(self) -> tf.data.Dataset:
        """Return every validation pair; repeated ones (weight 0, `row` −1) fill the last batch."""
        pairs, size = self._data.splits["validation"], self._batch_size
        order = np.argsort(self._lengths(pairs.first) + self._lengths(pairs.second), kind="stable")
        filled, weights = fill_last_batch(order, size)
        examples = self._dataset(pairs.where(filled), np.where(weights > 0, filled, -1), weights)
        return evaluation_batches(examples, batch_size=size, encode=self._encode)

    def _dataset(
        self, pairs: TextPairs, rows: np.ndarray, weights: np.ndarray | None = None
    ) -> tf.data.Dataset:
        columns = {
            "first": tf.constant(pairs.first.tolist(), tf.string),
            "second": tf.constant(pairs.second.tolist(), tf.string),
            "label": pairs.labels,
            "row": rows,
            "length": self._lengths(pairs.first) + self._lengths(pairs.second),
        }
        if pairs.groups is not None:
            columns["group"] = pairs.groups
        if weights is not None:
            columns["weight"] = weights
        return tf.data.Dataset.from_tensor_slices(columns)

    def _encode(self, examples: dict[str, tf.Tensor]) -> tuple[Any, ...]:
        ids = (self._ids(examples[side]) for side in ("first", "second"))
        return self._argument(*ids), self._target(examples), *weights_of(examples)

    def texts(self, split: str, limit: int) -> list[str]:
        """Return the first `limit` pairs of a split, the two texts of each joined by a tab."""
        chosen = self._chosen(split, limit)
        return joined(chosen.first, chosen.second)

    def tokenize(self, texts: Sequence[str]) -> TokenizedTexts:
        """Return the token ids of the pairs, with the tokens.

        It tokenizes only the first of several candidates.
        """
        pairs = [split_input(text, ("first", "second"), more=True) for text in texts]
        return self._tokenized(
            {
                side: as_bytes([pair[n] for pair in pairs])
                for n, side in enumerate(("first", "second"))
            }
        )

    def _logits(self, model: keras.Model, pairs: TextPairs) -> np.ndarray:
        """Return the logits (pairs, classes), computed in batches of similar length."""

        @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)] * 2)
        def answer(first: tf.Tensor, second: tf.Tensor) -> dict[str, tf.Tensor]:
            ids = map(self._ids, (first, second))
            return {"logits": model(self._argument(*ids), training=False)}

        columns = [pairs.first, pairs.second]
        answers = in_batches(answer, columns, [self._lengths(column) for column in columns])
        return np.stack([one["logits"] for one in answers])


def split_input(text: str | bytes, names: Sequence[str], *, more: bool = False) -> list[str]:
    """Split one input at its tabs.

    Args:
        text: the input.
        names: the names of the texts that it must have.
        more: whether more texts like the last one may follow.

    Raises:
        UserError: the number of texts is wrong.
    """
    line = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    columns = line.split("\t")
    if len(columns) < len(names) or (len(columns) > len(names) and not more):
        raise UserError(
            f"number of texts in the input {line!r}: {len(columns)}, expected {len(names)}"
            f"{' or more' if more else ''} separated by tabs: {', '.join(names)}"
        )
    return columns
