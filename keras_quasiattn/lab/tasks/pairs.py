"""Classification of text pairs: entailment, equivalent questions, questions that get clicked."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.lab.data import TextPairs
from keras_quasiattn.lab.tasks.baselines import bag_of_pairs, rights, simple_figures
from keras_quasiattn.lab.tasks.batches import as_bytes, in_batches, joined, plain
from keras_quasiattn.lab.tasks.catalogue import CATALOGUE
from keras_quasiattn.lab.tasks.measured import Measured, judge_classes
from keras_quasiattn.lab.tasks.pair_data import (
    SOURCES,
    PairSet,
    example_of,
    load_pairs,
    pairs_of_file,
)
from keras_quasiattn.lab.tasks.pair_presets import MODELS, PRESETS
from keras_quasiattn.lab.tasks.pair_task import PairTask, split_input
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.tasks.sources import Source
from keras_quasiattn.lab.tasks.task import ServingSignature
from keras_quasiattn.lab.tasks.vocabulary_task import ANSWER_NAMES
from keras_quasiattn.metrics import classification_figures

_SIDES = ("first", "second")


class Pairs(PairTask):
    """Classification of pairs of texts: inference, paraphrase, clicks.

    Source: Parikh et al. 2016 and its restatement with a mixture; Mitra 2019, "Conflict as an
    Inverse of Attention in Sequence Relationship"; Tay et al. 2019, §3.3.
    """

    name: ClassVar[str] = "pairs"
    summary: ClassVar[str] = CATALOGUE["pairs"].summary
    figure: ClassVar[str] = "accuracy"
    shares: ClassVar[tuple[str, ...]] = ("accuracy",)
    has_classes: ClassVar[bool] = True
    models: ClassVar[tuple[str, ...]] = MODELS
    presets: ClassVar[dict[str, Preset]] = PRESETS
    own_data: ClassVar[tuple[str, str] | None] = CATALOGUE["pairs"].own_data
    sources: ClassVar[Mapping[str, Source]] = SOURCES
    input_columns: ClassVar[tuple[str, ...]] = _SIDES
    answer_names: ClassVar[tuple[str, ...] | None] = ANSWER_NAMES

    @property
    def example(self) -> str:
        """A pair like those in the preset's data, separated by a tab."""
        return example_of(self.preset)

    def _load(self) -> tuple[PairSet, str]:
        return load_pairs(self.preset, self.options.data, self.data_dir)

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> TextPairs:
        return pairs_of_file(self.preset, file, self._classes, columns)

    def _target(self, examples: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return tf.one_hot(examples["label"], len(self._classes))

    def measure(
        self, model: keras.Model, split: str = "test", limit: int | None = None
    ) -> Measured:
        """Return `classification_figures`."""
        chosen = self._chosen(split, limit)
        probabilities = tf.nn.softmax(tf.constant(self._logits(model, chosen), tf.float64)).numpy()
        figures = classification_figures(chosen.labels, probabilities, self._classes)
        inputs = joined(chosen.first, chosen.second)
        judged = judge_classes(inputs, chosen.labels, probabilities, self._classes)
        return Measured({**figures, "pairs": len(chosen)}, rights(chosen, probabilities), judged)

    def measure_baselines(
        self, split: str = "test", limit: int | None = None
    ) -> dict[str, Measured]:
        """Measure the most frequent class and a bag-of-words regression: accuracy, macro-F1."""
        train, chosen = self._data.splits["train"], self._chosen(split, limit)
        return simple_figures(train, chosen, bag_of_pairs(train, chosen, len(self._classes)))

    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each pair its class, class probabilities, tokens and weights."""
        pairs = [split_input(text, _SIDES) for text in inputs]
        columns = [as_bytes([pair[side] for pair in pairs]) for side in (0, 1)]
        lengths = [self._lengths(column) for column in columns]
        answers = in_batches(self._answer_function(self._ids_function(model)), columns, lengths)
        return [
            {"input": text, **_readable(answer)}
            for text, answer in zip(inputs, answers, strict=True)
        ]

    def check_input(self, text: str | bytes) -> None:
        """Reject anything but two texts separated by a tab; either may be empty."""
        split_input(text, _SIDES)

    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """Return the signature from `first`, `second` to `label`, `classes`, `probabilities`, …"""
        answer_ids = self._ids_function(model)
        return ServingSignature(
            function=self._answer_function(answer_ids),
            input_signature=[tf.TensorSpec((None,), tf.string, name=side) for side in _SIDES],
            resources=self.tokenizer.resources,
            tokenize=self._token_ids,
            answer_ids=answer_ids,
            columns=lambda text: split_input(text, _SIDES),
            longest=self._most_ids,
            **self._joined(),
        )

    def _ids_function(self, model: keras.Model) -> Any:
        @tf.function(
            input_signature=[tf.TensorSpec((None, None), tf.int32, name=side) for side in _SIDES]
        )
        def answer(first: tf.Tensor, second: tf.Tensor) -> dict[str, tf.Tensor]:
            classes = tf.constant(self._classes, tf.string)
            # Weights: (B, T, S) or (B, S, T); of a mixture the posterior (B, components).
            inputs = self._inputs(*map(self._readable_ids, (first, second)))
            explained = model.explain(*inputs.values())
            logits = explained.pop("logits")  # (B, classes)
            return {
                "label": tf.gather(classes, tf.argmax(logits, axis=-1)),
                "classes": tf.tile(classes[None], (tf.shape(first)[0], 1)),  # (B, classes)
                "probabilities": tf.nn.softmax(logits),
                **explained,
            }

        return answer

    def _answer_function(self, answer_ids: Any) -> Any:
        tokenizer = self.tokenizer  # created outside the graph

        @tf.function(
            input_signature=[tf.TensorSpec((None,), tf.string, name=side) for side in _SIDES]
        )
        def answer(first: tf.Tensor, second: tf.Tensor) -> dict[str, tf.Tensor]:
            first_tokens, first_ids = tokenizer.pad(self._tokens(first))  # (B, T) each
            second_tokens, second_ids = tokenizer.pad(self._tokens(second))  # (B, S) each
            tokens = {"first_tokens": first_tokens, "second_tokens": second_tokens}
            return {**answer_ids(first_ids, second_ids), **tokens}

        return answer


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one pair's answer as plain values, unpadded.

    Each row of weights belongs to one attending token.
    """
    rows = {side: int(np.sum(row[f"{side}_tokens"] != b"")) for side in _SIDES}
    answer = {}
    for name, value in row.items():
        if name.endswith("_tokens"):
            value = value[: rows[name.removesuffix("_tokens")]]
        elif np.ndim(value) == 2:
            sides = reversed(_SIDES) if name.endswith("second") else _SIDES  # (S, T) or (T, S)
            value = value[tuple(slice(rows[side]) for side in sides)]
        answer[name] = plain(value)
    return answer
