"""Labelled pairs of texts, and questions with candidates, from TFDS or from the user's files."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.labelled_texts import (
    Examples,
    LabelledTextSet,
    columns_from_tfds,
    files_version,
    number_labels,
    numbers_of,
    text_array,
)
from keras_quasiattn.lab.data.table_files import read_table

RELEVANCE = ("0", "1")
NO_LABEL = "-"  # SNLI's label for a pair on which the annotators disagree
_RARELY_CLICKED, _OFTEN_CLICKED = 0.3, 0.7

_Row = tuple[str, dict[str, str]]  # the row's place, for errors, and its columns


@dataclasses.dataclass(frozen=True)
class TextPairs(Examples):
    """Pairs of texts and their class numbers.

    Args:
        first: object (pairs,), UTF-8 bytes; the question if the pairs are to be ranked.
        second: object (pairs,), UTF-8 bytes; the candidate if the pairs are to be ranked.
        labels: int64 (pairs,), indices into the classes.
        groups: int64 (pairs,), the number of the question that each pair belongs to; the pairs of a
            question need not be adjacent. None if the pairs are not to be ranked.
    """

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None


def pairs_from_tfds(
    builder: tfds.core.DatasetBuilder,
    splits: Mapping[str, str],
    first_key: str = "first",
    second_key: str = "second",
    *,
    label_key: str = "label",
    question_key: str | None = None,
) -> LabelledTextSet[TextPairs]:
    """Read the splits of a prepared TFDS builder; drop and count pairs without a gold label (-1).

    `PairCorpus` uses the default keys, and `question_id` in corpora to rank. In TFDS, `snli`,
    `multi_nli` and `sci_tail` have `premise` and `hypothesis`, and `glue/qqp` has `question1` and
    `question2`.

    Args:
        builder: a builder whose data are prepared.
        splits: the builder's split for each split of the set, such as
            {"validation": "validation_matched"}.
        first_key: the feature with the first text.
        second_key: the feature with the second text.
        label_key: the feature with the class.
        question_key: the feature that identifies the question of pairs to rank.

    Raises:
        UserError: a split has no gold label.
    """
    keys = [first_key, second_key, label_key, *([question_key] if question_key else [])]
    read, dropped = {}, {}
    for split, split_there in splits.items():
        first, second, labels, *questions = columns_from_tfds(builder, split_there, keys)
        groups = _numbers(questions[0]) if questions else None
        read[split] = TextPairs(first, second, labels, groups).where(labels >= 0)
        dropped[split] = int((labels < 0).sum())
        if not len(read[split]):
            raise UserError(
                f"the split {split_there} of {builder.info.full_name} has no gold labels: "
                "use another split"
            )
    classes = tuple(builder.info.features[label_key].names)
    return LabelledTextSet(classes, read, builder.info.full_name, dropped)


def pairs_from_files(
    files: Mapping[str, str | Path], names: Mapping[str, str] | None = None
) -> LabelledTextSet[TextPairs]:
    """Read pairs to classify from the user's files with the columns `first`, `second` and `label`.

    The classes are the labels of the training file, in the order of `texts_from_files`. Rows with
    the label "-" are dropped and counted. A text may be empty.

    Args:
        files: by split, including "train", a table for `read_table`.
        names: the name in the tables of each column that has a different name there.

    Raises:
        UserError: as for `texts_from_files`; or no row of a split has a label.

    Warns:
        DataWarning: as for `texts_from_files`.
    """
    rows = {split: _labelled(file, names) for split, file in files.items()}
    given = {split: _labels(kept) for split, (kept, _) in rows.items()}
    classes, labels = number_labels(given, str(files["train"]))
    found = {split: (_pairs(kept, labels[split]), lost) for split, (kept, lost) in rows.items()}
    return _set_of(files, classes, found)


def pairs_from_file(
    file: str | Path, classes: Sequence[str], names: Mapping[str, str] | None = None
) -> TextPairs:
    """Read one file, as `pairs_from_files` does, for a trained model with these classes."""
    rows, _ = _labelled(file, names)
    return _pairs(rows, numbers_of(_labels(rows), classes, "class of the model"))


def ranked_pairs_from_files(
    files: Mapping[str, str | Path], names: Mapping[str, str] | None = None
) -> LabelledTextSet[TextPairs]:
    """Read questions with candidates: the columns `question`, `candidate` and `label` (0 or 1).

    The rows of a question need not be adjacent. If there is a column `question_id`, rows with the
    same id belong to one question; otherwise rows with the same question do. A question may have
    only one candidate, or none that is right; the metrics decide whether it counts.

    Args:
        files: as for `pairs_from_files`, but "train" is not required.
        names: as for `pairs_from_files`.

    Raises:
        UserError: a file has another format, a label is neither 0 nor 1, or a `question_id` has two
            questions; the message names file and line.
    """

    def read(file: str | Path) -> tuple[TextPairs, int]:
        questions: dict[str, str] = {}
        groups: list[tuple[str | None, str | None]] = []
        rows = _read(file, ("question", "candidate", "label"), ("question_id",), names)
        for place, row in rows:
            label, question, name = row["label"].strip(), row["question"], row.get("question_id")
            if label not in RELEVANCE:
                raise UserError(f"{place}: the label is {label!r}: expected 0 or 1")
            if name is not None and questions.setdefault(name, question) != question:
                raise UserError(
                    f"{place}: question_id {name!r} has two different questions: "
                    f"{question!r} here, {questions[name]!r} above"
                )
            groups.append((name, None if name is not None else question))
        labels = [int(row["label"]) for _, row in rows]
        return _pairs(rows, labels, ("question", "candidate"), _numbers(groups)), 0

    return _set_of(files, RELEVANCE, {split: read(file) for split, file in files.items()})


def pairs_from_click_log(
    files: Mapping[str, str | Path], names: Mapping[str, str] | None = None
) -> LabelledTextSet[TextPairs]:
    """Read queries and the questions shown for them, relevant if users clicked them often.

    A click-through rate below 0.3 gives the label 0, above 0.7 the label 1; rows in between are
    dropped and counted.

    Args:
        files: by split, a table for `read_table` with the columns `query`, `question` and `ctr`.
        names: as for `pairs_from_files`.

    Raises:
        UserError: a file has another format, a rate is not a number in [0, 1] (the message names
            file and line), or no row of a file has a label.

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship".
    """

    def read(file: str | Path) -> tuple[TextPairs, int]:
        rows = _read(file, ("query", "question", "ctr"), names=names)
        rates = np.array([_rate(place, row["ctr"]) for place, row in rows])
        labelled = (rates < _RARELY_CLICKED) | (rates > _OFTEN_CLICKED)
        if not labelled.any():
            raise UserError(f"{file} has no ctr below {_RARELY_CLICKED} or above {_OFTEN_CLICKED}")
        pairs = _pairs(rows, rates > _OFTEN_CLICKED, ("query", "question"))
        return pairs.where(labelled), int((~labelled).sum())

    return _set_of(files, RELEVANCE, {split: read(file) for split, file in files.items()})


def _rate(place: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UserError(f"{place}: the ctr is {text!r}: expected a number from 0 to 1")
    return rate


def _set_of(
    files: Mapping[str, str | Path],
    classes: tuple[str, ...],
    found: Mapping[str, tuple[TextPairs, int]],
) -> LabelledTextSet[TextPairs]:
    """Return the set of the pairs, and of the numbers of dropped rows, of each split."""
    splits = {split: pairs for split, (pairs, _) in found.items()}
    dropped = {split: number for split, (_, number) in found.items()}
    return LabelledTextSet(classes, splits, files_version(files.values()), dropped)


def _labelled(file: str | Path, names: Mapping[str, str] | None) -> tuple[list[_Row], int]:
    """Read the rows that have a label, and count the others."""
    rows = _read(file, ("first", "second", "label"), names=names)
    kept = [(place, row) for place, row in rows if row["label"].strip() != NO_LABEL]
    if not kept:
        raise UserError(f"{file} has no labels: every row has {NO_LABEL!r}")
    return kept, len(rows) - len(kept)


def _read(
    file: str | Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
) -> list[_Row]:
    rows = read_table(file, columns, optional=optional, names=names)
    return [(f"{file}, line {line}", row) for line, row in rows]


def _labels(rows: Sequence[_Row]) -> list[tuple[str, str]]:
    return [(place, row["label"]) for place, row in rows]


def _pairs(
    rows: Sequence[_Row],
    labels: Sequence[int] | np.ndarray,
    columns: Sequence[str] = ("first", "second"),
    groups: np.ndarray | None = None,
) -> TextPairs:
    first, second = (text_array(row[column].encode() for _, row in rows) for column in columns)
    return TextPairs(first, second, np.asarray(labels, np.int64), groups)


def _numbers(names: Iterable[Hashable]) -> np.ndarray:
    """Assign numbers to names, from 0, in the order of their first occurrence."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)
