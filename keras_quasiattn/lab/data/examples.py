"""Data sets in memory: labelled texts, pairs and translations, from files, TFDS or generated."""

import collections
import dataclasses
import itertools
import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.errors import DataWarning, UserError
from keras_quasiattn.files import hashes
from keras_quasiattn.lab.data.hashing import hash_to_unit_interval
from keras_quasiattn.lab.data.table_files import read_parallel, read_table

_SPLIT_KEY = 17  # the same for all seeds, so a text is held out in every run or in none
# Read one file after another, so that the order is the same on every machine.
IN_ORDER = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)


_Self = TypeVar("_Self", bound="Examples")
RELEVANCE = ("0", "1")
NO_LABEL = "-"  # SNLI's label for a pair on which the annotators disagree
_RARELY_CLICKED, _OFTEN_CLICKED = 0.3, 0.7
_LISTED = 20  # classes in an error
_Row = tuple[str, dict[str, str]]  # the row's place, for errors, and its columns
# For `counted_letters`.
_LETTERS = np.array(list("abcdefghijkl"))
_MOST = 5  # the largest count
_LENGTHS = (6, 16)  # letters of the shortest and of the longest text
_ROWS = {"train": 4000, "validation": 1000, "test": 2000}


class Examples:
    """Base class of dataclasses whose fields are arrays with one entry per example, or None."""

    def __len__(self) -> int:
        return len(self.split_key)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of texts by name."""
        return {name: x for name, x in vars(self).items() if x is not None and x.dtype == object}

    @property
    def split_key(self) -> np.ndarray:
        """The texts whose hashes decide which examples are held out: the first field."""
        return next(iter(vars(self).values()))

    def where(self: "_Self", chosen: np.ndarray) -> "_Self":
        """Return the examples that a boolean array or an array of indices selects."""
        return type(self)(*(None if x is None else x[chosen] for x in vars(self).values()))

    def sample(self: "_Self", most: int) -> "_Self":
        """Return at most `most` of the examples, in their order; the same ones in every call.

        They are drawn at random, because evenly spaced rows might all be of one class.
        """
        if len(self) <= most:
            return self
        return self.where(np.sort(np.random.default_rng(0).choice(len(self), most, replace=False)))


AnyExamples = TypeVar("AnyExamples", bound=Examples, covariant=True)


@dataclasses.dataclass(frozen=True)
class LabelledTexts(Examples):
    """Texts and their class numbers.

    Args:
        texts: object (examples,), UTF-8 bytes.
        labels: int64 (examples,), indices into the classes.
    """

    texts: np.ndarray
    labels: np.ndarray

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Return the texts."""
        return {"text": self.texts}


@dataclasses.dataclass(frozen=True)
class LabelledTextSet(Generic[AnyExamples]):
    """The splits of a data set: texts, pairs, translations, questions or programs.

    Args:
        classes: names of the classes; empty if the examples have no labels.
        splits: the examples of each split, by its name.
        version: name and version, or name and digest, of the data; a run records it.
        dropped: number of rows left out of each split, for example because they have no label.
    """

    classes: tuple[str, ...]
    splits: Mapping[str, AnyExamples]
    version: str
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def with_validation(self, share: float, fold: int = 0) -> "LabelledTextSet[AnyExamples]":
        """Return the set with a validation split, taken from the training split if there is none.

        Only a hash of the text (the first text of a pair) decides which examples are held out.
        Equal texts therefore stay together, the seed has no effect, and added texts do not move
        others.

        Args:
            share: share of the training texts to hold out, in (0, 1).
            fold: which part of this size to hold out, counted from 0; no two folds share a text.
                Defaults to 0.

        Raises:
            UserError: one of the two splits would be empty.

        Warns:
            DataWarning: a class has no text left to train on.
        """
        if "validation" in self.splits:
            return self
        options = f"data.validation_share is {share} and data.validation_fold {fold}"
        return self.with_held_out("validation", fold * share, (fold + 1) * share, options)

    def with_held_out(
        self, name: str, low: float, high: float, options: str
    ) -> "LabelledTextSet[AnyExamples]":
        """Return the set with a new split: the training texts whose hash is in [low, high).

        `options` says, in error messages, which options set the range.
        """
        train = self.splits["train"]
        shares = hash_to_unit_interval(_SPLIT_KEY, train.split_key)
        held_out = (low <= shares) & (shares < high)
        if len(set(train.split_key.tolist())) == 1:
            raise UserError(
                f"{options}: there is one text in all rows ({len(train)}), and a text is held out "
                f"as a whole or not at all; name a {name} file"
            )
        if not 0 < held_out.sum() < len(train):
            raise UserError(
                f"{options}: this leaves {held_out.sum()} of {len(train)} texts for {name}; "
                f"name a {name} file or change data.{name}_share"
            )
        labels: np.ndarray = getattr(train, "labels", np.zeros(len(train)))
        lost = [
            f"{self.classes[number]!r} ({np.sum(labels == number)} rows)"
            for number in np.setdiff1d(labels[held_out], labels[~held_out])
            if number < len(self.classes)
        ]
        if lost:
            warnings.warn(
                f"{options}: this holds out all of {', '.join(lost)} for {name} and leaves none to "
                f"train on; name a {name} file or change data.{name}_share",
                DataWarning,
                stacklevel=3,
            )
        splits = {**self.splits, "train": train.where(~held_out), name: train.where(held_out)}
        return dataclasses.replace(self, splits=splits)


def texts_from_tfds(
    builder: tfds.core.DatasetBuilder,
    text_keys: Sequence[str],
    label_key: str,
    splits: Sequence[str],
) -> LabelledTextSet[LabelledTexts]:
    """Read splits of a prepared TFDS builder; spaces join the features that form a text."""
    read = {}
    for split in splits:
        *parts, labels = columns_from_tfds(builder, split, (*text_keys, label_key))
        read[split] = LabelledTexts(text_array(map(b" ".join, zip(*parts, strict=True))), labels)
    classes = tuple(builder.info.features[label_key].names)
    return LabelledTextSet(classes, read, builder.info.full_name)


def columns_from_tfds(
    builder: tfds.core.DatasetBuilder, split: str, keys: Sequence[str]
) -> list[np.ndarray]:
    """Read features of a whole split, always in the same order."""
    data = builder.as_dataset(split=split, batch_size=1000, read_config=IN_ORDER)
    batches = list(data.as_numpy_iterator())
    return [np.concatenate([batch[key] for batch in batches]) for key in keys]


def texts_from_files(
    files: Mapping[str, str | Path], names: Mapping[str, str] | None = None
) -> LabelledTextSet[LabelledTexts]:
    """Read splits from the user's tables with the columns `text` and `label`.

    `read_table` describes the formats. The classes are the labels of the training file, in
    alphabetical order, or in numerical order if all are integers.

    Args:
        files: the file of each split, by the split's name; "train" is required.
        names: for each column that is named differently in the files, its name there.

    Raises:
        UserError: a file has another format, a label is empty or does not occur in the training
            file (the message names file and line), or the training file has only one label.

    Warns:
        DataWarning: labels of the training file differ only in case or spaces.
    """
    return _classified(LabelledTexts, files, ("text",), names)


def classified_from_file(
    kind: type,
    file: str | Path,
    columns: Sequence[str],
    classes: Sequence[str],
    names: Mapping[str, str] | None = None,
) -> Any:
    """Read one file, as `texts_from_files` or `pairs_from_files` does, for a model's classes.

    Warns:
        DataWarning: pairs without a label are dropped.
    """
    rows, dropped = _labelled(file, columns, names)
    warn_of_dropped(file, dropped, "rows without a label")
    labels = numbers_of(_labels(rows), classes, "class of the model")
    return _examples(kind, rows, columns, labels)


def number_labels(
    labels: Mapping[str, Sequence[tuple[str, str]]], train_file: str
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Return the classes (the sorted training labels) and the class numbers by split.

    Each label is given with its place, for error messages.
    """
    for rows in labels.values():
        for place, label in rows:
            if not label.strip():
                raise UserError(f"{place}: the label is empty")
    names = collections.Counter(label.strip() for _, label in labels["train"])
    if len(names) < 2:
        raise UserError(
            f"{train_file} has only the label {names.popitem()[0]!r}: expected at least two labels"
        )
    warn_of_spellings(train_file, names)
    numeric = all(re.fullmatch(r"-?\d{1,18}", name) for name in names)
    classes = tuple(sorted(names, key=lambda name: (int(name) if numeric else 0, name)))
    known = f"text of {train_file}"
    return classes, {split: numbers_of(rows, classes, known) for split, rows in labels.items()}


def numbers_of(labels: Sequence[tuple[str, str]], classes: Sequence[str], known: str) -> np.ndarray:
    """Return the class number of each label; errors say that no `known` has the label."""
    numbers = {name: number for number, name in enumerate(classes)}
    more = f" and {len(classes) - _LISTED:,} more" if len(classes) > _LISTED else ""
    for place, label in labels:
        if label.strip() not in numbers:
            raise UserError(
                f"{place}: no {known} has the label {label.strip()!r}: "
                f"expected one of {', '.join(classes[:_LISTED])}{more}"
            )
    return np.array([numbers[label.strip()] for _, label in labels], np.int64)


def warn_of_spellings(file: str, counts: Mapping[str, int]) -> None:
    """Warn about labels, counted by rows, that differ only in case or spaces."""
    alike = collections.defaultdict(list)
    for label in sorted(counts):
        alike["".join(label.casefold().split())].append(label)
    doubtful = [
        " and ".join(f"{label!r} ({counts[label]} rows)" for label in labels)
        for labels in alike.values()
        if len(labels) > 1 and any(counts[label] for label in labels)
    ]
    if doubtful:
        warnings.warn(
            f"{file}: labels that differ only in case or spaces count as different ones: "
            f"{'; '.join(doubtful)}",
            DataWarning,
            stacklevel=5,
        )


def warn_of_dropped(file: str | Path, number: int, kind: str) -> None:
    """Warn that rows of this kind are left out of a file to measure on, unless there are none."""
    if number:
        warnings.warn(f"{file}: {number:,} {kind} left out", DataWarning, stacklevel=4)


def files_version(files: Iterable[str | Path]) -> str:
    """Return each file's name and the start of its SHA-256, as `sha256sum FILE` prints it."""
    found = hashes({str(file): Path(file) for file in files})
    return ", ".join(f"{Path(file).name} sha256:{digest[:16]}" for file, digest in found.items())


def text_array(texts: Iterable[bytes]) -> np.ndarray:
    """Put texts into an object array; NumPy's own strings would drop a zero byte at the end."""
    rows = list(texts)
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


def counted_letters(seed: int = 0) -> LabelledTextSet[LabelledTexts]:
    """Generate texts such as "b a f b c b", whose class, "3", counts their most frequent letter.

    A sum over equal letters yields the count; an average over the text does not. The splits share
    no text, and every class is equally frequent in each. `seed` determines the texts.

    >>> some = counted_letters()
    >>> some.classes, {name: len(split) for name, split in some.splits.items()}
    (('1', '2', '3', '4', '5'), {'train': 4000, 'validation': 1000, 'test': 2000})
    """
    random = np.random.default_rng(seed)
    rows: dict[bytes, int] = {}  # in the order of their classes: 0, 1, 2, 3, 4, 0, …
    while len(rows) < sum(_ROWS.values()):
        label = len(rows) % _MOST
        rows.setdefault(_text(random, label + 1), label)
    texts, labels = text_array(rows), np.array(list(rows.values()), np.int64)
    splits, start = {}, 0
    for name, size in _ROWS.items():
        splits[name] = LabelledTexts(texts[start : start + size], labels[start : start + size])
        start += size
    classes = tuple(str(count) for count in range(1, _MOST + 1))
    return LabelledTextSet(classes, splits, f"counted letters, seed {seed}")


def _text(random: np.random.Generator, count: int) -> bytes:
    """Draw a text whose most frequent letter occurs `count` times."""
    longest = min(_LENGTHS[1], count * len(_LETTERS))
    length = random.integers(max(_LENGTHS[0], count), longest + 1)
    first, *others = random.permutation(len(_LETTERS))
    # Every other letter occurs at most as often.
    rest = random.permutation(np.repeat(others, count))[: length - count]
    return " ".join(_LETTERS[random.permutation([*[first] * count, *rest])]).encode()


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
    `question2`. `splits` has the builder's split for each split of the set, such as {"validation":
    "validation_matched"}; the keys are features, and `question_key` identifies the question of
    pairs to rank.

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
    return _classified(TextPairs, files, ("first", "second"), names)


def ranked_pairs_from_files(
    files: Mapping[str, str | Path], names: Mapping[str, str] | None = None
) -> LabelledTextSet[TextPairs]:
    """Read questions with candidates: the columns `question`, `candidate` and `label` (0 or 1).

    The rows of a question need not be adjacent. If there is a column `question_id`, rows with the
    same id belong to one question; otherwise rows with the same question do. If `names` has
    `question_id`, there must be such a column. A question may have only one candidate, or none that
    is right; the metrics decide whether it counts. The arguments are those of `pairs_from_files`,
    but "train" is not required.

    Raises:
        UserError: a file has another format, a label is neither 0 nor 1, or a `question_id` has two
            questions; the message names file and line.
    """
    named = ("question_id",) if "question_id" in (names or {}) else ()

    def read(file: str | Path) -> tuple[TextPairs, int]:
        questions: dict[str, str] = {}
        groups: list[tuple[str | None, str | None]] = []
        columns = ("question", "candidate", "label", *named)
        rows = _read(file, columns, () if named else ("question_id",), names)
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
        texts = ("question", "candidate")
        return _examples(TextPairs, rows, texts, np.array(labels), _numbers(groups)), 0

    return _set_of(files, RELEVANCE, {split: read(file) for split, file in files.items()})


def pairs_from_click_log(
    files: Mapping[str, str | Path], names: Mapping[str, str] | None = None
) -> LabelledTextSet[TextPairs]:
    """Read queries and the questions shown for them, relevant if users clicked them often.

    A click-through rate below 0.3 gives the label 0, above 0.7 the label 1; rows in between are
    dropped and counted. The columns are `query`, `question` and `ctr`, the arguments those of
    `pairs_from_files`.

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
        pairs = _examples(TextPairs, rows, ("query", "question"), rates > _OFTEN_CLICKED)
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
    files: Mapping[str, str | Path], classes: tuple[str, ...], found: Mapping[str, tuple[Any, int]]
) -> LabelledTextSet[Any]:
    """Return the set of the examples, and of the numbers of dropped rows, of each split."""
    splits = {split: examples for split, (examples, _) in found.items()}
    dropped = {split: number for split, (_, number) in found.items()}
    return LabelledTextSet(classes, splits, files_version(files.values()), dropped)


def _classified(
    kind: type,
    files: Mapping[str, str | Path],
    columns: Sequence[str],
    names: Mapping[str, str] | None,
) -> LabelledTextSet[Any]:
    """Read examples with classes, the labels of the training file."""
    rows = {split: _labelled(file, columns, names) for split, file in files.items()}
    given = {split: _labels(kept) for split, (kept, _) in rows.items()}
    classes, labels = number_labels(given, str(files["train"]))
    found = {
        split: (_examples(kind, kept, columns, labels[split]), lost)
        for split, (kept, lost) in rows.items()
    }
    return _set_of(files, classes, found)


def _labelled(
    file: str | Path, columns: Sequence[str], names: Mapping[str, str] | None
) -> tuple[list[_Row], int]:
    """Read the rows that have a label, and count the other pairs."""
    rows = _read(file, (*columns, "label"), names=names)
    if len(columns) == 1:
        return rows, 0
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


def _examples(
    kind: type, rows: Sequence[_Row], columns: Sequence[str], *numbers: np.ndarray
) -> Any:
    """Return examples of the rows' columns of texts, and of numbers such as labels."""
    texts = (text_array(row[column].encode() for _, row in rows) for column in columns)
    return kind(*texts, *(one.astype(np.int64) for one in numbers))


def _numbers(names: Iterable[Hashable]) -> np.ndarray:
    """Assign numbers to names, from 0, in the order of their first occurrence."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


@dataclasses.dataclass(frozen=True)
class ParallelTexts(Examples):
    """Texts and their translations.

    Args:
        source: object (pairs,), UTF-8 bytes.
        target: object (pairs,), UTF-8 bytes.
    """

    source: np.ndarray
    target: np.ndarray


ParallelTextSet = LabelledTextSet[ParallelTexts]  # its `classes` are empty


def parallel_from_tfds(
    builder: tfds.core.DatasetBuilder, splits: Mapping[str, str], source: str, target: str
) -> ParallelTextSet:
    """Read the splits of a prepared TFDS builder; drop and count pairs in which a text is empty.

    The builder is `ParallelCorpus`, or has one feature per language, such as
    `ted_hrlr_translate/pt_to_en`. `splits` has its split for each split of the set.

    Raises:
        UserError: the builder lacks one of the languages, or a split has no usable pair.
    """
    for language in (source, target):
        if language not in builder.info.features:
            raise UserError.unknown(
                f"language of {builder.info.full_name}", language, builder.info.features
            )
    if source == target:
        raise UserError(
            f"data.source and data.target are both {source!r}: name the two languages, of "
            f"{', '.join(builder.info.features)}"
        )
    read = {
        split: ParallelTexts(*columns_from_tfds(builder, split_there, (source, target)))
        for split, split_there in splits.items()
    }
    return _without_empty_texts(read, builder.info.full_name)


def parallel_from_files(files: Mapping[str, tuple[str | Path, str | Path]]) -> ParallelTextSet:
    """Read the user's files of one text per line; drop and count pairs in which a text is empty.

    `files` has, by split, the file of source texts and the file of target texts; each may be
    compressed (.gz, .xz).

    Raises:
        UserError: a file cannot be read, the two files differ in their number of lines, or a split
            has no usable pair.
    """
    read, columns = {}, ("source", "target")
    for split, sides in files.items():
        rows = [("", row) for _, row in read_parallel(dict(zip(columns, sides, strict=True)))]
        read[split] = _examples(ParallelTexts, rows, columns)
    each = itertools.chain.from_iterable(files.values())
    return _without_empty_texts(read, files_version(each))


def without_long_pairs(
    texts: ParallelTextSet, source_lengths: np.ndarray, target_lengths: np.ndarray, limit: int
) -> ParallelTextSet:
    """Remove the training pairs in which a text has more than `limit` tokens, and count them.

    Raises:
        UserError: every training pair is too long.
    """
    train = texts.splits["train"]
    short = train.where(np.maximum(source_lengths, target_lengths) <= limit)
    if not len(short):
        raise UserError(
            f"in each of the {len(train)} training pairs, a text has more than {limit} tokens: "
            "use shorter texts or a larger data.max_length"
        )
    dropped = {**texts.dropped, "train": texts.dropped.get("train", 0) + len(train) - len(short)}
    return dataclasses.replace(texts, splits={**texts.splits, "train": short}, dropped=dropped)


def _without_empty_texts(read: Mapping[str, ParallelTexts], version: str) -> ParallelTextSet:
    splits, dropped = {}, {}
    for split, pairs in read.items():
        both = zip(pairs.source, pairs.target, strict=True)
        is_full = (all(side.decode("utf-8", "replace").strip() for side in pair) for pair in both)
        full = np.array(list(is_full))
        if not full.any():
            raise UserError(
                f"the {split} split of {version} has no usable pair: in every pair, a text is empty"
            )
        splits[split], dropped[split] = pairs.where(full), int((~full).sum())
    return LabelledTextSet((), splits, version, dropped)
