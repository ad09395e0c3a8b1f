"""Where a preset's data come from: a TFDS data set, or the user's own files."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data import prepare
from keras_quasiattn.errors import UserError

SPLITS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A TFDS data set.

    Args:
        builder: a name that TFDS knows, or a builder of this package.
        config: the builder's config.
        example: an input like those of the data.
        splits: the data set's own split for each of ours.
        published_rows: training rows of the published data, where these are a part of them.
        note: what else is to be said of the data.
    """

    builder: str | type[tfds.core.DatasetBuilder]
    config: str | None = None
    example: str = ""
    splits: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {split: split for split in SPLITS}
    )
    published_rows: int | None = None
    note: str = ""

    def prepared(self, data_dir: Path, config_suffix: str = "") -> tfds.core.DatasetBuilder:
        """The builder, its data written to `data_dir`."""

        def make() -> tfds.core.DatasetBuilder:
            if isinstance(self.builder, str):
                return tfds.builder(self.builder, data_dir=data_dir)
            config = f"{self.config}{config_suffix}" if self.config else None
            return self.builder(config=config, data_dir=data_dir)

        return prepare(make, data_dir)

    def notes(self, train: Any) -> list[str]:
        """What is to be said of the data, whose training split is `train`."""
        if self.published_rows is None:
            return [self.note] if self.note else []
        return [f"a part: {len(train):,} of {self.published_rows:,} training rows"]


def own_files(options: Mapping[str, Any]) -> dict[str, str]:
    """The user's file of each split that has one, from a task's data options.

    Raises:
        UserError: there is none to train on.
    """
    files = {split: options[split] for split in SPLITS if options[split]}
    if "train" not in files:
        raise UserError("data.train is '': name a file, with --data FILE or --set data.train=FILE")
    return files
