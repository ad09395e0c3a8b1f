"""Texts with their translations, from TFDS or from a user's own files."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.labelled_texts import (
    LabelledTextSet,
    columns_from_tfds,
    files_version,
    text_array,
)
from keras_quasiattn.data.table_files import read_parallel
from keras_quasiattn.errors import UserError


@dataclasses.dataclass(frozen=True)
class ParallelTexts:
    """Texts and their translations.

    Args:
        source: object (pairs,), UTF-8 bytes.
        target: object (pairs,), UTF-8 bytes.
    """

    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.source)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The source and the target texts."""
        return {"source": self.source, "target": self.target}

    @property
    def split_key(self) -> np.ndarray:
        """The source texts."""
        return self.source

    def where(self, chosen: np.ndarray) -> "ParallelTexts":
        """The pairs that a boolean array selects."""
        return ParallelTexts(self.source[chosen], self.target[chosen])


ParallelTextSet = LabelledTextSet[ParallelTexts]  # its `classes` are empty


def parallel_from_tfds(
    builder: tfds.core.DatasetBuilder, splits: Mapping[str, str], source: str, target: str
) -> ParallelTextSet:
    """Reads the splits of a prepared TFDS builder; drops and counts pairs with an empty side.

    Args:
        builder: a builder whose data are prepared: `ParallelCorpus`, or one of TFDS's own with a
            feature for each language, such as `ted_hrlr_translate/pt_to_en`.
        splits: for each split of the set, the builder's split.
        source: the language to translate from.
        target: the language to translate to.

    Raises:
        UserError: the builder does not have one of the languages, or no pair of a split is left.
    """
    for language in (source, target):
        if language not in builder.info.features:
            raise UserError.unknown(
                f"language of {builder.info.full_name}", language, builder.info.features
            )
    read = {
        split: ParallelTexts(*columns_from_tfds(builder, theirs, (source, target)))
        for split, theirs in splits.items()
    }
    return _without_empty_sides(read, builder.info.full_name)


def parallel_from_files(files: Mapping[str, tuple[str | Path, str | Path]]) -> ParallelTextSet:
    """Reads a user's own texts, one per line; drops and counts pairs with an empty side.

    Args:
        files: by split, the file of the source texts and that of the target texts, plain or
            compressed (.gz, .xz).

    Raises:
        UserError: a file cannot be read, the two differ in their number of lines, or no pair of a
            split is left.
    """
    read = {}
    for split, (source, target) in files.items():
        rows = [row for _, row in read_parallel({"source": source, "target": target})]
        read[split] = ParallelTexts(
            *(text_array(row[side].encode() for row in rows) for side in ("source", "target"))
        )
    sides = {
        f"{split} {side}": file for split, pair in files.items() for side, file in enumerate(pair)
    }
    return _without_empty_sides(read, files_version(next(iter(sides.values())), sides))


def without_long_pairs(
    texts: ParallelTextSet, source_lengths: np.ndarray, target_lengths: np.ndarray, limit: int
) -> ParallelTextSet:
    """Removes the training pairs in which a side is too long; the other splits keep theirs.

    Args:
        texts: the set; the `dropped` of the result counts the removed pairs too.
        source_lengths: number of tokens of each source text in the training split.
        target_lengths: number of tokens of each target text in the training split.
        limit: largest number of tokens of a side.

    Raises:
        UserError: all training pairs are too long.
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


def _without_empty_sides(read: Mapping[str, ParallelTexts], version: str) -> ParallelTextSet:
    splits, dropped = {}, {}
    for split, pairs in read.items():
        sides = zip(pairs.source, pairs.target, strict=True)
        full = np.array(
            [all(side.decode("utf-8", "replace").strip() for side in pair) for pair in sides]
        )
        if not full.any():
            raise UserError(
                f"the {split} split of {version} has no usable pair: in every pair, a text is empty"
            )
        splits[split], dropped[split] = pairs.where(full), int((~full).sum())
    return LabelledTextSet((), splits, version, dropped)
