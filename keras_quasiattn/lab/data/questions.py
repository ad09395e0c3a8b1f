"""Questions with passages and answers: readers of published formats, and arrays."""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.examples import (
    IN_ORDER,
    Examples,
    LabelledTextSet,
    files_version,
    text_array,
)
from keras_quasiattn.lab.data.hashing import hash_to_unit_interval
from keras_quasiattn.lab.data.table_files import is_list_of_texts, read_objects
from keras_quasiattn.lab.text import open_text
from keras_quasiattn.lab.text.open_text import format_of

_PART_KEY = 43


class Question(NamedTuple):
    """A question, the text that may answer it, and the correct answers.

    Args:
        id: identifier of the question.
        question: the question, not empty.
        context: the passage, or several passages joined by newlines.
        answers: the correct answers; empty if the passages do not answer the question.
        starts: the character of the context at which each answer begins; -1 if it does not occur.
    """

    id: str
    question: str
    context: str
    answers: list[str]
    starts: list[int]


@dataclasses.dataclass(frozen=True)
class ReadingTexts(Examples):
    """Questions, their passages and their answers.

    Args:
        questions: object (questions,), UTF-8 bytes.
        passages: object (questions,), UTF-8 bytes.
        answers: object (questions,), a tuple of each question's correct answers, as texts; ("",) if
            the passages do not answer it.
        starts: int64 (questions,), the byte of the passage at which the answer begins; -1 if the
            passage contains no answer.
        ends: int64 (questions,), the byte after the answer; -1 if the passage contains none.
    """

    questions: np.ndarray
    passages: np.ndarray
    answers: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Return the questions and the passages."""
        return {"question": self.questions, "passage": self.passages}

    @property
    def split_key(self) -> np.ndarray:
        """The passages, so all questions about a passage stay together."""
        return self.passages

    def part(self, share: float) -> "ReadingTexts":
        """Return the questions about a share of the passages, which a hash of each text chooses."""
        return self.where(hash_to_unit_interval(_PART_KEY, self.passages) < share)


def reading_texts(questions: Iterable[Question]) -> ReadingTexts:
    """Convert questions to arrays, and positions from characters to bytes.

    The answer to learn is the first one that occurs in the passage.

    >>> texts = reading_texts([Question("1", "who ?", "Un café noir", ["noir"], [8])])
    >>> texts.starts.tolist(), texts.ends.tolist(), texts.passages[0][9:13]
    ([9], [13], b'noir')
    """
    rows = list(questions)
    answers = np.empty(len(rows), object)
    answers[:] = [tuple(row.answers) or ("",) for row in rows]
    spans = np.array([_span(row) for row in rows], np.int64).reshape(-1, 2)
    asked = text_array(_encoded(row.question) for row in rows)
    passages = text_array(_encoded(row.context) for row in rows)
    return ReadingTexts(asked, passages, answers, spans[:, 0], spans[:, 1])


def questions_from_tfds(
    builder: tfds.core.DatasetBuilder, splits: Mapping[str, str]
) -> LabelledTextSet[ReadingTexts]:
    """Read the splits of a prepared TFDS builder, `QuestionCorpus` or TFDS's own `squad`.

    Training questions whose passage contains no answer are dropped and counted. `splits` has the
    builder's split for each split of the set, such as {"test": "validation"}.

    Raises:
        UserError: no training passage contains its answer.
    """

    def questions(split: str) -> Iterator[Question]:
        data = builder.as_dataset(split=split, read_config=IN_ORDER)
        for row in data.as_numpy_iterator():
            name, question, context, *answers = (
                text.decode("utf-8", "surrogatepass")
                for text in (row["id"], row["question"], row["context"], *row["answers"]["text"])
            )
            starts = row["answers"]["answer_start"].tolist()
            yield Question(name, question, context, answers, starts)

    read = {split: reading_texts(questions(there)) for split, there in splits.items()}
    return _answerable(read, builder.info.full_name)


def questions_from_files(files: Mapping[str, str | Path]) -> LabelledTextSet[ReadingTexts]:
    """Read questions from files in SQuAD's format (.json) or of one question per line (.jsonl).

    SQuAD 1.1, SQuAD 2.0 and both forms that the library `datasets` writes are accepted. A line has
    `question`, `context` or `passages`, `answers` and optionally `answer_start`. Training questions
    whose passage contains no answer are dropped and counted; in the other splits, the right answer
    to a question without one is "".

    Args:
        files: the file of each split, by the split's name; "train" is required. It may be
            compressed (.gz, .xz).

    Raises:
        UserError: a file has another format, a question is empty, or an answer is not at its start
            position (the message names file and record); or no training passage contains its
            answer.
    """
    read = {split: questions_from_file(file) for split, file in files.items()}
    return _answerable(read, files_version(files.values()))


def questions_from_file(name: str | Path) -> ReadingTexts:
    """Read one file like `questions_from_files`, but keep all of its questions."""
    file = Path(name)
    readers = {".json": read_squad, ".jsonl": read_question_lines}
    form = format_of(file, readers)
    if form is None:
        raise UserError(
            f"{file} has an unsupported file extension: use .json or .jsonl (.gz or .xz may follow)"
        )
    texts = reading_texts(readers[form](file))
    if not len(texts):
        raise UserError(f"{file} has no questions")
    return texts


def _answerable(read: Mapping[str, ReadingTexts], version: str) -> LabelledTextSet[ReadingTexts]:
    train = read["train"]
    kept = train.where(train.starts >= 0)
    if not len(kept):
        raise UserError(f"no training passage of {version} contains the answer to its question")
    return LabelledTextSet((), {**read, "train": kept}, version, {"train": len(train) - len(kept)})


def _span(row: Question) -> tuple[int, int]:
    for answer, start in zip(row.answers, row.starts, strict=True):
        if start >= 0:
            if row.context.startswith(answer, start):  # with blanks around it
                start += len(answer) - len(answer.lstrip())
            # Ignoring case, an answer may have more or fewer bytes in the passage.
            found = row.context[start : start + len(answer.strip())]
            first = len(_encoded(row.context[:start]))
            return first, first + len(_encoded(found))
    return -1, -1


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def find_answer(context: str, answer: str) -> int:
    """Return where an answer first occurs as whole words, ignoring case; -1 if nowhere."""
    answer = answer.strip()
    if not answer:
        return -1
    begin, end = (r"\b" if re.match(r"\w", edge) else "" for edge in (answer[0], answer[-1]))
    found = re.search(f"{begin}{re.escape(answer)}{end}", context, re.IGNORECASE)
    return found.start() if found else -1


def read_squad(file: Path) -> Iterator[Question]:
    """Read JSON: SQuAD 1.1 or 2.0 as published, or a list of rows as in `read_question_lines`."""
    with open_text(file) as stream:
        text = stream.read()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        before = text[: getattr(error, "pos", 0)]
        if "Extra data" in str(error) and "\n" in before:
            yield from _lines(file, text.split("\n"))
            return
        number = max(before.count('"question"'), 1)
        raise UserError(f"{file}, record {number}: not JSON ({error})") from None
    number = 1
    try:
        for row in _rows(value):
            yield _question_of_row(f"{file}, record {number}", row, str(number))
            number += 1
    except (KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{file}, record {number}: not in SQuAD's format ({type(error).__name__}: {error}): "
            "expected 'question', 'context' or 'passages', and 'answers'"
        ) from None


def read_question_lines(file: Path) -> Iterator[Question]:
    """Read JSONL: `question`, `context` or `passages`, `answers`, `answer_start`.

    `context` is one text, `passages` are several. `answers` are texts and `answer_start` numbers;
    or `answers` holds both as `text` and `answer_start`, or is a list of such pairs. Without
    `answer_start`, the answers are searched for in the passages; -1 means that one does not occur.
    A question without answers, or with a true `is_impossible`, is not answered. `id` is optional.
    """
    with open_text(file, newline="") as stream:
        yield from _lines(file, stream)


def read_quasar(questions: Path, contexts: Path) -> Iterator[Question]:
    """Read the two JSONL files of a Quasar-T split together: the questions and their contexts."""
    with open_text(questions) as one, open_text(contexts) as other:
        rows = read_objects(questions, one, ("uid", "question", "answer"))
        retrieved = read_objects(contexts, other, ("uid", "contexts"))
        for one_row, other_row in itertools.zip_longest(rows, retrieved):
            if one_row is None or other_row is None:
                files = (questions, contexts) if other_row is None else (contexts, questions)
                raise UserError(f"{files[0]} has more records than {files[1]}")
            (number, row), (_, found) = one_row, other_row
            place = f"{contexts}, line {number}"
            if "uid" not in row or row["uid"] != found.get("uid"):
                raise UserError(
                    f"{place}: uid {found.get('uid')!r} does not match uid {row.get('uid')!r} in "
                    f"{questions}"
                )
            try:
                context = _joined(place, [text for _, text in found["contexts"]])
            except (KeyError, TypeError, ValueError):
                raise UserError(
                    f"{place}: 'contexts' must be a list of [score, text] pairs; "
                    f"got {found.get('contexts')!r:.60}"
                ) from None
            place = f"{questions}, line {number}"
            yield _question(place, row["uid"], row.get("question"), context, [row.get("answer")])


def read_search_qa(folder: Path) -> Iterator[Question]:
    """Read the JSON files of a SearchQA split, one per question, in the order of their names."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise UserError(f"{folder} has no .json files; expected one per question")
    for number, file in enumerate(files, 1):
        place = f"{file}, record {number}"
        with open_text(file) as stream:
            text = stream.read()
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place}: not JSON ({error})") from None
        if not isinstance(row, dict) or not isinstance(row.get("search_results"), list):
            raise UserError(f"{place}: expected an object with a list 'search_results'")
        results = [result for result in row["search_results"] if isinstance(result, dict)]
        context = _joined(place, [one["snippet"] for one in results if one.get("snippet")])
        name = row.get("id", file.stem)
        yield _question(place, name, row.get("question"), context, [row.get("answer")])


def _lines(file: Path, lines: Iterable[str]) -> Iterator[Question]:
    for number, value in read_objects(file, lines, ("question", "context", "answers")):
        place = f"{file}, line {number}"
        try:
            for row in _rows(value):
                yield _question_of_row(place, {"answers": None, **row}, str(number))
        except (KeyError, TypeError) as error:
            raise UserError(f"{place}: not a question ({type(error).__name__}: {error})") from None


def _rows(value: Any) -> Iterator[Any]:
    """Yield the questions of a list, or of articles or paragraphs, each with its context."""
    if isinstance(value, list):
        for one in value:
            yield from _rows(one)
    elif not isinstance(value, dict):
        raise TypeError(f"{value!r:.60} is not a question")
    elif "question" in value:
        yield value
    elif "data" in value:
        yield from _rows(value["data"])
    elif "paragraphs" in value:
        yield from _rows(value["paragraphs"])
    elif "qas" in value:
        yield from ({**one, "context": value["context"]} for one in value["qas"])
    else:
        yield value


def _question_of_row(place: str, row: Mapping[str, Any], number: str) -> Question:
    """Return a question from any of the accepted forms of answers and their starts."""
    context = _joined(place, row["passages"]) if "passages" in row else row.get("context")
    if not isinstance(context, str):
        raise UserError(
            f"{place}: the context is {context!r:.60}: expected a text, or texts as 'passages'"
        )
    answers: Any = [] if row.get("is_impossible") is True else row["answers"]
    starts = row.get("answer_start")
    if isinstance(answers, dict):
        answers, starts = answers.get("text"), answers.get("answer_start")
    elif isinstance(answers, list) and answers and all(isinstance(one, dict) for one in answers):
        starts = [one.get("answer_start") for one in answers]
        starts = None if starts == [None] * len(answers) else starts
        answers = [one.get("text") for one in answers]
    starts = starts if answers else None
    return _question(place, row.get("id", number), row.get("question"), context, answers, starts)


def _joined(place: str, passages: Any) -> str:
    if not is_list_of_texts(passages):
        raise UserError(f"{place}: the passages must be a list of texts; got {passages!r:.60}")
    return "\n".join(passages)


def _question(
    place: str, name: Any, question: Any, context: str, answers: Any, starts: Any = None
) -> Question:
    if not isinstance(question, str) or not question.strip():
        raise UserError(f"{place}: the question is {question!r}: expected a text that is not empty")
    if not is_list_of_texts(answers):
        raise UserError(f"{place}: the answers are {answers!r:.60}: expected a list of texts")
    if starts is None:
        starts = [find_answer(context, answer) for answer in answers]
    elif not isinstance(starts, list) or len(starts) != len(answers):
        raise UserError(
            f"{place}: answer_start must be a list of {len(answers)} numbers, "
            f"one per answer; got {starts!r:.60}"
        )
    else:
        for answer, start in zip(answers, starts, strict=True):
            right = type(start) is int and start >= 0 and context.startswith(answer, start)
            if answer.strip() and start != -1 and not right:
                raise UserError(
                    f"{place}: the answer {answer!r} is not in the passage at position {start!r}"
                )
    kept = [pair for pair in zip(answers, starts, strict=True) if pair[0].strip()]
    return Question(str(name), question, context, [one for one, _ in kept], [at for _, at in kept])
