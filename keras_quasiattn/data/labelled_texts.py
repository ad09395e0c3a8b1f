"""Texts with labels, in memory, from TFDS or from a user's own files."""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.hashing import text_shares
from keras_quasiattn.data.table_files import read_table
from keras_quasiattn.errors import UserError

_SPLIT_KEY = 17  # of no seed: a text is held out in every run or in none


class _Examples(Protocol):
    @property
    def held_out_by(self) -> np.ndarray:
        """The text of each example that decides whether it is held out."""

    def __len__(self) -> int: ...

    def where(self, chosen: np.ndarray) -> Self:
        """The examples that a boolean array chooses."""


Examples = TypeVar("Examples", bound=_Examples, covariant=True)


@dataclasses.dataclass(frozen=True)
class LabelledTexts:
    """Texts and the numbers of their classes.

    Args:
        texts: object (examples,), UTF-8 bytes.
        labels: int64 (examples,), index into the classes.
    """

    texts: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def held_out_by(self) -> np.ndarray:
        """The texts."""
        return self.texts

    def where(self, chosen: np.ndarray) -> "LabelledTexts":
        """The examples that a boolean array chooses."""
        return LabelledTexts(self.texts[chosen], self.labels[chosen])


@dataclasses.dataclass(frozen=True)
class LabelledTextSet(Generic[Examples]):
    """A whole data set, of texts or of pairs.

    Args:
        classes: names of the classes; none where the examples have no label.
        splits: by name.
        version: what the data are, for the record.
        dropped: number of rows of each split that were left out, as without a label.
    """

    classes: tuple[str, ...]
    splits: Mapping[str, Examples]
    version: str
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def with_validation(self, share: float, fold: int = 0) -> "LabelledTextSet[Examples]":
        """The set, its validation split carved from the training split where it has none.

        Which texts are held out follows from a hash of the text alone (of the first text, for pairs): equal texts
        stay together, no seed changes it, and further texts in the file move none of the others.

        Args:
            share: of the training texts, in (0, 1).
            fold: which one of the parts of this share, from 0 on; those of different folds have no text in common.

        Raises:
            UserError: nothing would be left on one of the sides.
        """
        if "validation" in self.splits:
            return self
        train = self.splits["train"]
        shares = text_shares(_SPLIT_KEY, train.held_out_by)
        held_out = (fold * share <= shares) & (shares < (fold + 1) * share)
        if not 0 < held_out.sum() < len(train):
            raise UserError(
                f"data.validation_share is {share} and data.validation_fold {fold}: it leaves {held_out.sum()} of "
                f"{len(train)} texts for validation; give a file of its own or another share"
            )
        splits = {
            **self.splits,
            "train": train.where(~held_out),
            "validation": train.where(held_out),
        }
        return dataclasses.replace(self, splits=splits)


def texts_from_tfds(
    builder: tfds.core.DatasetBuilder,
    text_keys: Sequence[str],
    label_key: str,
    splits: Sequence[str],
) -> LabelledTextSet[LabelledTexts]:
    """The splits of a prepared TFDS builder.

    Args:
        builder: a builder whose data are prepared.
        text_keys: features that make up the text, joined by a space.
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
    # One file after the other, so that the order is the same everywhere.
    config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    batches = list(
        builder.as_dataset(split=split, batch_size=1000, read_config=config).as_numpy_iterator()
    )
    return [np.concatenate([batch[key] for batch in batches]) for key in keys]


def texts_from_files(files: Mapping[str, str | Path]) -> LabelledTextSet[LabelledTexts]:
    """Splits from a user's own files, with the columns `text` and `label`; see `read_table` for their forms.

    The classes are the training file's labels, in order of the alphabet (of their value where all are integers).

    Args:
        files: the file of each split, by its name, "train" among them.

    Raises:
        UserError: naming file and line: a file of another form, a label that is empty, or one that the training
            file does not have; or a training file with a single label.
    """
    rows = {split: list(read_table(file, ("text", "label"))) for split, file in files.items()}
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


def number_labels(
    labels: Mapping[str, Sequence[tuple[str, str]]], train_file: str
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """The classes, which are the training split's labels in order, and the number of each label.

    Args:
        labels: by split, "train" among them: where each label stands, for errors, and the label.
        train_file: name of the training file, for errors.

    Raises:
        UserError: a label is empty or not among the training labels, or these are a single one.
    """
    for rows in labels.values():
        for place, label in rows:
            if not label.strip():
                raise UserError(f"{place}: the label is empty")
    names = {label.strip() for _, label in labels["train"]}
    if len(names) < 2:
        raise UserError(
            f"{train_file} has the label {names.pop()!r} alone: at least two must occur"
        )
    numeric = all(re.fullmatch(r"-?\d{1,18}", name) for name in names)
    classes = tuple(sorted(names, key=lambda name: (int(name) if numeric else 0, name)))
    numbers = {name: number for number, name in enumerate(classes)}
    for rows in labels.values():
        for place, label in rows:
            if label.strip() not in numbers:
                raise UserError(
                    f"{place}: no text of {train_file} has the label {label.strip()!r}: "
                    f"{', '.join(classes[:20])} would be right"
                )
    return classes, {
        split: np.array([numbers[label.strip()] for _, label in rows], np.int64)
        for split, rows in labels.items()
    }


def files_version(named: str | Path, files: Mapping[str, str | Path]) -> str:
    """One file's name, with a digest of the content of all, in the order of their keys."""
    digest = hashlib.sha256()
    for _, file in sorted(files.items()):
        digest.update(Path(file).read_bytes())
    return f"{Path(named).name} sha256:{digest.hexdigest()[:16]}"


def text_array(texts: Iterable[bytes]) -> np.ndarray:
    """The texts as an object array, which NumPy's own strings would cut at a final zero byte."""
    made = list(texts)
    array = np.empty(len(made), object)
    array[:] = made
    return array
