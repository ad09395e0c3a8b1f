"""The text-to-text tasks: their bases, `translate` and `programs`."""

import abc
import functools
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    GeneratedAlgoLisp,
    GeneratedAlgoLispConfig,
    ParallelCorpus,
    ParallelTexts,
    ParallelTextSet,
    ProgramTests,
    ProgramTexts,
    evaluation_token_batches,
    parallel_from_files,
    parallel_from_tfds,
    prepare,
    programs_from_files,
    programs_from_tfds,
    sequence_pair_encoder,
    token_batches,
    without_long_pairs,
)
from keras_quasiattn.lab.data.algolisp.problems import programs_from_file
from keras_quasiattn.lab.data.examples import warn_of_dropped
from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.batches import FILE, as_bytes, counted, in_batches, plain
from keras_quasiattn.lab.tasks.data_summary import summarize
from keras_quasiattn.lab.tasks.measured import Measured, judge_texts
from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.tasks.sequence_presets import DECODING_OPTIONS
from keras_quasiattn.lab.tasks.sources import Source, own_source
from keras_quasiattn.lab.tasks.task import ServingSignature, Task
from keras_quasiattn.lab.text import SentencePieceTokenizer, learn_sentence_pieces
from keras_quasiattn.metrics import (
    SequenceAccuracy,
    SequencePerplexity,
    bleu,
    perplexity,
    program_accuracy,
)
from keras_quasiattn.models import (
    Seq2Seq,
    SequenceCrossentropy,
    Transformer,
    beam_search,
    with_limits,
)

TEXT = tf.TensorSpec((None,), tf.string, name="text")
_IDS = tf.TensorSpec((None, None), tf.int32, name="ids")
_PIECES = "pieces.model"
_SHOWN_CHARACTERS = 40
_DROPPED = "pairs with an empty side"
_TALK = "And I want to tell you a story ."


class DecodedTask(Task):
    """A task that maps a text to a text, and says how probable the answer is."""

    together: ClassVar[int] = 100  # texts in a batch that is decoded

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

    def answer(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return the answer to each text, its log-probability, and other scores."""
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
            model_ids=lambda text: {
                "source": self._source(tf.constant(as_bytes([text]).tolist())).numpy(),
                "target": np.full((1, 1), self.tokenizer.eos_id),  # what starts an answer
            },
        )

    def _answers(self, model: keras.Model, texts: np.ndarray) -> list[dict[str, Any]]:
        if not len(texts):
            return []
        answer = self._once(self._text_function, self._once(self._ids_function, model))
        return in_batches(answer, [texts], [self._counts(texts)], self.together)

    def _counts(self, texts: np.ndarray) -> np.ndarray:
        """Return the number of tokens of each text, by which batches are sorted."""
        return np.zeros(len(texts), np.int32)

    def _ids_function(self, model: keras.Model) -> Any:
        tokenizer = self.tokenizer  # created outside the graph

        @tf.function(input_signature=[_IDS])
        def answer(ids: tf.Tensor) -> Mapping[str, tf.Tensor]:
            known = (ids >= 0) & (ids < tokenizer.vocabulary_size)
            source, longest = tf.where(known, ids, tokenizer.pad_id), self._longest_source
            # As for strings, the last id of a text that is cut is its end.
            cut = tf.reduce_any(source[:, longest:] != tokenizer.pad_id, axis=1, keepdims=True)
            last = tf.where(cut, tokenizer.eos_id, source[:, longest - 1 : longest])
            return self._decoded(model, tf.concat([source[:, : longest - 1], last], axis=1))

        return answer

    def _text_function(self, answer_ids: Any) -> Any:
        @tf.function(input_signature=[TEXT])
        def answer(text: tf.Tensor) -> Mapping[str, tf.Tensor]:
            return answer_ids(self._source(text))

        return answer


class SequenceTask(DecodedTask):
    """A text-to-text task over pieces learned from the training texts of both sides.

    `sequence_presets` describes the data and decoding options; `training.batch_size` counts tokens.
    The models `transformer*` and `universal*` are `models.Transformer`, `seq2seq*` are
    `models.Seq2Seq`; the `*_coda` models differ from their counterparts only in the attention.
    """

    counts_tokens: ClassVar[bool] = True
    least: ClassVar[Mapping[str, int]] = {
        "data.vocabulary_size": 3,
        "data.max_length": 2,
        "data.length_multiple": 1,
        "data.row_multiple": 1,
        "model.beam_width": 1,
        "model.length_penalty": 0,
        "model.extra_tokens": 1,
    }

    def _set_up(self) -> None:
        super()._set_up()
        self._pieces = b""

    @functools.cached_property
    def _data(self) -> ParallelTextSet:
        """The data without the training pairs that exceed `data.max_length`."""
        whole = self._loaded[0]
        longest = self._longest(whole.splits["train"])
        return without_long_pairs(whole, longest, longest, self.options.data["max_length"])

    def prepare(self) -> None:
        """Read the data, and learn the pieces unless a run supplied them."""
        train, least = self._loaded[0].splits["train"], self.options.data["row_multiple"]
        if not self._pieces:
            texts = [*train.source.tolist(), *train.target.tolist()]
            self._pieces = learn_sentence_pieces(texts, size=self.options.data["vocabulary_size"])
        for split in ("train", "validation"):
            if len(self._data.splits[split]) < least:
                raise UserError(
                    f"data.row_multiple is {least}: it must be at most "
                    f"{len(self._data.splits[split])}, the number of examples in the {split} split"
                )

    def describe_data(self) -> dict[str, str]:
        """Return the data's version, the part of the set used, and how many pairs were too long."""
        (whole, note), train = self._loaded, self._data.splits["train"]
        long = len(whole.splits["train"]) - len(train)
        limit = self.options.data["max_length"]
        left_out = f"{long:,} training pairs of more than {limit} tokens left out" if long else ""
        joined = "; ".join(filter(None, (note, left_out)))
        return {"version": whole.version, **({"note": joined} if joined else {})}

    def remarks(self) -> list[str]:
        """Return a summary of the user's own data."""
        if "train" not in self.options.data:
            return []
        note = self.describe_data().get("note", "")
        return summarize(self._loaded[0], note, self._counts, {})

    def assets(self) -> dict[str, bytes]:
        """Return the SentencePiece model."""
        return {_PIECES: self._pieces}

    def read_assets(self, folder: Path) -> None:
        """Restore the SentencePiece model."""
        try:
            self._pieces = (folder / _PIECES).read_bytes()
            self.tokenizer  # noqa: B018 (parses it)
        except (OSError, ValueError) as error:
            raise UserError(f"{folder} is damaged: {_PIECES} cannot be read") from error

    @functools.cached_property
    def tokenizer(self) -> SentencePieceTokenizer:
        """The tokenizer of the pieces; call `prepare` or `read_assets` first."""
        with tf.init_scope():  # it must outlive the graph that first uses it
            return SentencePieceTokenizer(self._pieces)

    def build_model(self) -> keras.Model:
        """Return the model for these options."""
        options, attention = attention_of(self.options.model)
        arguments = {name: value for name, value in options.items() if name not in DECODING_OPTIONS}
        size = self.tokenizer.vocabulary_size
        with self._suiting("model"):
            if self.model.startswith("seq2seq"):
                return Seq2Seq(size, **attention, **arguments)
            universal = self.model.startswith("universal")
            return Transformer(size, **attention, universal=universal, **arguments)

    def metrics(self) -> list[keras.metrics.Metric]:
        """Return the perplexity and the sequence accuracy, the latter as in greedy decoding."""
        return [SequenceAccuracy(), SequencePerplexity()]

    def training_data(self, first_step: int) -> tf.data.Dataset:
        """Return the training pairs, by similar length, reshuffled in every pass."""
        return token_batches(**self._batches("train"), seed=self.seed, first_step=first_step)

    def validation_data(self) -> tf.data.Dataset:
        """Return every validation pair but the shortest, fewer than `data.row_multiple`."""
        return evaluation_token_batches(**self._batches("validation"))

    def _batches(self, split: str) -> dict[str, Any]:
        """Return the arguments of `data.token_batches` for a split."""
        multiple = self.options.data["row_multiple"]
        return {**self._encoded(self._data.splits[split]), "row_multiple": multiple}

    def _encoded(self, pairs: ParallelTexts) -> dict[str, Any]:
        data = self.options.data
        encode = sequence_pair_encoder(
            self.tokenizer.tokenize,
            source_key="source",
            target_key="target",
            start_id=self.tokenizer.eos_id,
        )
        return {
            "columns": {"source": pairs.source, "target": pairs.target},
            "lengths": np.minimum(self._longest(pairs), data["max_length"]),
            "length_multiple": data["length_multiple"],
            "batch_tokens": self.options.training.batch_size,
            "encode": encode,
        }

    def _longest(self, pairs: ParallelTexts) -> np.ndarray:
        """Return the number of tokens of each pair's longer side, including the end: (pairs,)."""
        return np.maximum(*map(self._counts, (pairs.source, pairs.target)))

    def _read(self, targets: np.ndarray) -> np.ndarray:
        """Return the part of each target that counts in the perplexity."""
        multiple = self.options.data["length_multiple"]
        longest = -(-self.options.data["max_length"] // multiple) * multiple
        cut = np.flatnonzero(self._counts(targets) > longest)
        read = targets.copy()
        if len(cut):
            ids = self.tokenizer.tokenize(tf.constant(targets[cut].tolist()), longest)
            read[cut] = self.tokenizer.detokenize(ids).numpy()
        return read

    @functools.cached_property
    def _count(self) -> Any:
        tokenizer = self.tokenizer

        @tf.function(input_signature=[TEXT])
        def count(text: tf.Tensor) -> tf.Tensor:
            return _real(tokenizer.tokenize(text))

        return count

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return the task's metrics, exact-match share, and perplexity per piece and per word."""
        rows = self._answers(model, chosen.source)
        answers = [row["answer"] for row in rows]
        measured = self._measured(model, chosen)
        words = sum(len(target.split()) + 1 for target in self._read(chosen.target))  # and the end
        targets = self.tokenizer.normalize(tf.constant(chosen.target.tolist(), tf.string)).numpy()
        right = np.array(answers, object) == targets  # (examples,): both have single blanks
        figures = {
            **self._figures(answers, chosen),
            "sequence_accuracy": float(np.mean(right)),
            "perplexity": float(measured.result()),
            "word_perplexity": perplexity(float(measured.total), words),
            "examples": len(chosen),
        }
        items = right.astype(np.float64) if self.figure == "sequence_accuracy" else None
        return Measured(figures, items, judge_texts(chosen.source, targets, rows, right))

    @abc.abstractmethod
    def _figures(self, answers: Sequence[bytes], examples: Any) -> dict[str, float | str]:
        """Return the metrics of the answers that are specific to the task."""

    def _measured(self, model: keras.Model, pairs: ParallelTexts) -> SequencePerplexity:
        metric = SequencePerplexity()

        @tf.function(reduce_retracing=True)
        def measure(inputs: dict[str, tf.Tensor], target: tf.Tensor) -> None:
            metric.update_state(target, model(inputs, training=False))

        for inputs, target, _ in evaluation_token_batches(**self._encoded(pairs)):
            measure(inputs, target)
        return metric

    def explain(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return the answers of `predict`, with pieces and attention weights (answer, text)."""
        if self.model == "seq2seq":
            raise UserError("model seq2seq has no attention to show")
        search = self._once(self._search_function, model)
        rows = []
        for row in self.predict(model, inputs):
            source = self._source(tf.constant(as_bytes([row["input"]]).tolist()))
            ids, _ = search(source)
            ids = ids[:, : int(_real(ids)[0])]  # (1, T)
            start = tf.fill([1, 1], self.tokenizer.eos_id)
            explained = model.explain(source, tf.concat([start, ids[:, :-1]], axis=1))
            weights = explained["weights"].numpy()[0]
            if weights.ndim == 4:  # a Transformer's (blocks, heads, T, S)
                weights = weights[-1].mean(axis=0)  # (T, S): mean over the last block's heads
            pieces = {
                name: plain(self.tokenizer.names(one)[0].numpy())
                for name, one in (("source_pieces", source), ("answer_pieces", ids))
            }
            rows.append({**row, **pieces, "weights": plain(weights)})
        return rows

    def check_input(self, text: str | bytes) -> None:
        """Reject an empty text, and a text of more than `data.max_length` tokens."""
        raw = text if isinstance(text, bytes) else as_bytes([text])[0]
        limit, tokens = self.options.data["max_length"], int(self._count(tf.constant([raw]))[0])
        shown = repr(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!r}..."
        if tokens == 1:  # only the end
            raise UserError(f"the text {shown} is empty: expected one such as {self.example!r}")
        if tokens > limit:
            raise UserError(f"the text {shown} has {tokens} tokens; data.max_length allows {limit}")

    def _counts(self, texts: np.ndarray) -> np.ndarray:
        return counted(self._count, texts)

    @property
    def _longest_source(self) -> int:
        return self.options.data["max_length"]

    def _decoded(self, model: keras.Model, source: tf.Tensor) -> dict[str, tf.Tensor]:
        found, log_probability = self._search(model, source)  # (B, T), (B,)
        length = tf.cast(_real(found), tf.float32)
        penalty = ((5 + length) / 6) ** self.options.model["length_penalty"]
        return {
            "answer": self.tokenizer.detokenize(found),
            "log_probability": log_probability,
            "score": log_probability / penalty,
        }

    def _search_function(self, model: keras.Model) -> Any:
        return tf.function(functools.partial(self._search, model), reduce_retracing=True)

    def _search(self, model: keras.Model, source: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the answer ids (B, T) for source ids (B, S), and their log-probabilities (B,)."""
        options = self.options.model
        limits = _real(source) + options["extra_tokens"]
        length = tf.reduce_max(tf.concat([limits, [1]], axis=0))  # of no texts, too
        step, cache = with_limits(model.step, model.start_cache(source, length), limits)
        width, alpha = options["beam_width"], options["length_penalty"]
        return beam_search(step, cache, length, beam_width=width, alpha=alpha)


def _real(ids: tf.Tensor) -> tf.Tensor:
    """Return (B,): the number of non-padding tokens in each row."""
    return tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)


def _sides(option: str, given: str) -> tuple[str, str]:
    """Split an option, "SOURCE,TARGET", into its two files."""
    source, *target = given.split(",")
    if len(target) != 1 or not (source and target[0]):
        commas = "; a path must not have a comma" if len(target) > 1 else ""
        raise UserError(
            f"{option} is {given!r}: give two files with one text per line, "
            f"as SOURCE,TARGET (for training: --source and --target){commas}"
        )
    return source, target[0]


def _own_texts(options: Mapping[str, Any]) -> ParallelTextSet:
    given = {split: options[split] for split in SPLITS if options[split] or split == "train"}
    return parallel_from_files(
        {split: _sides(f"data.{split}", files) for split, files in given.items()}
    )


def _corpus(example: str, builder: Any = ParallelCorpus, **more: Any) -> Source:
    """Return the source of a data set with the languages `data.source` and `data.target`."""

    def read(made: Any, options: Mapping[str, Any]) -> ParallelTextSet:
        splits = {split: split for split in SPLITS}
        return parallel_from_tfds(made, splits, options["source"], options["target"])

    return Source(example=example, builder=builder, read=read, dropped=_DROPPED, **more)


class Translate(SequenceTask):
    """Translation: Tables 4 and 9 of CoDA, and the recurrent models of the HW4 write-up.

    The recurrent models are in Tables 1 and 2 of the write-up. `data.source` and `data.target` are
    the two languages of the preset's corpus, in either order.

    Source: Tay et al. 2019, §3.4 and §4.2; Vaswani et al. 2017; Luong et al. 2015.
    """

    name: ClassVar[str] = "translate"
    figure: ClassVar[str] = "bleu"
    shares: ClassVar[tuple[str, ...]] = ("sequence_accuracy",)
    sources: ClassVar[Mapping[str, Source]] = {
        "multi30k": _corpus("A man in a blue shirt is standing on a ladder.", config="multi30k"),
        "iwslt15_envi": _corpus(_TALK, config="iwslt15_envi"),
        "iwslt15_envi_part": _corpus(_TALK, config="iwslt15_envi_part", published_rows=133_317),
        "ted_hrlr": _corpus("esta é uma história .", "ted_hrlr_translate/pt_to_en"),
        "own": Source(example="any text", read=_own_texts, dropped=_DROPPED),
    }

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> ParallelTexts:
        whole = parallel_from_files({FILE: _sides("--data", file)})
        warn_of_dropped(file, whole.dropped[FILE], _DROPPED)
        return whole.splits[FILE]

    def _figures(self, answers: Sequence[bytes], examples: Any) -> dict[str, float | str]:
        # Answers are in NFC, as the tokenizer is.
        targets = (target.decode("utf-8", "replace") for target in examples.target)
        return bleu(answers, [unicodedata.normalize("NFC", target) for target in targets])


class Programs(SequenceTask):
    """Text to code, Table 7 of CoDA.

    The metrics are the share of answers that equal the reference (`sequence_accuracy`, the paper's
    metric) and the share that pass the problem's ten tests (`program_accuracy`, Polosukhin and
    Skidanov's). A program fails if it is malformed, raises an error, or exceeds the interpreter's
    step limit.

    Source: Tay et al. 2019, §3.5; Polosukhin and Skidanov 2018, "Neural Program Search".
    """

    name: ClassVar[str] = "programs"
    figure: ClassVar[str] = "sequence_accuracy"
    shares: ClassVar[tuple[str, ...]] = ("sequence_accuracy", "program_accuracy")
    example: ClassVar[str] = "given an array of numbers a , find the largest value in a"
    sources: ClassVar[Mapping[str, Source]] = {"own": own_source(example, programs_from_files)}

    def _load(self) -> tuple[Any, str]:
        if self.preset in self.sources:
            return super()._load()
        builder = prepare(self._builder, self.data_dir)
        return programs_from_tfds(builder, SPLITS), "problems by rule, not the published ones"

    def _builder(self) -> GeneratedAlgoLisp:
        data = self.options.data
        counts = {split: data[f"{split}_problems"] for split in SPLITS}
        with self._suiting("data"):
            config = GeneratedAlgoLispConfig(seed=data["problem_seed"], **counts)
        return GeneratedAlgoLisp(config=config, data_dir=self.data_dir)

    def missing_data(self) -> str:
        """Return a line if the problems would have to be generated."""
        if self.preset in self.sources or self._builder().is_prepared():
            return ""
        return f"{self.data_dir} does not have the problems of this run"

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> ProgramTexts:
        return programs_from_file(file)

    def _figures(self, answers: Sequence[bytes], examples: Any) -> dict[str, float | str]:
        tests = [ProgramTests.from_json(test) for test in examples.tests]
        return {"program_accuracy": program_accuracy(answers, tests)}
