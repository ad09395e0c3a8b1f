"""Texts with labels, in memory, from TFDS or from a user's own files."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.hashing import keyed_hash
from keras_quasiattn.data.table_files import read_table
from keras_quasiattn.errors import UserError

_SPLIT_KEY = 17  # of no seed: a text is held out in every run or in none


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

    def where(self, chosen: np.ndarray) -> "LabelledTexts":
        """The examples that a boolean array chooses."""
        return LabelledTexts(self.texts[chosen], self.labels[chosen])


@dataclasses.dataclass(frozen=True)
class LabelledTextSet:
    """A whole data set.

    Args:
        classes: names of the classes.
        splits: by name, "train" among them.
        version: what the data are, for the record.
    """

    classes: tuple[str, ...]
    splits: Mapping[str, LabelledTexts]
    version: str

    def with_validation(self, share: float) -> "LabelledTextSet":
        """The set, its validation split carved from the training split where it has none.

        Which texts are held out follows from a hash of the text alone: equal texts stay together, no seed
        changes it, and further texts in the file move none of the others.

        Args:
            share: of the training texts, in (0, 1).

        Raises:
            UserError: nothing would be left on one of the sides.
        """
        if "validation" in self.splits:
            return self
        train = self.splits["train"]
        digests = [hashlib.blake2b(text, digest_size=8).digest() for text in train.texts]
        words = np.array([int.from_bytes(digest, "little", signed=True) for digest in digests], np.int64)
        held_out = keyed_hash(_SPLIT_KEY, words) / 2.0**64 < share
        if not 0 < held_out.sum() < len(train):
            raise UserError(
                f"data.validation_share is {share}: it leaves {held_out.sum()} of {len(train)} texts for validation; "
                f"give a file of its own or another share"
            )
        splits = {**self.splits, "train": train.where(~held_out), "validation": train.where(held_out)}
        return dataclasses.replace(self, splits=splits)


def texts_from_tfds(
    builder: tfds.core.DatasetBuilder, text_keys: Sequence[str], label_key: str, splits: Sequence[str]
) -> LabelledTextSet:
    """The splits of a prepared TFDS builder.

    Args:
        builder: a builder whose data are prepared.
        text_keys: features that make up the text, joined by a space.
        label_key: the feature with the class.
        splits: names of the splits.
    """
    read = {split: _read_split(builder, split, text_keys, label_key) for split in splits}
    classes = tuple(builder.info.features[label_key].names)
    return LabelledTextSet(classes, read, builder.info.full_name)


def _read_split(
    builder: tfds.core.DatasetBuilder, split: str, text_keys: Sequence[str], label_key: str
) -> LabelledTexts:
    texts, labels = [], []
    # One file after the other, so that the order is the same everywhere.
    config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    for example in builder.as_dataset(split=split, read_config=config).as_numpy_iterator():
        texts.append(b" ".join(example[key] for key in text_keys))
        labels.append(example[label_key])
    return _labelled(texts, labels)


def texts_from_files(files: Mapping[str, str | Path]) -> LabelledTextSet:
    """Splits from a user's own files, with the columns `text` and `label`; see `read_table` for their forms.

    The classes are the training file's labels, in order of the alphabet (of their value where all are integers).

    Args:
        files: the file of each split, by its name, "train" among them.

    Raises:
        UserError: naming file and line: a file of another form, a label that is empty, or one that the training
            file does not have; or a training file with a single label.
    """
    rows = {split: list(read_table(file, ("text", "label"))) for split, file in files.items()}
    for split, file in files.items():
        for line, row in rows[split]:
            if not row["label"].strip():
                raise UserError(f"{file}, line {line}: the label is empty")
    names = {row["label"].strip() for _, row in rows["train"]}
    if len(names) < 2:
        raise UserError(f"{files['train']} has the label {names.pop()!r} alone: at least two must occur")
    numeric = all(name.removeprefix("-").isdecimal() for name in names)
    classes = tuple(sorted(names, key=lambda name: (int(name) if numeric else 0, name)))
    numbers = {name: number for number, name in enumerate(classes)}
    splits = {}
    for split, file in files.items():
        for line, row in rows[split]:
            if row["label"].strip() not in numbers:
                raise UserError(
                    f"{file}, line {line}: no text of {files['train']} has the label {row['label'].strip()!r}: "
                    f"{', '.join(classes[:20])} would be right"
                )
        splits[split] = _labelled(
            [row["text"].encode() for _, row in rows[split]],
            [numbers[row["label"].strip()] for _, row in rows[split]],
        )
    digest = hashlib.sha256()
    for _, file in sorted(files.items()):
        digest.update(Path(file).read_bytes())
    return LabelledTextSet(classes, splits, f"{Path(files['train']).name} sha256:{digest.hexdigest()[:16]}")


def _labelled(texts: Sequence[bytes], labels: Sequence[int]) -> LabelledTexts:
    array = np.empty(len(texts), object)
    array[:] = texts
    return LabelledTexts(array, np.array(labels, np.int64))
