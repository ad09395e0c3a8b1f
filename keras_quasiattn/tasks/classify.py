"""Texts to classes: what a question asks for, what a review feels, what news are about."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.data import LabelledTexts, LabelledTextSet, evaluation_batches, training_batches
from keras_quasiattn.errors import UserError
from keras_quasiattn.metrics import attention_flops
from keras_quasiattn.models import TextClassifier, TransformerClassifier
from keras_quasiattn.tasks.classify_data import OWN_EXAMPLE, SOURCES, load_texts
from keras_quasiattn.tasks.classify_presets import MODELS, PRESETS
from keras_quasiattn.tasks.preset import Preset
from keras_quasiattn.tasks.task import ServingSignature, Task
from keras_quasiattn.text import (
    CLEANINGS,
    SubwordTokenizer,
    VocabularyTokenizer,
    WordTokenizer,
    embedding_matrix,
    learn_subwords,
    learn_words,
    read_vocabulary,
    read_word_vectors,
    vocabulary_text,
)

_TOKENIZERS = (*CLEANINGS, "subwords")
_VOCABULARY, _CLASSES = "vocabulary.txt", "classes.txt"
_BATCH = 100
# Which argument of its layer an option of a model is.
_ATTENTION_OPTIONS = {
    "gate_network": "network",
    "gate_units": "units",
    "gate_temperature": "temperature",
    "gate_cost": "open_gate_cost",
    "gate_inference": "inference",
    "window": "window",
    "num_heads": "num_heads",
    "coda_scaling": "scaling",
    "coda_gate_range": "gate_range",
}


class Classify(Task):
    """Text classification, GA-Net's Tables 2 and 3 and CoDA's Table 5.

    The models `bilstm_*` differ in what stands between the LSTM's states and the classes; see
    `models.TextClassifier`. `transformer` and `transformer_coda` differ in their attention; see
    `models.TransformerClassifier`. A text longer than `data.max_length` tokens loses its tail, in training and
    in answering alike.

    The vocabulary comes from the training split alone. With `data.vectors` (GloVe's text form, or an .npz) the
    embedding begins with the vectors of the words that have one; words that are rarer than `data.min_count` and have
    none are unknown.

    Source: Xue et al. 2019, "Not All Attention Is Needed"; Tay et al. 2019, §3.5.
    """

    name: ClassVar[str] = "classify"
    summary: ClassVar[str] = "texts to classes: questions, reviews, news, or your own file"
    models: ClassVar[tuple[str, ...]] = MODELS
    presets: ClassVar[dict[str, Preset]] = PRESETS
    own_data: ClassVar[tuple[str, str] | None] = ("own", "data.train")

    def __init__(
        self,
        *,
        preset: str,
        model: str,
        seed: int,
        data_dir: str | Path,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(preset=preset, model=model, seed=seed, data_dir=data_dir, overrides=overrides)
        data = self.options.data
        if data["tokenizer"] not in _TOKENIZERS:
            raise UserError.unknown("data.tokenizer", data["tokenizer"], _TOKENIZERS)
        if data["vectors"] and (data["tokenizer"] == "subwords" or model.startswith("transformer")):
            raise UserError(
                f"data.vectors is {data['vectors']!r}: vectors are of words, for the models bilstm_*"
            )
        for name, least in (
            ("max_length", 1),
            ("length_multiple", 1),
            ("min_count", 1),
            ("vocabulary_size", 3),
        ):
            if data[name] < least:
                raise UserError(f"data.{name} is {data[name]}: it must be at least {least}")
        self._classes: tuple[str, ...] = ()
        self._vocabulary: list[str] = []
        self._vectors: dict[str, np.ndarray] = {}

    @property
    def example(self) -> str:
        """A text like those of the preset's data."""
        return SOURCES[self.preset].example if self.preset in SOURCES else OWN_EXAMPLE

    @functools.cached_property
    def _texts(self) -> tuple[LabelledTextSet, str]:
        return load_texts(self.preset, self.options.data, self.data_dir)

    def prepare(self) -> None:
        """Read the data, and learn the vocabulary where no run has brought one."""
        texts, _ = self._texts
        rows, size = len(texts.splits["train"]), self.options.training.batch_size
        if rows < size:
            raise UserError(
                f"training.batch_size is {size}: it must be at most {rows}, the number of training texts"
            )
        if not self._vocabulary:
            self._classes = texts.classes
            self._vocabulary = self._learn(texts.splits["train"].texts.tolist())
        elif self._classes != texts.classes:
            raise UserError(
                f"the data have the classes {', '.join(texts.classes)} and the run has "
                f"{', '.join(self._classes)}: bring back the data that the run was begun with"
            )

    def _learn(self, texts: list[bytes]) -> list[str]:
        data = self.options.data
        if data["tokenizer"] == "subwords":
            return learn_subwords(texts, size=data["vocabulary_size"])
        words = {"size": data["vocabulary_size"], "min_count": data["min_count"]}
        if data["vectors"]:
            every_word = learn_words(texts, data["tokenizer"], size=2**31)
            width = self.options.model["embedding_dim"]
            self._vectors = read_word_vectors(data["vectors"], width, every_word)
        return learn_words(texts, data["tokenizer"], known=self._vectors, **words)

    def describe_data(self) -> dict[str, str]:
        """The data's version, and which part of which set they are."""
        texts, note = self._texts
        return {"version": texts.version, "note": note} if note else {"version": texts.version}

    def assets(self) -> dict[str, str]:
        """The vocabulary and the names of the classes."""
        return {
            _VOCABULARY: vocabulary_text(self._vocabulary),
            _CLASSES: "".join(f"{name}\n" for name in self._classes),
        }

    def read_assets(self, folder: Path) -> None:
        """Bring back the vocabulary and the names of the classes."""
        try:
            vocabulary, classes = (
                (folder / name).read_bytes().decode("utf-8") for name in (_VOCABULARY, _CLASSES)
            )
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{folder} is damaged: {_VOCABULARY} or {_CLASSES} cannot be read") from error
        self._vocabulary = read_vocabulary(vocabulary, str(folder / _VOCABULARY))
        self._classes = tuple(classes.removesuffix("\n").split("\n"))

    @functools.cached_property
    def tokenizer(self) -> VocabularyTokenizer:
        """Of the data's vocabulary: prepare the task first, or take it from a run."""
        with tf.init_scope():  # it outlives the graph that first asks for it
            if self.options.data["tokenizer"] == "subwords":
                return SubwordTokenizer(self._vocabulary)
            return WordTokenizer(self._vocabulary, self.options.data["tokenizer"])

    def build_model(self) -> keras.Model:
        """The model, its embedding filled with the word vectors where there are any."""
        options = dict(self.options.model)
        attention = {
            argument: options.pop(option)
            for option, argument in _ATTENTION_OPTIONS.items()
            if option in options and not (option == "num_heads" and self.model.startswith("transformer"))
        }
        sizes: dict[str, Any] = {"vocabulary_size": len(self._vocabulary), "num_classes": len(self._classes)}
        try:
            if self.model.startswith("transformer"):
                kind = "coda" if self.model == "transformer_coda" else "softmax"
                return TransformerClassifier(
                    **sizes, **options, attention=kind, attention_options=attention or None
                )
            kind = self.model.removeprefix("bilstm_")
            model = TextClassifier(**sizes, **options, attention=kind, attention_options=attention or None)
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise UserError(f"the model options do not suit task classify: {reason}") from error
        if self._vectors:
            width = options["embedding_dim"]
            model.embedding.embeddings.assign(
                embedding_matrix(self._vocabulary, self._vectors, width, self.seed)
            )
        return model

    def loss(self) -> keras.losses.Loss:
        """Cross-entropy of the class."""
        smoothing = self.options.training.label_smoothing
        return keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)

    def metrics(self) -> list[keras.metrics.Metric]:
        """Share of the texts whose class is right."""
        return [keras.metrics.CategoricalAccuracy(name="accuracy")]

    def training_data(self, first_step: int) -> tf.data.Dataset:
        """The training texts, shuffled anew every epoch, texts of like length in a batch."""
        texts = self._texts[0].splits["train"]
        return training_batches(
            self._dataset(texts).skip,
            batch_size=self.options.training.batch_size,
            seed=self.seed,
            first_step=first_step,
            encode=self._encode,
            shuffle_buffer=len(texts),
            length_key="length",
        )

    def validation_data(self) -> tf.data.Dataset:
        """Every validation text; some of them twice, so that the last batch is whole."""
        texts, size = self._texts[0].splits["validation"], self.options.training.batch_size
        order = np.argsort(self._lengths(texts.texts), kind="stable")
        filled = np.concatenate([order, np.resize(order, -len(order) % size)])
        examples = self._dataset(texts.where(filled))
        return evaluation_batches(examples, batch_size=size, encode=self._encode)

    def _dataset(self, texts: LabelledTexts) -> tf.data.Dataset:
        columns = {
            "text": tf.constant(texts.texts.tolist(), tf.string),
            "label": texts.labels,
            "length": self._lengths(texts.texts),
        }
        return tf.data.Dataset.from_tensor_slices(columns)

    def _lengths(self, texts: np.ndarray) -> np.ndarray:
        """Tokens of each text, as many as the model reads."""
        batches = (texts[start : start + 1000] for start in range(0, len(texts), 1000))
        return np.concatenate([self._count(tf.constant(batch.tolist(), tf.string)) for batch in batches])

    @functools.cached_property
    def _count(self) -> Any:
        @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)])
        def count(texts: tf.Tensor) -> tf.Tensor:
            lengths = tf.cast(self.tokenizer.split(texts).row_lengths(), tf.int32)
            return tf.minimum(lengths, self.options.data["max_length"])

        return count

    def _encode(self, examples: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        data = self.options.data
        ids = self.tokenizer.tokenize(
            examples["text"], data["max_length"], length_multiple=data["length_multiple"]
        )
        return ids, tf.one_hot(examples["label"], len(self._classes))

    def evaluate(self, model: keras.Model, split: str = "test", limit: int | None = None) -> dict[str, float]:
        """Accuracy; where the model has an attention unit, its operations, and the density of open gates."""
        splits = self._texts[0].splits
        if split not in splits:
            raise UserError.unknown("split", split, splits)
        if limit is not None and limit < 1:
            raise UserError(f"limit is {limit}: it must be at least 1, or none for all texts")
        chosen = splits[split].where(np.arange(len(splits[split])) < (limit or len(splits[split])))
        answers = self._answers(model, chosen.texts)
        right = [
            answer["label"] == self._classes[label]
            for answer, label in zip(answers, chosen.labels, strict=True)
        ]
        figures: dict[str, float] = {"accuracy": float(np.mean(right)), "texts": len(chosen)}
        kind = self.model.removeprefix("bilstm_")
        if kind in ("none", "local", "soft", "gated"):
            lengths = [len(answer["tokens"]) for answer in answers]
            opened = [int(np.sum(answer["gates"])) for answer in answers] if kind == "gated" else None
            width = self.options.model["units"] * (2 if self.options.model["merge_mode"] == "concat" else 1)
            window = self.options.model.get("window")
            figures["attention_flops"] = attention_flops(
                kind, lengths, width, open_counts=opened, window=window
            )
            if opened is not None:
                figures["density"] = sum(opened) / max(sum(lengths), 1)
        return figures

    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """For each text its class, the classes' probabilities, the tokens, and their weights and gates if any."""
        texts = np.empty(len(inputs), object)
        # Bytes that were not UTF-8 come from the command line as surrogates.
        texts[:] = [text.encode("utf-8", "surrogateescape") for text in inputs]
        answers = self._answers(model, texts)
        return [{"input": text, **answer} for text, answer in zip(inputs, answers, strict=True)]

    def _answers(self, model: keras.Model, texts: np.ndarray) -> list[dict[str, Any]]:
        answer = self._answer_function(model)
        order = (
            np.argsort(self._lengths(texts), kind="stable") if len(texts) > _BATCH else np.arange(len(texts))
        )
        answers: list[dict[str, Any]] = [{}] * len(texts)
        for start in range(0, len(texts), _BATCH):
            rows = order[start : start + _BATCH]
            outputs = {
                name: value.numpy() for name, value in answer(tf.constant(texts[rows].tolist())).items()
            }
            for row, number in enumerate(rows):
                answers[number] = _readable({name: value[row] for name, value in outputs.items()})
        return answers

    def check_input(self, text: str | bytes) -> None:
        """Every text has a class."""

    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """`text` in; `label`, `classes` and their `probabilities`, `tokens`, `weights` and `gates` out."""
        signature = [tf.TensorSpec((None,), tf.string, name="text")]
        return ServingSignature(self._answer_function(model), signature, self.tokenizer.resources)

    def _answer_function(self, model: keras.Model) -> Any:
        tokenizer, max_length = self.tokenizer, self.options.data["max_length"]

        @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="text")])
        def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
            classes = tf.constant(self._classes, tf.string)
            tokens, ids = tokenizer.pad(tokenizer.split(text)[:, :max_length])
            explained = model.explain(ids)
            logits = explained.pop("logits")
            return {
                "label": tf.gather(classes, tf.argmax(logits, axis=-1)),
                "classes": tf.tile(classes[None], (tf.shape(text)[0], 1)),
                "probabilities": tf.nn.softmax(logits),
                "tokens": tokens,
                **explained,
            }

        return answer


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """One text's answer as plain values, without padding."""
    length = int(np.sum(row["tokens"] != b""))
    answer: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            answer[name] = value.decode("utf-8", "replace")
            continue
        kept = value[:length] if name in ("tokens", "weights", "gates") else value
        texts = kept.dtype == object
        answer[name] = [one.decode("utf-8", "replace") for one in kept] if texts else kept.tolist()
    return answer
