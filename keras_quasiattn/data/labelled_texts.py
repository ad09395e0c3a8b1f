"""Labelled texts in memory, from TFDS or from a user's own files."""

import collections
import dataclasses
import hashlib
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.hashing import hash_to_unit_interval
from keras_quasiattn.data.table_files import read_table
from keras_quasiattn.errors import DataWarning, UserError

_SPLIT_KEY = 17  # the same for all seeds: a text is held out in every run or in none


class _Examples(Protocol):
    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """The texts of the examples, by what they are."""

    @property
    def split_key(self) -> np.ndarray:
        """For each example, the text whose hash decides whether the example is held out."""

    def __len__(self) -> int: ...

    def where(self: "Examples", chosen: np.ndarray) -> "Examples":
        """The examples that a boolean array selects."""


Examples = TypeVar("Examples", bound=_Examples, covariant=True)


@dataclasses.dataclass(frozen=True)
class LabelledTexts:
    """Texts and their class numbers.

    Args:
        texts: object (examples,), UTF-8 bytes.
        labels: int64 (examples,), index into the classes.
    """

    texts: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The texts."""
        return {"text": self.texts}

    @property
    def split_key(self) -> np.ndarray:
        """The texts."""
        return self.texts

    def where(self, chosen: np.ndarray) -> "LabelledTexts":
        """The examples that a boolean array selects."""
        return LabelledTexts(self.texts[chosen], self.labels[chosen])


@dataclasses.dataclass(frozen=True)
class LabelledTextSet(Generic[Examples]):
    """A whole data set of texts, pairs or other examples.

    Args:
        classes: names of the classes; empty if the examples have no labels.
        splits: the examples of each split, by its name.
        version: name and version or digest of the data, for the records of a run.
        dropped: for each split, the number of rows left out, for example because they have no
            label.
    """

    classes: tuple[str, ...]
    splits: Mapping[str, Examples]
    version: str
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def with_validation(self, share: float, fold: int = 0) -> "LabelledTextSet[Examples]":
        """Returns the set; if it has no validation split, carves one from the training split.

        Only a hash of the text (for pairs, of the first text) decides whether it is held out. So
        equal texts stay together, the seed changes nothing, and adding texts to the file moves none
        of the others.

        Args:
            share: share of the training texts to hold out, in (0, 1).
            fold: which part of this size to hold out, counted from 0; different folds have no text
                in common.

        Raises:
            UserError: one of the two splits would be empty.

        Warns:
            DataWarning: a class has no text left to train on.
        """
        if "validation" in self.splits:
            return self
        told = f"data.validation_share is {share} and data.validation_fold {fold}"
        return self.with_held_out("validation", fold * share, (fold + 1) * share, told)

    def with_held_out(
        self, name: str, low: float, high: float, told: str
    ) -> "LabelledTextSet[Examples]":
        """Returns the set with a split that takes the training texts whose hash is in a range.

        Args:
            name: the split's name.
            low: start of the range within [0, 1].
            high: its end, which is left out.
            told: the options that the range comes from, for errors.

        Raises:
            UserError: one of the two splits would be empty.
        """
        train = self.splits["train"]
        shares = hash_to_unit_interval(_SPLIT_KEY, train.split_key)
        held_out = (low <= shares) & (shares < high)
        if not 0 < held_out.sum() < len(train):
            raise UserError(
                f"{told}: this leaves {held_out.sum()} of {len(train)} texts for {name}; "
                f"name a {name} file or change data.{name}_share"
            )
        self._warn_of_lost_classes(told, name, held_out)
        splits = {**self.splits, "train": train.where(~held_out), name: train.where(held_out)}
        return dataclasses.replace(self, splits=splits)

    def _warn_of_lost_classes(self, told: str, split: str, held_out: np.ndarray) -> None:
        labels: np.ndarray = getattr(self.splits["train"], "labels", np.zeros(len(held_out)))
        lost = [
            f"{self.classes[number]!r} ({np.sum(labels == number)} rows)"
            for number in np.setdiff1d(labels[held_out], labels[~held_out])
            if number < len(self.classes)
        ]
        if lost:
            warnings.warn(
                f"{told}: this holds out all of {', '.join(lost)} for {split} and leaves none to "
                f"train on; name a {split} file or change data.{split}_share",
                DataWarning,
                stacklevel=4,
            )


def texts_from_tfds(
    builder: tfds.core.DatasetBuilder,
    text_keys: Sequence[str],
    label_key: str,
    splits: Sequence[str],
) -> LabelledTextSet[LabelledTexts]:
    """Reads the splits of a prepared TFDS builder.

    Args:
        builder: a builder whose data are prepared.
        text_keys: features that form the text, joined by a space.
        label_key: the feature with the class.
        splits: names of the splits.
    """
    read = {}
    for split in splits:
        *parts, labels = columns_from_tfds(builder, split, (*text_keys, label_key))
        read[split] = LabelledTexts(text_array(map(b" ".join, zip(*parts, strict=True))), labels)
    classes = tuple(builder.info.features[label_key].names)
    return LabelledTextSet(classes, read, builder.info.full_name)


def columns_from_tfds(
    builder: tfds.core.DatasetBuilder, split: str, keys: Sequence[str]
) -> list[np.ndarray]:
    """The values of these features over a whole split, always in the same order."""
    # Read one file after another, so that the order is the same on every machine.
    config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    batches = list(
        builder.as_dataset(split=split, batch_size=1000, read_config=config).as_numpy_iterator()
    )
    return [np.concatenate([batch[key] for batch in batches]) for key in keys]


def texts_from_files(
    files: Mapping[str, str | Path], names: Mapping[str, str] | None = None
) -> LabelledTextSet[LabelledTexts]:
    """Reads splits from a user's own files with the columns `text` and `label`.

    `read_table` describes the file formats. The classes are the training file's labels, sorted
    alphabetically, or by value if all are integers.

    Args:
        files: the file of each split, by the split's name; "train" is required.
        names: the columns' names in the files, where they are others.

    Raises:
        UserError: a file has another format, or a label is empty or does not occur in the training
            file (the message names file and line); or the training file has only one label.

    Warns:
        DataWarning: labels of the training file differ only in case or spaces.
    """
    rows = {
        split: list(read_table(file, ("text", "label"), names=names))
        for split, file in files.items()
    }
    classes, labels = number_labels(
        {
            split: [(f"{files[split]}, line {line}", row["label"]) for line, row in rows[split]]
            for split in files
        },
        str(files["train"]),
    )
    splits = {
        split: LabelledTexts(
            text_array(row["text"].encode() for _, row in rows[split]), labels[split]
        )
        for split in files
    }
    return LabelledTextSet(classes, splits, files_version(files["train"], files))


def texts_from_file(
    file: str | Path, classes: Sequence[str], names: Mapping[str, str] | None = None
) -> LabelledTexts:
    """Reads one file as `texts_from_files` does, with the labels of a model that is trained.

    Raises:
        UserError: the file has another format, or a label is none of the classes.
    """
    rows = list(read_table(file, ("text", "label"), names=names))
    labels = [(f"{file}, line {line}", row["label"]) for line, row in rows]
    texts = text_array(row["text"].encode() for _, row in rows)
    return LabelledTexts(texts, numbers_of(labels, classes, "class of the model"))


def number_labels(
    labels: Mapping[str, Sequence[tuple[str, str]]], train_file: str
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Returns the classes, which are the sorted training labels, and each label's class number.

    Args:
        labels: by split, including "train": for each row its place, for errors, and its label.
        train_file: name of the training file, for errors.

    Raises:
        UserError: a label is empty or is not among the training labels, or there is only one
            training label.

    Warns:
        DataWarning: training labels differ only in case or spaces.
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
    return classes, {
        split: numbers_of(rows, classes, f"text of {train_file}") for split, rows in labels.items()
    }


def numbers_of(labels: Sequence[tuple[str, str]], classes: Sequence[str], whose: str) -> np.ndarray:
    """Returns the class number of each label.

    Args:
        labels: for each row its place, for errors, and its label.
        classes: the names of the classes.
        whose: what has these classes, for errors, such as "text of train.tsv".

    Raises:
        UserError: a label is none of the classes.
    """
    numbers = {name: number for number, name in enumerate(classes)}
    for place, label in labels:
        if label.strip() not in numbers:
            raise UserError(
                f"{place}: no {whose} has the label {label.strip()!r}: "
                f"expected one of {', '.join(classes[:20])}"
            )
    return np.array([numbers[label.strip()] for _, label in labels], np.int64)


def warn_of_spellings(file: str, counts: Mapping[str, int]) -> None:
    """Warn of labels that differ only in case or spaces: they are probably meant to be one.

    Args:
        file: the file with the labels.
        counts: the number of rows by label; 0 for one that a trained model knows.
    """
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
            stacklevel=4,
        )


def files_version(named: str | Path, files: Mapping[str, str | Path]) -> str:
    """One file's name and a digest of the contents of all files, in the order of their keys."""
    digest = hashlib.sha256()
    for _, file in sorted(files.items()):
        digest.update(Path(file).read_bytes())
    return f"{Path(named).name} sha256:{digest.hexdigest()[:16]}"


def text_array(texts: Iterable[bytes]) -> np.ndarray:
    """Puts texts into an object array; NumPy's own strings would drop a zero byte at the end."""
    made = list(texts)
    array = np.empty(len(made), object)
    array[:] = made
    return array
