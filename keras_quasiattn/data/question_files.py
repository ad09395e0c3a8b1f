"""Reads questions with passages and answers from files in their published formats."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
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
        answers: the correct answers.
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
    """Reads the published JSON of SQuAD v1.1: articles, their paragraphs and their questions.

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
        broken = (
            text[: error.pos].count('"question"') if isinstance(error, json.JSONDecodeError) else 0
        )
        raise UserError(f"{file}, record {max(broken, 1)}: not JSON ({error})") from None
    number = 0
    try:
        for article in value["data"]:
            for paragraph in article["paragraphs"]:
                for one in paragraph["qas"]:
                    number += 1
                    answers = one["answers"]
                    yield _question(
                        file,
                        f"record {number}",
                        one["id"],
                        one["question"],
                        paragraph["context"],
                        [answer["text"] for answer in answers],
                        [answer["answer_start"] for answer in answers],
                    )
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{file}, record {number or 1}: not in SQuAD's format ({type(error).__name__}: {error})"
        ) from None


def read_question_lines(file: Path) -> Iterator[Question]:
    """Reads JSONL: `question`, `context` or `passages`, `answers`, `answer_start`.

    `context` is one text, `passages` are several. `answers` are texts, `answer_start` numbers.
    Without `answer_start`, the answers are searched for in the passages and need not occur in them.
    `id` is optional.

    Raises:
        UserError: as for `read_squad`, where the record is the number of the line.
    """
    with open_text(file) as stream:
        for line, row in read_objects(file, stream, ("question", "context", "answers")):
            place = f"record {line}"
            passages = row["passages"] if "passages" in row else [row.get("context")]
            context = _joined(file, place, passages)
            yield _question(
                file,
                place,
                row.get("id", str(line)),
                row.get("question"),
                context,
                row.get("answers"),
                row.get("answer_start"),
            )


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
    if (
        not isinstance(answers, list)
        or not answers
        or not all(isinstance(text, str) for text in answers)
    ):
        raise UserError(f"{file}, {place}: the answers are {answers!r}: expected a list of texts")
    if starts is None:
        return Question(
            str(name), question, context, answers, [find_answer(context, a) for a in answers]
        )
    if not isinstance(starts, list) or len(starts) != len(answers):
        raise UserError(
            f"{file}, {place}: answer_start must be a list of {len(answers)} numbers, "
            f"one per answer; got {starts!r}"
        )
    for answer, start in zip(answers, starts, strict=True):
        if type(start) is not int or start < 0 or context[start : start + len(answer)] != answer:
            raise UserError(
                f"{file}, {place}: the answer {answer!r} is not in the passage "
                f"at position {start!r}"
            )
    return Question(str(name), question, context, answers, starts)


QuestionReader = Callable[..., Iterator[Question]]
