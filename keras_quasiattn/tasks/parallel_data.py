"""Where the sentences of `translate` come from, by preset."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data import (
    ParallelCorpus,
    ParallelTextSet,
    parallel_from_files,
    parallel_from_tfds,
    prepare,
)
from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.held_out import hold_out

_SPLITS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class _Source:
    """A TFDS data set: a name that TFDS knows, or a config of `ParallelCorpus`."""

    example: str
    languages: tuple[str, str]
    name: str = ""
    config: str = ""
    published_rows: int | None = None

    def make(self, data_dir: Path) -> tfds.core.DatasetBuilder:
        if self.name:
            return tfds.builder(self.name, data_dir=data_dir)
        return ParallelCorpus(config=self.config, data_dir=data_dir)


_TALK = "And I want to tell you a story ."
SOURCES: Mapping[str, _Source] = {
    "multi30k": _Source("A man in a blue shirt is standing on a ladder.", ("en", "de"), config="multi30k"),
    "iwslt15_envi": _Source(_TALK, ("en", "vi"), config="iwslt15_envi"),
    "iwslt15_envi_part": _Source(_TALK, ("en", "vi"), config="iwslt15_envi_part", published_rows=133_317),
    "ted_hrlr": _Source("esta é uma história .", ("pt", "en"), name="ted_hrlr_translate/pt_to_en"),
}
OWN_EXAMPLE = "any text"


def load_parallel(preset: str, options: Mapping[str, Any], data_dir: Path) -> tuple[ParallelTextSet, str]:
    """The sentences of a preset, with a validation split, and a note on what they are.

    Args:
        preset: a name in `SOURCES`, or another one for a user's own files.
        options: the task's data options.
        data_dir: folder of the TFDS data.

    Raises:
        UserError: files are missing or have another form, or there is no such language.
    """
    notes = []
    if preset in SOURCES:
        source = SOURCES[preset]
        builder = prepare(lambda: source.make(data_dir), data_dir)
        splits = {split: split for split in _SPLITS}
        whole = parallel_from_tfds(builder, splits, options["source"], options["target"])
        if source.published_rows is not None:
            notes.append(f"a part: {len(whole.splits['train']):,} of {source.published_rows:,} training rows")
    else:
        whole = parallel_from_files(_files(options))
    dropped = sum(whole.dropped.values())
    if dropped:
        notes.append(f"{dropped:,} pairs with an empty side left out")
    whole, of_validation = hold_out(whole, options)
    return whole, "; ".join(notes + of_validation)


def _files(options: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The two files of each split, parted by a comma."""
    files = {}
    for split in _SPLITS:
        parts = options[split].split(",") if options[split] else []
        if len(parts) == 2:
            files[split] = (parts[0], parts[1])
        elif parts or split == "train":
            raise UserError(
                f"data.{split} is {options[split]!r}: two files of one text a line, SOURCE,TARGET, would be right "
                f"(--source and --target name those to train on)"
            )
    return files
