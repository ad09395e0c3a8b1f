"""Texts with their translations, from TFDS or from the user's files."""

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.labelled_texts import (
    Examples,
    LabelledTextSet,
    columns_from_tfds,
    files_version,
    text_array,
)
from keras_quasiattn.lab.data.table_files import read_parallel


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

    Args:
        builder: a builder whose data are prepared: `ParallelCorpus`, or a TFDS builder with one
            feature per language, such as `ted_hrlr_translate/pt_to_en`.
        splits: the builder's split for each split of the set.
        source: the language to translate from.
        target: the language to translate into.

    Raises:
        UserError: the builder lacks one of the languages, or a split has no usable pair.
    """
    for language in (source, target):
        if language not in builder.info.features:
            raise UserError.unknown(
                f"language of {builder.info.full_name}", language, builder.info.features
            )
    read = {
        split: ParallelTexts(*columns_from_tfds(builder, split_there, (source, target)))
        for split, split_there in splits.items()
    }
    return _without_empty_texts(read, builder.info.full_name)


def parallel_from_files(files: Mapping[str, tuple[str | Path, str | Path]]) -> ParallelTextSet:
    """Read the user's files of one text per line; drop and count pairs in which a text is empty.

    Args:
        files: by split, the file of source texts and the file of target texts; each may be
            compressed (.gz, .xz).

    Raises:
        UserError: a file cannot be read, the two files differ in their number of lines, or a split
            has no usable pair.
    """
    read = {}
    for split, (source, target) in files.items():
        rows = [row for _, row in read_parallel({"source": source, "target": target})]
        texts = (text_array(row[side].encode() for row in rows) for side in ("source", "target"))
        read[split] = ParallelTexts(*texts)
    sides = itertools.chain.from_iterable(files.values())
    return _without_empty_texts(read, files_version(sides))


def without_long_pairs(
    texts: ParallelTextSet, source_lengths: np.ndarray, target_lengths: np.ndarray, limit: int
) -> ParallelTextSet:
    """Remove the training pairs in which a text is too long; leave the other splits as they are.

    Args:
        texts: the set; the result's `dropped` includes the removed pairs.
        source_lengths: number of tokens of each source text of the training split.
        target_lengths: the same of target texts.
        limit: maximum number of tokens in a text.

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
