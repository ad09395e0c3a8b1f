"""Questions with passages in memory, from TFDS or from a user's own files."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.hashing import text_shares
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
        answers: object (questions,), a tuple of the right answers each, texts.
        starts: int64 (questions,), the byte of the passage at which its answer begins; -1 where none is in it.
        ends: int64 (questions,), the byte behind that answer; -1 where there is none in it.
    """

    questions: np.ndarray
    passages: np.ndarray
    answers: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def held_out_by(self) -> np.ndarray:
        """The passages, so that a passage keeps its questions."""
        return self.passages

    def where(self, chosen: np.ndarray) -> "ReadingTexts":
        """The questions that a boolean array or indices choose."""
        return ReadingTexts(
            *(getattr(self, field.name)[chosen] for field in dataclasses.fields(self))
        )

    def part(self, share: float) -> "ReadingTexts":
        """The questions of a share of the passages, which a hash of the passage chooses: always the same ones."""
        return self.where(text_shares(_PART_KEY, self.passages) < share)


def reading_texts(questions: Iterable[Question]) -> ReadingTexts:
    """The questions, characters counted in bytes; the answer to learn is the first that is in the passage.

    >>> texts = reading_texts([Question("1", "who ?", "Un café noir", ["noir"], [8])])
    >>> texts.starts.tolist(), texts.ends.tolist(), texts.passages[0][9:13]
    ([9], [13], b'noir')
    """
    rows = list(questions)
    answers = np.empty(len(rows), object)
    answers[:] = [tuple(row.answers) for row in rows]
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
    """The splits of a prepared TFDS builder, `QuestionCorpus` or TFDS's own `squad`.

    Training questions whose answer is not in the passage are dropped and counted.

    Args:
        builder: a builder whose data are prepared.
        splits: the builder's split for each split of the set, such as {"test": "validation"}.
    """
    read = {split: reading_texts(_questions(builder, theirs)) for split, theirs in splits.items()}
    return _answerable(read, builder.info.full_name)


def questions_from_files(files: Mapping[str, str | Path]) -> LabelledTextSet[ReadingTexts]:
    """Questions from a user's own files: SQuAD's form (.json), or a question a line (.jsonl; `read_question_lines`).

    Training questions whose answer is not in the passage are dropped and counted.

    Args:
        files: the file of each split, by its name; perhaps compressed (.gz, .xz).

    Raises:
        UserError: naming file and record: a file of another form, an empty question, an answer that does not stand
            where it should; or no training passage has its answer.
    """
    read = {}
    for split, name in files.items():
        file = Path(name)
        forms = {".json": read_squad, ".jsonl": read_question_lines}
        reader = next(
            (forms[suffix] for suffix in reversed(file.suffixes) if suffix in forms), None
        )
        if reader is None:
            raise UserError(
                f"{file} has a form that cannot be read: use .json, .jsonl (or .gz, .xz after it)"
            )
        read[split] = reading_texts(reader(file))
        if not len(read[split]):
            raise UserError(f"{file} has no questions")
    return _answerable(read, files_version(files["train"], files))


def _questions(builder: tfds.core.DatasetBuilder, split: str) -> Iterable[Question]:
    # One file after the other, so that the order is the same everywhere.
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
        raise UserError(f"no passage of the training split of {version} has its answer in it")
    return LabelledTextSet((), {**read, "train": kept}, version, {"train": len(train) - len(kept)})


def _place(row: Question) -> tuple[int, int]:
    for answer, start in zip(row.answers, row.starts, strict=True):
        if start >= 0:
            # What is found in any case may have more or fewer bytes there.
            found = row.context[start : start + len(answer.strip())]
            first = len(row.context[:start].encode("utf-8", "surrogatepass"))
            return first, first + len(found.encode("utf-8", "surrogatepass"))
    return -1, -1
