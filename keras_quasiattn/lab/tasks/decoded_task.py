"""Base of the text-to-text tasks, which decode token by token."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.core.recording import is_recording
from keras_quasiattn.lab.tasks.batches import as_bytes, in_batches
from keras_quasiattn.lab.tasks.task import ServingSignature, Task
from keras_quasiattn.models import SequenceCrossentropy

TEXT = tf.TensorSpec((None,), tf.string, name="text")
_IDS = tf.TensorSpec((None, None), tf.int32, name="ids")


class DecodedTask(Task):
    """A task that maps a text to a text, and says how probable the answer is."""

    together: ClassVar[int] = 100  # texts in a batch that is decoded

    def _set_up(self) -> None:
        super()._set_up()
        self._answering: tuple[keras.Model, Any] | None = None

    @property
    @abc.abstractmethod
    def tokenizer(self) -> Any:
        """The tokenizer of texts and answers, with a `vocabulary_size` and a `pad_id`."""

    def _source(self, text: tf.Tensor) -> tf.Tensor:
        """Return the ids (B, S) of texts (B,), including the end of each, padded with 0."""
        return self.tokenizer.tokenize(text, self._longest_source)

    @abc.abstractmethod
    def _decoded(self, model: keras.Model, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the answer and its log-probability, (B,) each, for ids (B, S)."""

    @property
    @abc.abstractmethod
    def _longest_source(self) -> int:
        """The most ids of a text that the model reads."""

    def loss(self) -> keras.losses.Loss:
        """Return the cross-entropy of the next token."""
        return SequenceCrossentropy(label_smoothing=self.options.training.label_smoothing)

    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return the answer to each text, its log-probability, and other scores."""
        for text in inputs:
            self.check_input(text)
        return [
            {
                "input": text,
                # A poorly trained model may produce any bytes.
                "answer": row.pop("answer").decode("utf-8", "replace"),
                **{name: float(value) for name, value in row.items()},
            }
            for text, row in zip(inputs, self._answers(model, as_bytes(inputs)), strict=True)
        ]

    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """Take `text`, cut if too long; return `answer`, `log_probability` and scores."""
        answer_ids = self._ids_function(model)
        return ServingSignature(
            function=self._text_function(answer_ids),
            input_signature=[TEXT],
            resources=[],
            tokenize=lambda texts: tf.RaggedTensor.from_tensor(self._source(texts), padding=0),
            answer_ids=answer_ids,
        )

    def _answers(self, model: keras.Model, texts: np.ndarray) -> list[dict[str, Any]]:
        if not len(texts):
            return []
        answering = self._answering
        if answering is None or answering[0] is not model or is_recording():
            answering = (model, self._text_function(self._ids_function(model)))
        if not is_recording():  # an edit of the weights becomes part of the graph
            self._answering = answering
        return in_batches(answering[1], [texts], [self._counts(texts)], self.together)

    def _counts(self, texts: np.ndarray) -> np.ndarray:
        """Return the number of tokens of each text, by which batches are sorted."""
        return np.zeros(len(texts), np.int32)

    def _ids_function(self, model: keras.Model) -> Any:
        tokenizer = self.tokenizer  # created outside the graph

        @tf.function(input_signature=[_IDS])
        def answer(ids: tf.Tensor) -> Mapping[str, tf.Tensor]:
            known = (ids >= 0) & (ids < tokenizer.vocabulary_size)
            source = tf.where(known, ids, tokenizer.pad_id)[:, : self._longest_source]
            return self._decoded(model, source)

        return answer

    def _text_function(self, answer_ids: Any) -> Any:
        @tf.function(input_signature=[TEXT])
        def answer(text: tf.Tensor) -> Mapping[str, tf.Tensor]:
            return answer_ids(self._source(text))

        return answer
