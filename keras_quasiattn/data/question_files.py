"""Reads questions with passages and answers from files in their published formats."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_quasiattn.data.table_files import read_objects
from keras_quasiattn.errors import UserError
from keras_quasiattn.text import open_text


class Question(NamedTuple):
    """One question, the text that may answer it, and the correct answers.

    Args:
        id: its identifier.
        question: the question, not empty.
        context: the passages, joined by newlines if there are several.
        answers: the correct answers; none if the passages do not answer the question.
        starts: the character of the context at which each answer begins; -1 if it does not occur.
    """

    id: str
    question: str
    context: str
    answers: list[str]
    starts: list[int]


def find_answer(context: str, answer: str) -> int:
    """Where an answer first occurs in a text as whole words, ignoring case; -1 if nowhere.

    >>> find_answer("The Roman and the man", "MAN"), find_answer("none", "man")
    (18, -1)
    """
    answer = answer.strip()
    if not answer:
        return -1
    pattern = re.escape(answer)
    begin, end = (r"\b" if re.match(r"\w", edge) else "" for edge in (answer[0], answer[-1]))
    found = re.search(f"{begin}{pattern}{end}", context, re.IGNORECASE)
    return found.start() if found else -1


def read_squad(file: Path) -> Iterator[Question]:
    """Reads JSON: the published form of SQuAD 1.1 and 2.0, or a list of questions.

    In the first, articles have paragraphs, and these a `context` and questions. Questions in a
    list, or one a line, are as for `read_question_lines`.

    Raises:
        UserError: the file is not JSON or has another structure, a question is empty, or an answer
            is not where its start says; the message names file and record, which is the question's
            number, counted from 1.
    """
    with open_text(file) as stream:
        text = stream.read()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        position = getattr(error, "pos", 0)
        if "Extra data" in str(error) and "\n" in text[:position]:
            yield from _of_lines(file, text.split("\n"))
            return
        broken = text[:position].count('"question"')
        raise UserError(f"{file}, record {max(broken, 1)}: not JSON ({error})") from None
    number = 0
    try:
        for number, row in enumerate(_asked(value), 1):
            yield _of_row(file, f"record {number}", row, str(number))
    except (KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{file}, record {number or 1}: not in SQuAD's format ({type(error).__name__}: {error})"
        ) from None


def read_question_lines(file: Path) -> Iterator[Question]:
    """Reads JSONL: `question`, `context` or `passages`, `answers`, `answer_start`.

    `context` is one text, `passages` are several. `answers` are texts, `answer_start` numbers; or
    `answers` has both as `text` and `answer_start`, as the library `datasets` writes them, or is a
    list of such pairs. Without `answer_start`, the answers are searched for in the passages and
    need not occur in them. A start of -1 says that an answer does not occur. A question without an
    answer, or with a true `is_impossible`, has none in its passages. `id` is optional.

    Raises:
        UserError: as for `read_squad`, where the record is the number of the line.
    """
    with open_text(file, newline="") as stream:
        yield from _of_lines(file, stream)


def _of_lines(file: Path, lines: Iterable[str]) -> Iterator[Question]:
    for line, one in read_objects(file, lines, ("question", "context", "answers")):
        try:
            for row in _asked(one):
                yield _of_row(file, f"record {line}", {"answers": None, **row}, str(line))
        except (KeyError, TypeError) as error:
            raise UserError(
                f"{file}, record {line}: not a question ({type(error).__name__}: {error})"
            ) from None


def _asked(value: Any) -> Iterator[Any]:
    """The questions of articles or paragraphs, each with its context, or those of a list."""
    if isinstance(value, list):
        for one in value:
            yield from _asked(one)
    elif "question" in value:
        yield value
    elif "data" in value:
        yield from _asked(value["data"])
    elif "paragraphs" in value:
        yield from _asked(value["paragraphs"])
    elif "qas" in value:
        yield from ({**one, "context": value["context"]} for one in value["qas"])
    else:
        yield value


def _of_row(file: Path, place: str, row: Any, number: str) -> Question:
    if not isinstance(row, dict):
        raise TypeError(f"{row!r} is no question")
    passages = row["passages"] if "passages" in row else [row.get("context")]
    answers, starts = _answers(row)
    return _question(
        *(file, place, row.get("id", number), row.get("question")),
        _joined(file, place, passages),
        answers,
        starts,
    )


def _answers(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """The answers of a question, and their starts or None, from the forms that there are."""
    if row.get("is_impossible") is True:
        return [], None
    answers: Any = row["answers"]
    starts = row.get("answer_start")
    if isinstance(answers, dict):
        answers, starts = answers.get("text"), answers.get("answer_start")
    elif isinstance(answers, list) and answers and all(isinstance(one, dict) for one in answers):
        starts = [one.get("answer_start") for one in answers]
        starts = None if starts == [None] * len(answers) else starts
        answers = [one.get("text") for one in answers]
    return answers, starts if answers else None


def read_quasar(questions: Path, contexts: Path) -> Iterator[Question]:
    """Reads the two JSONL files of a Quasar-T split together: questions and their contexts.

    Raises:
        UserError: as for `read_squad`; or the two files are about different questions.
    """
    with open_text(questions) as one, open_text(contexts) as other:
        rows = read_objects(questions, one, ("uid", "question", "answer"))
        retrieved = read_objects(contexts, other, ("uid", "contexts"))
        for one_row, other_row in itertools.zip_longest(rows, retrieved):
            if one_row is None or other_row is None:
                files = (questions, contexts) if other_row is None else (contexts, questions)
                raise UserError(f"{files[0]} has more records than {files[1]}")
            (line, row), (_, found) = one_row, other_row
            place = f"record {line}"
            if row.get("uid") != found.get("uid"):
                raise UserError(
                    f"{contexts}, {place}: uid {found.get('uid')!r} does not match uid "
                    f"{row.get('uid')!r} in {questions}"
                )
            scored = found.get("contexts")
            if not isinstance(scored, list) or any(
                not isinstance(pair, list) or len(pair) != 2 for pair in scored
            ):
                raise UserError(
                    f"{contexts}, {place}: 'contexts' must be a list of [score, text] pairs"
                )
            context = _joined(contexts, place, [text for _, text in scored])
            yield _question(
                questions, place, row["uid"], row.get("question"), context, [row.get("answer")]
            )


def read_search_qa(folder: Path) -> Iterator[Question]:
    """Reads the JSON files of a SearchQA split, one per question, in the order of their names.

    Raises:
        UserError: as for `read_squad`, where the record is the file's number, counted from 1; or
            the folder has no such files.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise UserError(f"{folder} has no .json files; expected one per question")
    for number, file in enumerate(files, 1):
        place = f"record {number}"
        with open_text(file) as stream:
            text = stream.read()
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file}, {place}: not JSON ({error})") from None
        if not isinstance(row, dict) or not isinstance(row.get("search_results"), list):
            raise UserError(f"{file}, {place}: expected an object with a list 'search_results'")
        snippets = [
            result.get("snippet") for result in row["search_results"] if isinstance(result, dict)
        ]
        context = _joined(file, place, [snippet for snippet in snippets if snippet])
        yield _question(
            file, place, row.get("id", file.stem), row.get("question"), context, [row.get("answer")]
        )


def _joined(file: Path, place: str, passages: Any) -> str:
    if not isinstance(passages, list) or not all(isinstance(text, str) for text in passages):
        raise UserError(f"{file}, {place}: the passages must be a list of texts")
    return "\n".join(passages)


def _question(
    file: Path,
    place: str,
    name: Any,
    question: Any,
    context: str,
    answers: Any,
    starts: Any = None,
) -> Question:
    if not isinstance(context, str):
        raise UserError(f"{file}, {place}: the passage must be a text")
    if not isinstance(question, str) or not question.strip():
        raise UserError(
            f"{file}, {place}: the question is {question!r}: expected a text that is not empty"
        )
    if not isinstance(answers, list) or not all(isinstance(text, str) for text in answers):
        raise UserError(f"{file}, {place}: the answers are {answers!r}: expected a list of texts")
    if starts is None:
        starts = [find_answer(context, answer) for answer in answers]
    elif not isinstance(starts, list) or len(starts) != len(answers):
        raise UserError(
            f"{file}, {place}: answer_start must be a list of {len(answers)} numbers, "
            f"one per answer; got {starts!r}"
        )
    else:
        for answer, start in zip(answers, starts, strict=True):
            if start == -1 or not answer.strip():
                continue
            if type(start) is not int or start < 0 or not context.startswith(answer, start):
                raise UserError(
                    f"{file}, {place}: the answer {answer!r} is not in the passage "
                    f"at position {start!r}"
                )
    kept = [pair for pair in zip(answers, starts, strict=True) if pair[0].strip()]
    return Question(
        *(str(name), question, context),
        [answer for answer, _ in kept],
        [start for _, start in kept],
    )


QuestionReader = Callable[..., Iterator[Question]]
