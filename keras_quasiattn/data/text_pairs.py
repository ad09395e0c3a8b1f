"""Labelled pairs of texts, and questions with candidates, from TFDS or from a user's own files."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.labelled_texts import (
    LabelledTextSet,
    columns_from_tfds,
    files_version,
    number_labels,
    numbers_of,
    text_array,
)
from keras_quasiattn.data.table_files import read_parallel, read_table
from keras_quasiattn.errors import UserError

RELEVANCE = ("0", "1")
NO_LABEL = "-"  # SNLI's label for a pair on which the annotators disagree
_RARELY_CLICKED, _OFTEN_CLICKED = 0.3, 0.7

PairFile = str | Path | Mapping[str, str | Path]


@dataclasses.dataclass(frozen=True)
class TextPairs:
    """Pairs of texts and their class numbers.

    Args:
        first: object (pairs,), UTF-8 bytes; the question if the pairs are to be ranked.
        second: object (pairs,), UTF-8 bytes; the candidate if the pairs are to be ranked.
        labels: int64 (pairs,), index into the classes.
        groups: int64 (pairs,), the number of the question that a pair belongs to; the pairs of a
            question need not be adjacent. None if the pairs are not to be ranked.
    """

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Both texts."""
        return {"first": self.first, "second": self.second}

    @property
    def split_key(self) -> np.ndarray:
        """The first texts, so that a question stays together with its candidates."""
        return self.first

    def where(self, chosen: np.ndarray) -> "TextPairs":
        """The pairs that a boolean array selects; the questions keep their numbers."""
        groups = None if self.groups is None else self.groups[chosen]
        return TextPairs(self.first[chosen], self.second[chosen], self.labels[chosen], groups)


def pairs_from_tfds(
    builder: tfds.core.DatasetBuilder,
    splits: Mapping[str, str],
    first_key: str = "first",
    second_key: str = "second",
    *,
    label_key: str = "label",
    question_key: str | None = None,
) -> LabelledTextSet[TextPairs]:
    """Reads the splits of a prepared TFDS builder; drops and counts pairs with no gold label (-1).

    `PairCorpus` uses the default keys, and `question_id` if pairs are to be ranked. Of TFDS's own
    builders, `snli`, `multi_nli` and `sci_tail` use `premise` and `hypothesis`, and `glue/qqp` uses
    `question1` and `question2`.

    Args:
        builder: a builder whose data are prepared.
        splits: for each split of the set, the builder's split, such as {"validation":
            "validation_matched"}.
        first_key: the feature with the first text.
        second_key: the feature with the second text.
        label_key: the feature with the class.
        question_key: the feature that identifies the question, if the pairs are to be ranked.

    Raises:
        UserError: no pair of a split has a gold label.
    """
    keys = [first_key, second_key, label_key, *([question_key] if question_key else [])]
    read, dropped = {}, {}
    for split, theirs in splits.items():
        first, second, labels, *questions = columns_from_tfds(builder, theirs, keys)
        groups = _numbers(questions[0]) if questions else None
        pairs = TextPairs(first, second, labels, groups)
        read[split] = pairs.where(labels >= 0)
        dropped[split] = int((labels < 0).sum())
        if not len(read[split]):
            raise UserError(
                f"the split {theirs} of {builder.info.full_name} has no gold labels: "
                "use another split"
            )
    classes = tuple(builder.info.features[label_key].names)
    return LabelledTextSet(classes, read, builder.info.full_name, dropped)


def pairs_from_files(
    files: Mapping[str, PairFile], names: Mapping[str, str] | None = None
) -> LabelledTextSet[TextPairs]:
    """Reads pairs to classify from a user's own files with columns `first`, `second` and `label`.

    The classes are the training file's labels, in the order of `texts_from_files`. Rows with the
    label "-" are dropped and counted. A side may be empty.

    Args:
        files: by split, including "train": a table for `read_table`, or a mapping from each column
            to a file with one text per line.
        names: the columns' names in the tables, where they are others.

    Raises:
        UserError: as for `texts_from_files`; or no row of a split has a label, or the files of a
            split differ in their number of lines.

    Warns:
        DataWarning: as for `texts_from_files`.
    """
    rows = {
        split: _read(file, ("first", "second", "label"), names=names)
        for split, file in files.items()
    }
    labelled = {
        split: [(place, row) for place, row in rows[split] if row["label"].strip() != NO_LABEL]
        for split in files
    }
    for split, file in files.items():
        if not labelled[split]:
            raise UserError(f"{_name(file)} has no labels: every row has {NO_LABEL!r}")
    classes, labels = number_labels(
        {split: [(place, row["label"]) for place, row in labelled[split]] for split in files},
        _name(files["train"]),
    )
    splits = {
        split: _pairs([(row["first"], row["second"]) for _, row in labelled[split]], labels[split])
        for split in files
    }
    dropped = {split: len(rows[split]) - len(labelled[split]) for split in files}
    return LabelledTextSet(classes, splits, _version(files), dropped)


def pairs_from_file(
    file: PairFile, classes: Sequence[str], names: Mapping[str, str] | None = None
) -> TextPairs:
    """Reads one file as `pairs_from_files` does, with the labels of a model that is trained.

    Raises:
        UserError: the file has another format, or a label is none of the classes, or none has one.
    """
    rows = _read(file, ("first", "second", "label"), names=names)
    rows = [(place, row) for place, row in rows if row["label"].strip() != NO_LABEL]
    if not rows:
        raise UserError(f"{_name(file)} has no labels: every row has {NO_LABEL!r}")
    labels = numbers_of(
        [(place, row["label"]) for place, row in rows], classes, "class of the model"
    )
    return _pairs([(row["first"], row["second"]) for _, row in rows], labels)


def ranked_pairs_from_files(
    files: Mapping[str, PairFile], names: Mapping[str, str] | None = None
) -> LabelledTextSet[TextPairs]:
    """Reads questions with candidates: columns `question`, `candidate` and `label` (0 or 1).

    The rows of a question need not be adjacent. If there is a column `question_id`, rows with the
    same id belong to one question; otherwise rows with the same question do. A question may have
    only one candidate, or no positive one; the metrics decide whether it counts.

    Args:
        files: as for `pairs_from_files`, but "train" is not required.
        names: as for `pairs_from_files`.

    Raises:
        UserError: a file has another format, a label is neither 0 nor 1, or a `question_id` has two
            questions; the message names file and line.
    """

    def read(file: PairFile) -> tuple[TextPairs, int]:
        questions: dict[str, str] = {}
        rows, labels, groups = [], [], []
        for place, row in _read(file, ("question", "candidate", "label"), ("question_id",), names):
            label, question, name = row["label"].strip(), row["question"], row.get("question_id")
            if label not in RELEVANCE:
                raise UserError(f"{place}: the label is {label!r}: expected 0 or 1")
            if name is not None and questions.setdefault(name, question) != question:
                raise UserError(
                    f"{place}: question_id {name!r} has two different questions: "
                    f"{question!r} here, {questions[name]!r} above"
                )
            rows.append((question, row["candidate"]))
            labels.append(RELEVANCE.index(label))
            groups.append((name, None if name is not None else question))
        return _pairs(rows, labels, _numbers(groups)), 0

    return _with_relevance(files, read)


def pairs_from_click_log(
    files: Mapping[str, str | Path], names: Mapping[str, str] | None = None
) -> LabelledTextSet[TextPairs]:
    """Reads queries with the questions shown for them, relevant if they were clicked often.

    A click-through rate below 0.3 gives the label 0, above 0.7 the label 1; rows in between are
    dropped and counted.

    Args:
        files: by split, a table for `read_table` with the columns `query`, `question` and `ctr`.
        names: as for `pairs_from_files`.

    Raises:
        UserError: a file has another format, or a rate is not a number in [0, 1] (the message names
            file and line); or no row of a file has a label.

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship".
    """

    def read(file: PairFile) -> tuple[TextPairs, int]:
        rows, labels, dropped = [], [], 0
        for place, row in _read(file, ("query", "question", "ctr"), names=names):
            rate = _rate(place, row["ctr"])
            if _RARELY_CLICKED <= rate <= _OFTEN_CLICKED:
                dropped += 1
                continue
            rows.append((row["query"], row["question"]))
            labels.append(int(rate > _OFTEN_CLICKED))
        if not rows:
            raise UserError(f"{file} has no ctr below {_RARELY_CLICKED} or above {_OFTEN_CLICKED}")
        return _pairs(rows, labels), dropped

    return _with_relevance(files, read)


def _rate(place: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UserError(f"{place}: the ctr is {text!r}: expected a number from 0 to 1")
    return rate


def _with_relevance(
    files: Mapping[str, PairFile], read: Callable[[PairFile], tuple[TextPairs, int]]
) -> LabelledTextSet[TextPairs]:
    made = {split: read(file) for split, file in files.items()}
    splits = {split: pairs for split, (pairs, _) in made.items()}
    dropped = {split: number for split, (_, number) in made.items()}
    return LabelledTextSet(RELEVANCE, splits, _version(files), dropped)


def _read(
    file: PairFile,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
) -> list[tuple[str, dict[str, str]]]:
    """Reads the rows of a file: the place of each, for errors, and its columns."""
    if not isinstance(file, Mapping):
        rows = read_table(file, columns, optional=optional, names=names)
    elif set(file) == set(columns):
        rows = read_parallel(file)
    else:
        raise UserError(
            f"expected files for columns {', '.join(columns)}; got files for {', '.join(file)}"
        )
    return [(f"{_name(file)}, line {line}", row) for line, row in rows]


def _name(file: PairFile) -> str:
    return str(file["label"] if isinstance(file, Mapping) else file)


def _version(files: Mapping[str, PairFile]) -> str:
    flat: dict[str, str | Path] = {}
    for split, file in files.items():
        parts = file if isinstance(file, Mapping) else {"": file}
        flat.update({f"{split} {column}": part for column, part in parts.items()})
    return files_version(_name(files.get("train", next(iter(files.values())))), flat)


def _pairs(
    rows: Sequence[tuple[str, str]],
    labels: Sequence[int] | np.ndarray,
    groups: np.ndarray | None = None,
) -> TextPairs:
    first, second = (text_array(row[side].encode() for row in rows) for side in (0, 1))
    return TextPairs(first, second, np.asarray(labels, np.int64), groups)


def _numbers(names: Iterable[Hashable]) -> np.ndarray:
    """The number of each name, counted from 0 in the order of first occurrence."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)
