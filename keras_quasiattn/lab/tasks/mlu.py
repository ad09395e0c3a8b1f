"""Arithmetic in characters: the answer to the question `x=85,y=-523,x*y` is `-44455`."""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    SPLITS,
    ArithmeticMlu,
    ArithmeticMluConfig,
    evaluation_batches,
    prepare,
    sequence_pair_encoder,
    split_reader,
    training_batches,
)
from keras_quasiattn.lab.data.examples import text_array
from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.measured import Measured, judge_texts
from keras_quasiattn.lab.tasks.sequence_task import DecodedTask
from keras_quasiattn.lab.tasks.task import TokenizedTexts
from keras_quasiattn.lab.text import ByteTokenizer
from keras_quasiattn.metrics import SequenceAccuracy
from keras_quasiattn.models import Transformer, greedy_search

_SHUFFLE_BUFFER = 16_000  # the rows are already shuffled on disk
_EXAMPLE = "x=85,y=-52,y-x"


class Mlu(DecodedTask):
    """Mathematical language understanding, Table 6 of CoDA.

    The model decodes the answer greedily, character by character; only completely right answers
    count. The models "coda" and "softmax" differ only in their attention; "universal" is the
    Universal Transformer with softmax, "universal_coda" the same with CoDA.

    Source: Wangperawong 2018, "Attending to Mathematical Language with Transformers"; Tay et al.
    2019, §3.6.
    """

    name: ClassVar[str] = "mlu"
    figure: ClassVar[str] = "sequence_accuracy"
    shares: ClassVar[tuple[str, ...]] = ("sequence_accuracy",)
    together: ClassVar[int] = 500

    def _set_up(self) -> None:
        super()._set_up()
        data = dict(self.options.data)
        wanted, least = data.pop("validation_examples"), self.options.training.batch_size
        if wanted < least:
            raise UserError(
                f"data.validation_examples is {wanted}: "
                f"it must be at least training.batch_size ({least})"
            )
        with self._suiting("data"):
            self._builder_config = ArithmeticMluConfig(**data)
        self.grammar = self._builder_config.grammar

    @property
    def example(self) -> str:
        """A valid question: if possible the documentation's, which is never in training data."""
        try:
            self.grammar.parse(_EXAMPLE)
        except UserError:
            return f"x={self.grammar.high - 1},y={self.grammar.low},y{self.grammar.operators[0]}x"
        return _EXAMPLE

    def _builder(self) -> ArithmeticMlu:
        return ArithmeticMlu(config=self._builder_config, data_dir=self.data_dir)

    def prepare(self) -> None:
        """Generate the questions and answers."""
        builder = prepare(self._builder, self.data_dir)
        size = self.options.training.batch_size
        for split in ("train", "validation"):
            examples = builder.info.splits[split].num_examples
            if examples < size:
                raise UserError(
                    f"training.batch_size is {size}: it must be at most {examples}, "
                    f"the number of questions in the {split} split"
                )

    def missing_data(self) -> str:
        """Return a line if the questions would have to be generated."""
        prepared = self._builder().is_prepared()
        return "" if prepared else f"{self.data_dir} does not have the questions of this run"

    def build_model(self) -> keras.Model:
        """Return a Transformer over bytes."""
        model, attention = attention_of(self.options.model)
        with self._suiting("model"):
            return Transformer(
                vocabulary_size=ByteTokenizer.vocabulary_size,
                **attention,
                universal=self.model.startswith("universal"),
                **model,
            )

    def metrics(self) -> list[keras.metrics.Metric]:
        """Return the sequence accuracy, with teacher forcing; greedy decoding gives the same."""
        return [SequenceAccuracy()]

    def training_data(self, first_step: int) -> tf.data.Dataset:
        """Return the training questions, reshuffled in every pass."""
        return training_batches(
            split_reader(self._builder(), "train"),
            batch_size=self.options.training.batch_size,
            seed=self.seed,
            first_step=first_step,
            encode=self._encode(),
            shuffle_buffer=_SHUFFLE_BUFFER,
        )

    def validation_data(self) -> tf.data.Dataset:
        """Return the first `data.validation_examples` validation questions, in whole batches."""
        size = self.options.training.batch_size
        examples = self._examples("validation")
        count = min(self.options.data["validation_examples"], int(examples.cardinality()))
        whole = examples.take(count - count % size)
        return evaluation_batches(whole, batch_size=size, encode=self._encode())

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return the share of questions whose decoded answer is right, and the number of questions.

        `by_kind` has the same share for each kind of question: an operator, and one variable or
        two. Models learn one kind after the other.
        """
        questions, references = chosen
        answers = self._answers(model, text_array(questions))
        right = np.array(  # (questions,)
            [one["answer"] == wanted for one, wanted in zip(answers, references, strict=True)]
        )
        kind_of = np.array([self.grammar.parse(question).kind for question in questions])
        figures = {
            "sequence_accuracy": float(np.mean(right)),
            "by_kind": {
                kind: float(np.mean(right[kind_of == kind])) for kind in np.unique(kind_of).tolist()
            },
            "questions": len(references),
        }
        judged = judge_texts(questions, references, answers, right)
        return Measured(figures, right.astype(np.float64), judged)

    def texts(self, split: str, limit: int) -> list[str]:
        """Return the first `limit` questions of a split."""
        return [question.decode() for question in self._chosen(split, limit)[0]]

    def _chosen(self, split: str, limit: int | None) -> tuple[list[bytes], list[bytes]]:
        """Return the first `limit` questions of a split, and their answers."""
        UserError.check("split", split, SPLITS)
        if limit is not None and limit < 1:
            raise UserError(f"limit is {limit}: it must be at least 1, or none for all questions")
        rows = list(self._examples(split).take(limit or -1).as_numpy_iterator())
        return [row["expression"] for row in rows], [row["answer"] for row in rows]

    def tokenize(self, texts: Sequence[str]) -> TokenizedTexts:
        """Return the bytes of the questions, and of their right answers as decoder input."""
        answers = [str(self.grammar.evaluate(text)) for text in texts]
        examples = {"expression": tf.constant(list(texts)), "answer": tf.constant(answers)}
        ids = {side: one.numpy() for side, one in self._encode()(examples)[0].items()}
        tokens = {
            "source": [[*text, "⟨end⟩"] for text in texts],
            "target": [["⟨start⟩", *text] for text in answers],
        }
        return TokenizedTexts(ids, tokens)

    def check_input(self, text: str | bytes) -> None:
        """Reject any question outside the range and operators that the model learned."""
        self.grammar.parse(text)

    def _examples(self, split: str) -> tf.data.Dataset:
        return split_reader(self._builder(), split)(0)

    @property
    def _lengths(self) -> tuple[int, int]:
        """The numbers of ids of the longest question and the longest answer, including ends."""
        return self.grammar.longest_expression + 1, self.grammar.longest_answer + 1

    @property
    def tokenizer(self) -> ByteTokenizer:
        """The tokenizer of bytes."""
        return ByteTokenizer()

    def _encode(self) -> Any:
        source_length, target_length = self._lengths
        return sequence_pair_encoder(
            self.tokenizer.tokenize,
            source_key="expression",
            target_key="answer",
            start_id=self.tokenizer.eos_id,
            # All batches have one shape, so that XLA compiles once.
            source_length=source_length,
            target_length=target_length,
        )

    @property
    def _longest_source(self) -> int:
        return self._lengths[0]

    def _decoded(self, model: keras.Model, source: tf.Tensor) -> dict[str, tf.Tensor]:
        length = self._lengths[1]
        cache = model.start_cache(source, length)
        decoded, log_probability = greedy_search(model.step, cache, length)  # (B, length), (B,)
        return {"answer": self.tokenizer.detokenize(decoded), "log_probability": log_probability}
