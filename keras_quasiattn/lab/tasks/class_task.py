"""Base of the tasks that answer with a class: `classify` and `pairs`."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.lab.tasks.baselines import bag_of_words, rights, simple_figures
from keras_quasiattn.lab.tasks.batches import as_bytes, in_batches
from keras_quasiattn.lab.tasks.measured import Measured, judge_classes
from keras_quasiattn.lab.tasks.task import ServingSignature
from keras_quasiattn.lab.tasks.vocabulary_task import VocabularyTask
from keras_quasiattn.metrics import classification_figures


class ClassTask(VocabularyTask):
    """A task whose answer to one or two texts is a class, with probabilities and weights."""

    figure: ClassVar[str] = "accuracy"
    shares: ClassVar[tuple[str, ...]] = ("accuracy",)
    has_classes: ClassVar[bool] = True
    answer_names: ClassVar[tuple[str, ...] | None] = ("input", "label", "classes", "probabilities")

    def measure_baselines(
        self, split: str = "test", limit: int | None = None
    ) -> dict[str, Measured]:
        """Measure the most frequent class and a bag-of-words regression: accuracy, macro-F1."""
        train, chosen = self._data.splits["train"], self._chosen(split, limit)
        return simple_figures(train, chosen, bag_of_words(train, chosen, len(self._classes)))

    def _classified(
        self, chosen: Any, inputs: Sequence[str], probabilities: np.ndarray, counted: str
    ) -> Measured:
        """Compare class probabilities (examples, classes) with the labels of chosen examples."""
        figures = classification_figures(chosen.labels, probabilities, self._classes)
        judged = judge_classes(inputs, chosen.labels, probabilities, self._classes)
        right = rights(chosen, probabilities)
        return Measured({**figures, counted: len(chosen)}, right, judged)

    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return each input's class, class probabilities, tokens, and any weights and gates."""
        rows = list(map(self._split, inputs))
        columns = [as_bytes([row[side] for row in rows]) for side in range(len(self.sides))]
        answers = self._answers(self._ids_function(model), columns)
        return [{"input": text, **answer} for text, answer in zip(inputs, answers, strict=True)]

    def _answers(self, answer_ids: Any, columns: Sequence[np.ndarray]) -> list[dict[str, Any]]:
        lengths = [self._lengths(column) for column in columns]
        return list(
            map(self._readable, in_batches(self._answer_function(answer_ids), columns, lengths))
        )

    def check_input(self, text: str | bytes) -> None:
        """Reject a wrong number of texts, which tabs separate; the texts may be anything."""
        self._split(text)

    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """Map the texts to `label`, `classes`, `probabilities`, tokens, any weights and gates."""
        answer_ids = self._ids_function(model)
        return ServingSignature(
            function=self._answer_function(answer_ids),
            input_signature=self._specs,
            resources=self.tokenizer.resources,
            tokenize=self._token_ids,
            answer_ids=answer_ids,
            columns=self._split,
            longest=self._most_ids,
            **self._joined(),
        )

    @property
    def _specs(self) -> list[tf.TensorSpec]:
        return [tf.TensorSpec((None,), tf.string, name=side) for side in self.sides]

    def _ids_function(self, model: keras.Model) -> Any:
        specs = [tf.TensorSpec((None, None), tf.int32, name=side) for side in self.sides]

        @tf.function(input_signature=specs)
        def answer(*ids: tf.Tensor) -> dict[str, tf.Tensor]:
            classes = tf.constant(self._classes, tf.string)
            # Weights and gates: (B, T); of pairs (B, T, S) or (B, S, T), and of a mixture the
            # posterior (B, components).
            inputs = self._inputs(*map(self._readable_ids, ids))
            explained = model.explain(*inputs.values())
            logits = explained.pop("logits")  # (B, classes)
            return {
                "label": tf.gather(classes, tf.argmax(logits, axis=-1)),
                "classes": tf.tile(classes[None], (tf.shape(ids[0])[0], 1)),  # (B, classes)
                "probabilities": tf.nn.softmax(logits),
                **explained,
            }

        return answer

    def _answer_function(self, answer_ids: Any) -> Any:
        tokenizer = self.tokenizer  # created outside the graph
        names = ["tokens"] if len(self.sides) == 1 else [f"{side}_tokens" for side in self.sides]

        @tf.function(input_signature=self._specs)
        def answer(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
            padded = [tokenizer.pad(self._tokens(side)) for side in texts]  # (B, T) each
            tokens = {name: one for name, (one, _) in zip(names, padded, strict=True)}
            return {**answer_ids(*(ids for _, ids in padded)), **tokens}

        return answer

    @abc.abstractmethod
    def _readable(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return one answer as plain values, without padding."""
