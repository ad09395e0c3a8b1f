"""The source of a preset's data: a TFDS data set, or the user's own files."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import pending_download, prepare
from keras_quasiattn.lab.tasks.held_out import SPLITS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A TFDS data set.

    Args:
        builder: a TFDS name, or a builder class of this package.
        config: the builder's config.
        example: an example input like the data.
        splits: by split name of the task, the split's name in the data set.
        published_rows: number of published training rows, if this source is only a part of them.
        note: a note on the data; ignored if `published_rows` is given.
    """

    builder: Any
    config: str | None = None
    example: str = ""
    splits: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {split: split for split in SPLITS}
    )
    published_rows: int | None = None
    note: str = ""

    def prepared(self, data_dir: Path, config_suffix: str = "") -> tfds.core.DatasetBuilder:
        """Return the builder, after writing its data to `data_dir`."""
        return prepare(lambda: self._made(data_dir, config_suffix), data_dir)

    def is_prepared(self, data_dir: Path, options: Mapping[str, Any]) -> bool:
        """Return whether `data_dir` has the data, so nothing must be downloaded or written."""
        return self._made(data_dir).is_prepared()

    def pending_download(self, data_dir: Path) -> str:
        """Return what `prepared` would download to `data_dir`; empty for nothing."""
        # Builders of this package read files that the user provides.
        return pending_download(self._made(data_dir)) if isinstance(self.builder, str) else ""

    def _made(self, data_dir: Path, config_suffix: str = "") -> tfds.core.DatasetBuilder:
        if isinstance(self.builder, str):
            return tfds.builder(self.builder, data_dir=data_dir)
        config = f"{self.config}{config_suffix}" if self.config else None
        return self.builder(config=config, data_dir=data_dir)

    def notes(self, train: Any) -> list[str]:
        """Return notes on the data, whose training split is `train`."""
        if self.published_rows is None:
            return [self.note] if self.note else []
        return [f"a part: {len(train):,} of {self.published_rows:,} training rows"]


def own_files(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the user's files by split, from a task's data options.

    Raises:
        UserError: there is no training file.
    """
    files = {split: options[split] for split in SPLITS if options[split]}
    if "train" not in files:
        raise UserError("data.train is '': name a file, with --data FILE or --set data.train=FILE")
    return files
