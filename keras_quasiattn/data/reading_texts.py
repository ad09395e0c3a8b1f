"""Questions with passages, in memory, from TFDS or from a user's own files."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.hashing import hash_to_unit_interval
from keras_quasiattn.data.labelled_texts import LabelledTextSet, files_version, text_array
from keras_quasiattn.data.question_files import Question, read_question_lines, read_squad
from keras_quasiattn.errors import UserError

_PART_KEY = 43


@dataclasses.dataclass(frozen=True)
class ReadingTexts:
    """Questions, their passages and their answers.

    Args:
        questions: object (questions,), UTF-8 bytes.
        passages: object (questions,), UTF-8 bytes.
        answers: object (questions,), for each question a tuple of its correct answers, as texts;
            "" alone if its passages do not answer it.
        starts: int64 (questions,), the byte of the passage at which the answer begins; -1 if the
            passage contains no answer.
        ends: int64 (questions,), the byte after that answer; -1 if the passage contains none.
    """

    questions: np.ndarray
    passages: np.ndarray
    answers: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The questions and the passages."""
        return {"question": self.questions, "passage": self.passages}

    @property
    def split_key(self) -> np.ndarray:
        """The passages, so that the questions of a passage stay together."""
        return self.passages

    def where(self, chosen: np.ndarray) -> "ReadingTexts":
        """The questions that a boolean array or an array of indices selects."""
        return ReadingTexts(
            *(getattr(self, field.name)[chosen] for field in dataclasses.fields(self))
        )

    def part(self, share: float) -> "ReadingTexts":
        """The questions of a share of the passages; always the same, chosen by a hash of each."""
        return self.where(hash_to_unit_interval(_PART_KEY, self.passages) < share)


def reading_texts(questions: Iterable[Question]) -> ReadingTexts:
    """Converts questions to arrays; the answer to learn is the first that occurs in the passage.

    Positions are converted from characters to bytes.

    >>> texts = reading_texts([Question("1", "who ?", "Un café noir", ["noir"], [8])])
    >>> texts.starts.tolist(), texts.ends.tolist(), texts.passages[0][9:13]
    ([9], [13], b'noir')
    """
    rows = list(questions)
    answers = np.empty(len(rows), object)
    answers[:] = [tuple(row.answers) or ("",) for row in rows]
    places = np.array([_place(row) for row in rows], np.int64).reshape(-1, 2)
    return ReadingTexts(
        text_array(row.question.encode("utf-8", "surrogatepass") for row in rows),
        text_array(row.context.encode("utf-8", "surrogatepass") for row in rows),
        answers,
        places[:, 0],
        places[:, 1],
    )


def questions_from_tfds(
    builder: tfds.core.DatasetBuilder, splits: Mapping[str, str]
) -> LabelledTextSet[ReadingTexts]:
    """Reads the splits of a prepared TFDS builder, `QuestionCorpus` or TFDS's own `squad`.

    Training questions whose passage contains no answer are dropped and counted.

    Args:
        builder: a builder whose data are prepared.
        splits: for each split of the set, the builder's split, such as {"test": "validation"}.
    """
    read = {split: reading_texts(_questions(builder, theirs)) for split, theirs in splits.items()}
    return _answerable(read, builder.info.full_name)


def questions_from_files(files: Mapping[str, str | Path]) -> LabelledTextSet[ReadingTexts]:
    """Reads questions from files in SQuAD's format (.json) or with one question per line (.jsonl).

    SQuAD 1.1 and 2.0 are read, and both forms that the library `datasets` writes. A line has
    `question`, `context` or `passages`, `answers` and perhaps `answer_start`. Training questions
    whose passage contains no answer are dropped and counted; elsewhere, the right answer to a
    question without one is "".

    Args:
        files: the file of each split, by the split's name; it may be compressed (.gz, .xz).

    Raises:
        UserError: a file has another format, a question is empty, or an answer is not where its
            start says (the message names file and record); or no training passage contains its
            answer.
    """
    read = {split: questions_from_file(file) for split, file in files.items()}
    return _answerable(read, files_version(files["train"], files))


def questions_from_file(name: str | Path) -> ReadingTexts:
    """Reads one file as `questions_from_files` does; all of its questions are kept.

    Raises:
        UserError: the file has another format, or no questions.
    """
    file = Path(name)
    forms = {".json": read_squad, ".jsonl": read_question_lines}
    reader = next((forms[suffix] for suffix in reversed(file.suffixes) if suffix in forms), None)
    if reader is None:
        raise UserError(
            f"{file} has an unsupported file extension: use .json or .jsonl (.gz or .xz may follow)"
        )
    texts = reading_texts(reader(file))
    if not len(texts):
        raise UserError(f"{file} has no questions")
    return texts


def _questions(builder: tfds.core.DatasetBuilder, split: str) -> Iterable[Question]:
    # Read one file after another, so that the order is the same on every machine.
    config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    for row in builder.as_dataset(split=split, read_config=config).as_numpy_iterator():
        question, context = (
            row[name].decode("utf-8", "surrogatepass") for name in ("question", "context")
        )
        answers = [answer.decode("utf-8", "surrogatepass") for answer in row["answers"]["text"]]
        yield Question(
            row["id"].decode(), question, context, answers, row["answers"]["answer_start"].tolist()
        )


def _answerable(read: Mapping[str, ReadingTexts], version: str) -> LabelledTextSet[ReadingTexts]:
    train = read["train"]
    kept = train.where(train.starts >= 0)
    if not len(kept):
        raise UserError(f"no training passage of {version} contains the answer to its question")
    return LabelledTextSet((), {**read, "train": kept}, version, {"train": len(train) - len(kept)})


def _place(row: Question) -> tuple[int, int]:
    for answer, start in zip(row.answers, row.starts, strict=True):
        if start >= 0:
            # An answer found ignoring case may have more or fewer bytes in the passage.
            found = row.context[start : start + len(answer.strip())]
            first = len(row.context[:start].encode("utf-8", "surrogatepass"))
            return first, first + len(found.encode("utf-8", "surrogatepass"))
    return -1, -1
