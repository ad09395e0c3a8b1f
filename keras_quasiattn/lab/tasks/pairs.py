"""Pairs of texts: the base class of their tasks, and the task that classifies them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    PairCorpus,
    TextPairs,
    pairs_from_click_log,
    pairs_from_files,
    pairs_from_tfds,
)
from keras_quasiattn.lab.data.examples import pairs_from_file
from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.batches import FILE, as_bytes, joined, plain
from keras_quasiattn.lab.tasks.encoder import EncoderReading
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.tasks.measured import Measured
from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.tasks.task import Source, own_source
from keras_quasiattn.lab.tasks.vocabulary_task import ClassTask, VocabularyTask
from keras_quasiattn.models import MixtureClassifier, PairClassifier, SiameseClassifier

NULL = "[NULL]"  # no text has this token: cleanings drop or split off brackets


class PairTask(VocabularyTask):
    """A task on pairs of texts, `first` and `second`.

    `null_token` makes both texts start with a token that words without a counterpart can align to,
    and `unit_norm` scales word vectors to length 1. For `min_count`, a text in several pairs counts
    once.
    """

    sides: ClassVar[tuple[str, ...]] = ("first", "second")
    readings: ClassVar[Mapping[str, type]] = {ENCODER: EncoderReading}
    # As in the models with CoDA: see `pair_presets`.
    attention_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"coda": {"scaling": "none"}}

    def _training_texts(self) -> list[bytes]:
        # A text in several pairs counts once. Otherwise a reply that is also drawn as a wrong one
        # for other questions would have no unknown words, and unknown words would mark the right
        # replies.
        return list(dict.fromkeys(super()._training_texts()))

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
        kind, _, interaction = self.model.partition("_")
        if kind == "siamese":
            return SiameseClassifier(**sizes, interaction=interaction, **options)
        if kind == "mixture":
            components: list[dict[str, Any]] = [{}] * options.pop("plain_components")
            components += [{"intra_attention": True}] * options.pop("intra_components")
            network = ("units", "num_layers", "projection_dim", "dropout", "attention_dropout")
            common = {name: options.pop(name) for name in (*network, "comparison")}
            return MixtureClassifier(**sizes, components=components, common=common, **options)
        options, attention = attention_of(options)
        return PairClassifier(**sizes, **options, **attention)

    def _split(self, text: str | bytes) -> list[str]:
        return split_input(text, self.sides, more=True)


def split_input(text: str | bytes, names: Sequence[str], *, more: bool = False) -> list[str]:
    """Split an input at its tabs into texts with these names, and perhaps more like the last."""
    line = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    columns = line.split("\t")
    if len(columns) < len(names) or (len(columns) > len(names) and not more):
        raise UserError(
            f"number of texts in the input {line!r}: {len(columns)}, expected {len(names)}"
            f"{' or more' if more else ''} separated by tabs: {', '.join(names)}"
        )
    return columns


def first_and_others(text: str | bytes, names: Sequence[str]) -> list[Any]:
    """Return the first text of an input, and a list of the others."""
    first, *others = split_input(text, names, more=True)
    return [first, others]


def one_by_one(answer: Any, inputs: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the answers of a function of a first text (B,) and others (B, C), for each input."""
    answers = []
    for text in inputs:
        first, others = first_and_others(text, names)
        row = answer(
            tf.constant(as_bytes([first]).tolist()), tf.constant([as_bytes(others).tolist()])
        )
        found = {name: plain(value[0].numpy()) for name, value in row.items()}
        answers.append({"input": text, **found})
    return answers


def pair_source(
    example: str,
    builder: Any = PairCorpus,
    keys: Sequence[str] = ("first", "second", "label"),
    splits: Mapping[str, str] | None = None,
    **more: Any,
) -> Source:
    """Return the source of a data set of pairs.

    `keys` are the features with both texts, the label and, for ranking, the question.
    """
    names = dict(zip(("first_key", "second_key", "label_key", "question_key"), keys, strict=False))

    def read(made: Any, _: Any) -> Any:
        return pairs_from_tfds(made, splits or {split: split for split in SPLITS}, **names)

    return Source(example=example, builder=builder, read=read, **more)


_INFERENCE = "A man plays a guitar on stage.\tA man makes music."
_PARAPHRASE = "How do I learn French?\tWhat is the best way to learn French?"
_NLI = ("premise", "hypothesis", "label")


class Pairs(PairTask, ClassTask):
    """Classification of pairs of texts: inference, paraphrase, clicks.

    Source: Parikh et al. 2016 and its restatement with a mixture; Mitra 2019, "Conflict as an
    Inverse of Attention in Sequence Relationship"; Tay et al. 2019, §3.3.
    """

    name: ClassVar[str] = "pairs"
    input_columns: ClassVar[tuple[str, ...]] = PairTask.sides
    sources: ClassVar[Mapping[str, Source]] = {
        "snli": pair_source(_INFERENCE, "snli", _NLI),
        "snli_part": pair_source(_INFERENCE, config="snli_part", published_rows=549_367),
        "multi_nli": pair_source(
            _INFERENCE,
            "multi_nli",
            _NLI,
            {"train": "train", "validation": "validation_matched", "test": "validation_mismatched"},
        ),
        "scitail": pair_source(_INFERENCE, "sci_tail", _NLI),
        "dialogue_nli": pair_source("i like dogs .\ti have two dogs .", config="dialogue_nli"),
        # The published test split has no labels, so the test split here is the published validation
        # split, and validation pairs are held out from the training split.
        "quora": pair_source(
            _PARAPHRASE,
            "glue/qqp",
            ("question1", "question2", "label"),
            {"train": "train", "test": "validation"},
        ),
        "quora_tsv": pair_source(_PARAPHRASE, config="quora"),
        "quora_part": pair_source(_PARAPHRASE, config="quora_part", published_rows=384_290),
        "own": own_source("any text\tanother text", pairs_from_files),
        "click_log": own_source("weather paris\tIs it cold in Paris?", pairs_from_click_log),
    }

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> TextPairs:
        if self.preset == "click_log":
            return pairs_from_click_log({FILE: file}, columns).splits[FILE]
        return pairs_from_file(file, self._classes, columns)

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return `classification_figures`."""
        logits = self._outputs(model, chosen)
        probabilities = tf.nn.softmax(tf.constant(logits, tf.float64)).numpy()
        inputs = joined(chosen.first, chosen.second)
        return self._classified(chosen, inputs, probabilities, "pairs")

    def _split(self, text: str | bytes) -> list[str]:
        return split_input(text, self.sides)

    def _readable(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return one pair's answer without padding; weights have a row per attending token."""
        lengths = {side: int(np.sum(row[f"{side}_tokens"] != b"")) for side in self.sides}
        answer = {}
        for name, value in row.items():
            if name.endswith("_tokens"):
                value = value[: lengths[name.removesuffix("_tokens")]]
            elif np.ndim(value) == 2:
                sides = reversed(self.sides) if name.endswith("second") else self.sides
                value = value[tuple(slice(lengths[side]) for side in sides)]  # (S, T) or (T, S)
            answer[name] = plain(value)
        return answer
