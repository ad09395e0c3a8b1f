"""Bases of the tasks with a vocabulary: ids of texts, word vectors, classes, and batches."""

import abc
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import evaluation_batches, fill_last_batch, training_batches
from keras_quasiattn.lab.tasks.batches import (
    as_bytes,
    counted,
    in_batches,
    joined,
    length_key,
    unpadded,
    weights_of,
)
from keras_quasiattn.lab.tasks.data_summary import summarize
from keras_quasiattn.lab.tasks.measured import Measured, bag_of_words, judge, rights, simple_figures
from keras_quasiattn.lab.tasks.task import ServingSignature, Task, TokenizedTexts, plain_tokens
from keras_quasiattn.lab.text import (
    CLEANINGS,
    TEXT_VERSION,
    SubwordTokenizer,
    VocabularyTokenizer,
    WordTokenizer,
    count_words,
    covered,
    embedding_matrix,
    learn_subwords,
    ranked_words,
    read_vocabulary,
    read_word_vectors,
    vocabulary_text,
)
from keras_quasiattn.metrics import classification_figures
from keras_quasiattn.metrics.classification import MacroF1

VOCABULARY_FILE, _CLASSES = "vocabulary.txt", "classes.json"
_OLD_CLASSES = "classes.txt"  # earlier runs: one name per line, so none with a line break
_UNKNOWN = 0.5  # share of unknown words above which a vocabulary is probably unsuitable
_TEXT = "text_processing.json"  # earlier runs have none, and version 1


class VocabularyTask(Task):
    """A task that maps its texts to ids of a vocabulary learned from the training split.

    It reads the data options `tokenizer` (a cleaning of words, or "subwords"), `vocabulary_size`,
    `min_count`, `vectors`, `unknown_ids`, `max_length` and `length_multiple`.

    With `data.vectors` (a file in GloVe's text format, or an .npz), the embedding starts with the
    vectors of the words that have one; words without a vector are unknown if they occur fewer than
    `data.min_count` times. If training does not change the embedding, the vocabulary also includes
    the file's other words, for use in new texts, up to `data.vocabulary_size`. Every id has a
    separate vector, which is random for words without one and for the hashes of unknown words.

    `readings` has, for models that do not read ids of such a vocabulary, a subclass of this class
    that replaces the reading of texts.
    """

    tokenizers: ClassVar[tuple[str, ...]] = (*CLEANINGS, "subwords")
    word_tokenizer: ClassVar[type[WordTokenizer]] = WordTokenizer
    sides: ClassVar[tuple[str, ...]] = ("text",)
    readings: ClassVar[Mapping[str, type]] = {}
    weighted_metrics: ClassVar[bool] = True
    least: ClassVar[Mapping[str, int]] = {
        "data.max_length": 1,
        "data.length_multiple": 1,
        "data.min_count": 1,
        "data.unknown_ids": 1,
        "data.vocabulary_size": 3,
    }

    def __new__(cls, *, model: str, **_: Any) -> "VocabularyTask":
        """Make a task of the class that reads texts as the model needs them."""
        reading = cls.readings.get(model)
        made = cls if reading is None or issubclass(cls, reading) else _mixed(reading, cls)
        return super().__new__(made)

    def _set_up(self) -> None:
        super()._set_up()
        data = self.options.data
        UserError.check("data.tokenizer", data["tokenizer"], self.tokenizers)
        of_words = {
            "vectors": ("", "word vectors"),
            "unknown_ids": (1, "ids of unknown words"),
            "min_count": (2, "counts of words"),
        }
        preset = self.presets[self.preset].for_model(self.model).data
        for name, (usual, what) in of_words.items():
            if data[name] not in (usual, preset[name]) and data["tokenizer"] == "subwords":
                of_these = ", ".join(one for one in self.tokenizers if one != "subwords")
                raise UserError(
                    f"data.{name} is {data[name]!r}: {what} need a tokenizer of words: set "
                    f"data.tokenizer to one of {of_these}, or leave data.{name} at {usual!r}"
                )
        self._classes: tuple[str, ...] = ()
        self._classes_file = _CLASSES
        self._vocabulary: list[str] = []
        self._vectors: dict[str, np.ndarray] = {}
        self._text_version = TEXT_VERSION
        self._counts: Mapping[str, int] = {}  # of training words, in a new run

    def _training_texts(self) -> list[bytes]:
        """Return every text of the training split, as often as it counts for the vocabulary."""
        return [text for one in self._data.splits["train"].columns.values() for text in one]

    def prepare(self) -> None:
        """Read the data, and learn the vocabulary unless a run supplied it."""
        if not self._vocabulary:
            self._classes = self._data.classes
            self._vocabulary = self._learn(self._training_texts())
        elif self._classes != self._data.classes:
            raise UserError(
                f"the data have the classes {', '.join(self._data.classes)} and the run has "
                f"{', '.join(self._classes)}: use the data that the run was started with"
            )

    def _learn(self, texts: list[bytes]) -> list[str]:
        data = self.options.data
        size, min_count = data["vocabulary_size"], data["min_count"]
        of_subwords = data["tokenizer"] == "subwords"
        frozen = not self.options.model.get("train_embedding", True)
        if frozen and not data["vectors"]:
            vectors = "" if of_subwords else "name a file of word vectors, with --vectors FILE, or "
            raise UserError(
                "model.train_embedding is False and data.vectors is '': "
                f"{vectors}set model.train_embedding to true"
            )
        if of_subwords:
            return learn_subwords(texts, size=size, text_version=self._text_version)
        self._counts = count_words(texts, data["tokenizer"], self._text_version)
        if not data["vectors"]:
            return ranked_words(self._counts, size=size, min_count=min_count)
        width, wanted = self.options.model["embedding_dim"], None if frozen else self._counts
        self._vectors = read_word_vectors(data["vectors"], width, wanted)
        words = ranked_words(self._counts, size=size, min_count=min_count, known=self._vectors)
        if frozen:
            seen = set(words)
            words += [word for word in self._vectors if word not in seen][: size - len(words)]
        return words

    @property
    def _batch_size(self) -> int:
        """The number of examples in a batch: `training.batch_size`, or all if there are fewer."""
        return min(self.options.training.batch_size, len(self._data.splits["train"]))

    def batches_per_pass(self) -> int:
        """Return the number of training batches in a pass; remaining examples are not used."""
        return len(self._data.splits["train"]) // self._batch_size

    def remarks(self) -> list[str]:
        """Return a summary of the user's own data and of the training settings derived from it."""
        lines = []
        if "train" in self.options.data:
            lines += summarize(*self._loaded, self._whole_lengths, self._limits())
            lines += self._doubts_on_words()
        if self._counts and self._vectors:
            lines.append(covered(self._counts, self._vectors))
        if (asked := self.options.training.batch_size) > self._batch_size:
            lines.append(
                f"training.batch_size is {asked}, and there are {self._batch_size} training "
                "examples: every batch has them all"
            )
        return lines

    def _doubts_on_words(self) -> list[str]:
        """Return a warning if the vocabulary lacks most of the words of the training texts."""
        # Punctuation is known, also where the text between it is a single word.
        words = {word: count for word, count in self._counts.items() if any(map(str.isalnum, word))}
        lacking = words.keys() - set(self._vocabulary)
        share = sum(words[word] for word in lacking) / max(sum(words.values()), 1)
        if share <= _UNKNOWN or self._vectors:
            return []
        line = (
            f"warning: {share:.1%} of the training words are unknown to the model, since they are "
            f"rarer than data.min_count ({self.options.data['min_count']}) or beyond "
            f"data.vocabulary_size ({self.options.data['vocabulary_size']:,})"
        )
        if "subwords" in self.tokenizers:
            line += "; data.tokenizer=subwords cuts words, as Chinese and Japanese need"
        return [line]

    def _limits(self) -> dict[str, tuple[str, int]]:
        """Return, for each column of texts, the option that limits its tokens, and their number."""
        limit = ("data.max_length", self.options.data["max_length"])
        return dict.fromkeys(self._data.splits["train"].columns, limit)

    def _whole_lengths(self, texts: np.ndarray) -> np.ndarray:
        """Return the number of tokens of each text, however long."""
        return counted(lambda some: self.tokenizer.split(some).row_lengths(), texts)

    def describe_data(self) -> dict[str, str]:
        """Return the version of the data, and which part of the set was used."""
        data, note = self._loaded
        return {"version": data.version, **({"note": note} if note else {})}

    def assets(self) -> dict[str, bytes]:
        """Return the version of the text processing, the vocabulary and the class names."""
        version = f"{json.dumps({'version': self._text_version})}\n".encode()
        # The version comes first: `resume` takes a vocabulary without one for version 1.
        return {
            **({} if self._text_version == 1 else {_TEXT: version}),
            VOCABULARY_FILE: vocabulary_text(self._vocabulary).encode(),
            _CLASSES: f"{json.dumps(self._classes)}\n".encode(),
        }

    @property
    def learns_only_assets(self) -> bool:
        """False if the embedding starts with word vectors, which `prepare` then reads."""
        return not self.options.data["vectors"]

    def resume(self, folder: Path) -> None:
        """Process texts as the run did before, if it already has a vocabulary."""
        version = 1 if (folder / VOCABULARY_FILE).exists() else TEXT_VERSION
        if (file := folder / _TEXT).exists():
            version = _version(file)
        if version != self._text_version:
            self._text_version, self._vocabulary = version, []
            for made in ("tokenizer", "_count"):
                self.__dict__.pop(made, None)

    def read_assets(self, folder: Path) -> None:
        """Restore the vocabulary, the class names and the version of the text processing."""
        self.resume(folder)
        try:
            vocabulary = (folder / VOCABULARY_FILE).read_bytes().decode("utf-8")
            old = (folder / _OLD_CLASSES).exists() and not (folder / _CLASSES).exists()
            self._classes_file = _OLD_CLASSES if old else _CLASSES
            content = (folder / self._classes_file).read_bytes()
            classes = content.decode("utf-8").split("\n")[:-1] if old else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(
                f"{folder} is damaged: {VOCABULARY_FILE} or {self._classes_file} cannot be read"
            ) from error
        if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
            raise UserError(
                f"{folder / _CLASSES} is damaged: it is not a list of the classes' names"
            )
        self._vocabulary = self._parsed(vocabulary, folder / VOCABULARY_FILE)
        self._classes = tuple(classes)

    def _parsed(self, vocabulary: str, file: Path) -> list[str]:
        """Return the tokens by id, from the content of their file."""
        return read_vocabulary(vocabulary, str(file))

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the vocabulary; call `prepare` or `read_assets` first."""
        with tf.init_scope():  # it must outlive the graph that first uses it
            return self._make_tokenizer()

    def _make_tokenizer(self) -> VocabularyTokenizer:
        data, version = self.options.data, self._text_version
        if data["tokenizer"] == "subwords":
            return SubwordTokenizer(self._vocabulary, version)
        arguments = self._vocabulary, data["tokenizer"], data["unknown_ids"], version
        return self.word_tokenizer(*arguments)

    def build_model(self) -> keras.Model:
        """Return the model; its embedding starts with the word vectors, if there are any."""
        with self._suiting("model"):
            model = self._make_model(self.tokenizer.vocabulary_size, len(self._classes))
        table = self._table()
        if table is not None:
            model.embedding.embeddings.assign(table)
        return model

    def _table(self) -> np.ndarray | None:
        """Return the initial embedding matrix (ids, width), or None for Keras' default."""
        if not self._vectors:
            return None
        width, ids = self.options.model["embedding_dim"], self.tokenizer.vocabulary_size
        return embedding_matrix(self._vocabulary, self._vectors, width, self.seed, ids=ids)

    def check_model(self, model: keras.Model) -> None:
        """Reject a model whose vocabulary size or class count differs from the run's files."""
        made = model.get_config()
        for name, file, ours in (
            ("vocabulary_size", VOCABULARY_FILE, self.tokenizer.vocabulary_size),
            ("num_classes", self._classes_file, len(self._classes)),
        ):
            if made.get(name, ours) != ours:
                raise UserError(
                    f"the model has {name} {made[name]} and {file} gives {ours}: "
                    f"they come from different runs"
                )

    @abc.abstractmethod
    def _make_model(self, vocabulary_size: int, num_classes: int) -> keras.Model:
        """Return the model for these options; a ValueError says that they do not fit together."""

    def loss(self) -> keras.losses.Loss:
        """Return the cross-entropy of the class, weighted by `training.class_weights`."""
        smoothing = self.options.training.label_smoothing
        loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)
        return self._weighted(loss, lambda target: tf.argmax(target, axis=-1))

    def _weighted(self, loss: keras.losses.Loss, labels_of: Any) -> keras.losses.Loss:
        """Weight the loss by class, if the options ask for it; `labels_of` targets are (B,)."""
        if self.options.training.class_weights == "none":
            return loss
        labels = self._data.splits["train"].labels
        counts = np.bincount(labels, minlength=len(self._classes))
        return ClassWeighted(loss, balanced_weights(counts), labels_of)

    def metrics(self) -> list[keras.metrics.Metric]:
        """Return the share of examples with the right class, and the macro-F1."""
        return [
            keras.metrics.CategoricalAccuracy(name="accuracy"),
            MacroF1(len(self._classes), name="macro_f1"),
        ]

    def training_data(self, first_step: int) -> tf.data.Dataset:
        """Return the training examples, by similar length, reshuffled in every pass."""
        texts = self._data.splits["train"]
        return training_batches(
            self._dataset(texts, np.full(len(texts), -1)).skip,
            batch_size=self._batch_size,
            seed=self.seed,
            first_step=first_step,
            encode=self._encode,
            shuffle_buffer=len(texts),
            length_key="length",
        )

    def validation_data(self) -> tf.data.Dataset:
        """Return every validation example; repeated ones of weight 0 fill the last batch."""
        texts, size = self._validation_examples(), self._batch_size
        order = np.argsort(self._length_key(texts), kind="stable")
        filled, weights = fill_last_batch(order, size)
        rows = np.where(weights > 0, filled, -1)
        examples = self._dataset(texts.where(filled), rows, weights)
        return evaluation_batches(examples, batch_size=size, encode=self._encode)

    def _validation_examples(self) -> Any:
        return self._data.splits["validation"]

    def _dataset(
        self, texts: Any, rows: np.ndarray, weights: np.ndarray | None = None
    ) -> tf.data.Dataset:
        """Return the examples one by one; a `row` of −1 does not count in ranking metrics."""
        columns = {
            side: tf.constant(column.tolist(), tf.string) for side, column in texts.columns.items()
        }
        columns |= {"length": self._length_key(texts), "row": rows, **self._targets(texts)}
        if weights is not None:
            columns["weight"] = weights
        return tf.data.Dataset.from_tensor_slices(columns)

    def _length_key(self, texts: Any) -> np.ndarray:
        """Return the integer of each example by which batches are sorted."""
        return length_key(self._padded_lengths([*texts.columns.values()]))

    def _targets(self, texts: Any) -> dict[str, np.ndarray]:
        """Return what `_target` needs of each example."""
        return {"label": texts.labels}

    def _encode(self, examples: dict[str, tf.Tensor]) -> tuple[Any, ...]:
        """Return the model's inputs, targets and any weights of a batch."""
        ids = (self._ids(examples[side]) for side in self.sides)
        return self._argument(*ids), self._target(examples), *weights_of(examples)

    def _target(self, examples: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return tf.one_hot(examples["label"], len(self._classes))

    @property
    def _most_tokens(self) -> int:
        """The most tokens of a text that the model reads."""
        return self.options.data["max_length"]

    @property
    def _most_ids(self) -> int:
        """The most ids of one of the model's inputs."""
        return self.options.data["max_length"]

    def _tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the tokens that the model reads: strings (B,) to ragged (B, tokens)."""
        return self.tokenizer.split(texts)[:, : self._most_tokens]

    def _ids(self, texts: tf.Tensor) -> tf.Tensor:
        """Return the padded ids (B, length) of the texts' tokens."""
        return self.tokenizer.pad(self._tokens(texts), self.options.data["length_multiple"])[1]

    def _token_ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of the texts' tokens without padding, ragged (B, ids)."""
        return self.tokenizer.ids(self._tokens(texts))

    def _readable_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Return ids (..., length) as the model reads them: truncated, invalid ones unknown."""
        tokenizer = self.tokenizer
        known = (ids >= 0) & (ids < tokenizer.vocabulary_size)
        return tf.where(known, ids, tokenizer.unknown_id)[..., : self._most_tokens]

    def _inputs(self, *sides: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the model's inputs by name, from the padded ids (B, length) of each text."""
        names = self.sides if len(sides) > 1 else ("ids",)
        return dict(zip(names, sides, strict=True))

    def _argument(self, *sides: tf.Tensor) -> Any:
        """Return the argument of the model's call: its only input, or the dictionary of inputs."""
        inputs = self._inputs(*sides)
        return inputs if len(inputs) > 1 else next(iter(inputs.values()))

    def _outputs(self, model: keras.Model, texts: Any) -> np.ndarray:
        """Return a model's output of each example, computed in batches of similar length."""
        columns, read = list(texts.columns.values()), self._once(self._output_function, model)
        answers = in_batches(read, columns, self._padded_lengths(columns))
        return np.stack([one["output"] for one in answers])

    def _output_function(self, model: keras.Model) -> Any:
        @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)] * len(self.sides))
        def read(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"output": model(self._argument(*map(self._ids, texts)), training=False)}

        return read

    def _joined(self) -> dict[str, Any]:
        """Return the arguments of `ServingSignature` for a model that reads all texts as one."""
        return {}

    def texts(self, split: str, limit: int) -> list[str]:
        """Return the first `limit` inputs of a split, the texts of each joined by a tab."""
        return joined(*self._chosen(split, limit).columns.values())[:limit]

    def tokenize(self, texts: Sequence[str]) -> TokenizedTexts:
        """Return the token ids of the texts, with the tokens; only the first candidate counts."""
        rows = list(map(self._split, texts))
        columns = {side: as_bytes([row[n] for row in rows]) for n, side in enumerate(self.sides)}
        return self._tokenized(columns)

    def _split(self, text: str | bytes) -> list[Any]:
        """Return the texts of one input of `predict`."""
        return [text]

    def _tokenized(self, columns: Mapping[str, np.ndarray]) -> TokenizedTexts:
        """Return the ids and tokens of one column of texts per side."""
        tokens, ids = {}, {}
        for side, column in columns.items():
            tokens[side] = self._tokens(tf.constant(column.tolist(), tf.string))
            ids[side] = self.tokenizer.pad(tokens[side])[1].numpy()
        return TokenizedTexts(ids, {side: plain_tokens(rows) for side, rows in tokens.items()})

    def _padded_lengths(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the token counts of each sequence that the model pads by itself."""
        return [self._lengths(column) for column in columns]

    def _lengths(self, texts: np.ndarray) -> np.ndarray:
        """Return the number of tokens that the model reads of each text."""
        return counted(self._count, texts)

    @functools.cached_property
    def _count(self) -> Any:
        @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)])
        def count(texts: tf.Tensor) -> tf.Tensor:
            return tf.cast(self._tokens(texts).row_lengths(), tf.int32)

        return count


@functools.cache
def _mixed(reading: type, task: type) -> type:
    """Return the task's class with another way to read texts."""
    return type(task.__name__, (reading, task), {"__doc__": task.__doc__})


def _version(file: Path) -> int:
    """Return the version of the text processing that a run recorded."""
    try:
        version = json.loads(file.read_bytes())["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        version = None
    if type(version) is not int or not 1 <= version <= TEXT_VERSION:
        raise UserError(
            f"{file} is damaged, or of a newer keras_quasiattn: its version is {version!r}, and "
            f"this one knows 1 to {TEXT_VERSION}"
        )
    return version


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Return weights N/(classes·count) for the classes, which give all of them equal totals.

    The mean over the N rows is 1. A class without rows has weight 0 and is not counted.

    >>> balanced_weights(np.array([1, 3, 0])).tolist()
    [2.0, 0.6666666865348816, 0.0]
    """
    found = np.count_nonzero(counts)
    weights = counts.sum() / (found * np.maximum(counts, 1)) * (counts > 0)
    return weights.astype(np.float32)


class ClassWeighted(keras.losses.Loss):
    """Weight each example of another loss by its class.

    The weights (classes,) multiply the loss of an example as a whole, after label smoothing. They
    are constants, not normalized per batch. `labels_of` returns the class numbers (B,) of targets.
    """

    def __init__(
        self, loss: keras.losses.Loss, weights: np.ndarray, labels_of: Callable[[Any], Any]
    ) -> None:
        super().__init__(name=loss.name, reduction=loss.reduction, dtype=loss.dtype)
        self.loss, self.weights, self.labels_of = loss, weights, labels_of

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the weighted loss of each example, (B,)."""
        losses = self.loss.call(y_true, y_pred)
        weights = ops.convert_to_tensor(self.weights, dtype=losses.dtype)
        return losses * ops.take(weights, self.labels_of(y_true), axis=0)


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
        try:
            figures = classification_figures(chosen.labels, probabilities, self._classes)
        except ValueError as error:
            raise UserError(f"the model cannot be measured: {error}") from error
        right = rights(chosen, probabilities)
        answers = probabilities.argmax(axis=1)
        texts = ([self._classes[one] for one in some] for some in (chosen.labels, answers))
        judged = judge(inputs, *texts, right, probabilities.max(axis=1))
        return Measured({**figures, counted: len(chosen)}, right, judged)

    def answer(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return each input's class, class probabilities, tokens, and any weights and gates."""
        rows = list(map(self._split, inputs))
        columns = [as_bytes([row[side] for row in rows]) for side in range(len(self.sides))]
        answers = self._answers(self._once(self._ids_function, model), columns)
        return [{"input": text, **answer} for text, answer in zip(inputs, answers, strict=True)]

    def _answers(self, answer_ids: Any, columns: Sequence[np.ndarray]) -> list[dict[str, Any]]:
        answer = self._once(self._answer_function, answer_ids)
        answers = in_batches(answer, columns, self._padded_lengths(columns))
        return list(map(self._readable, answers))

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

    def _readable(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return one answer as plain values, without padding."""
        return unpadded(row)
