"""The data sources of `translate`, by preset."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    ParallelCorpus,
    ParallelTextSet,
    parallel_from_files,
    parallel_from_tfds,
)
from keras_quasiattn.lab.tasks.held_out import SPLITS, hold_out
from keras_quasiattn.lab.tasks.sources import Source


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Sentences(Source):
    """Parallel sentences."""

    builder: str | type[tfds.core.DatasetBuilder] = ParallelCorpus


_TALK = "And I want to tell you a story ."
_envi = functools.partial(_Sentences, example=_TALK)
SOURCES: Mapping[str, _Sentences] = {
    "multi30k": _Sentences(
        config="multi30k",
        example="A man in a blue shirt is standing on a ladder.",
    ),
    "iwslt15_envi": _envi(config="iwslt15_envi"),
    "iwslt15_envi_part": _envi(config="iwslt15_envi_part", published_rows=133_317),
    "ted_hrlr": _Sentences(
        builder="ted_hrlr_translate/pt_to_en",
        example="esta é uma história .",
    ),
}
OWN_EXAMPLE = "any text"


def load_parallel(
    preset: str, options: Mapping[str, Any], data_dir: Path
) -> tuple[ParallelTextSet, str]:
    """Return the sentences of a preset, with a validation split, and a note that describes them.

    Args:
        preset: a name in `SOURCES`; any other name means the user's own files.
        options: the task's data options.
        data_dir: folder of the TFDS data.

    Raises:
        UserError: files are missing or malformed, or the corpus does not have a language.
    """
    notes = []
    if preset in SOURCES:
        source = SOURCES[preset]
        builder = source.prepared(data_dir)
        whole = parallel_from_tfds(builder, source.splits, options["source"], options["target"])
        notes += source.notes(whole.splits["train"])
    else:
        whole = parallel_from_files(_files(options))
    dropped = sum(whole.dropped.values())
    if dropped:
        notes.append(f"{dropped:,} pairs with an empty side left out")
    whole, of_validation = hold_out(whole, options)
    return whole, "; ".join(notes + of_validation)


def _files(options: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the (source, target) files of each split; options join the two with a comma."""
    return {
        split: sides_of(f"data.{split}", options[split])
        for split in SPLITS
        if options[split] or split == "train"
    }


def sides_of(option: str, given: str) -> tuple[str, str]:
    """Return the source and the target file that an option joins with a comma.

    Raises:
        UserError: they are not two.
    """
    source, *target = given.split(",")
    if len(target) != 1:
        raise UserError(
            f"{option} is {given!r}: give two files with one text per line, "
            f"as SOURCE,TARGET (for training: --source and --target)"
        )
    return source, target[0]
