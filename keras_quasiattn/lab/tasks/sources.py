"""Where the examples of a preset come from: a TFDS data set, the user's files, or a function."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import LabelledTextSet, pending_download, prepare
from keras_quasiattn.lab.tasks.preset import SPLITS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """The source of the examples of a preset."""

    # Returns the splits: of a data set from its builder and the task's data options, otherwise from
    # the options alone.
    read: Callable[..., LabelledTextSet[Any]]
    example: str  # an input like the data
    builder: Any = None  # a TFDS name, or a builder class of this package; None without a data set
    config: str | None = None
    published_rows: int | None = None  # in training, if this source is only a part of them
    note: str = ""  # on the data; ignored if `published_rows` is given
    dropped: str = "rows without a label"  # the kind of rows that reading leaves out

    def load(self, options: Mapping[str, Any], data_dir: Path) -> tuple[LabelledTextSet[Any], str]:
        """Return the examples with a validation split, and a note; write missing data sets first.

        With `test_share`, a test split is held out too if there is none.
        """
        if self.builder is None:
            whole = self.read(options)
        else:
            whole = self.read(prepare(lambda: self._made(data_dir, options), data_dir), options)
        for split, option in (("validation", "validation_fold"), ("test", "test_share")):
            if options.get(option) and split in whole.splits:
                raise UserError(
                    f"data.{option} is {options[option]}, but the data have their own {split} "
                    "split: leave it at 0"
                )
        notes = [self.note] if self.note else []
        if self.published_rows is not None:
            count = len(whole.splits["train"])
            notes = [f"a part: {count:,} of {self.published_rows:,} training rows"]
        if count := sum(whole.dropped.values()):
            notes.append(f"{count:,} {self.dropped} left out")
        if share := options.get("test_share"):
            # The test split takes the end of the hash range; the validation split its start.
            rows = len(whole.splits["train"])
            whole = whole.with_held_out("test", 1 - share, 1.0, f"data.test_share is {share}")
            notes.append(f"test is {len(whole.splits['test']):,} of {rows:,} rows, by hash")
        if "validation" not in whole.splits:
            rows = len(whole.splits["train"])
            whole = whole.with_validation(options["validation_share"], options["validation_fold"])
            held_out = len(whole.splits["validation"])
            notes.append(f"validation is {held_out:,} of {rows:,} training rows, by hash")
        return whole, "; ".join(notes)

    def is_prepared(self, data_dir: Path, options: Mapping[str, Any]) -> bool:
        """Return whether nothing must be downloaded or written to `data_dir`."""
        return self.builder is None or self._made(data_dir, options).is_prepared()

    def pending_download(self, data_dir: Path) -> str:
        """Return what `load` would download to `data_dir`; empty for nothing."""
        # Builders of this package read files that the user provides.
        return pending_download(self._made(data_dir, {})) if isinstance(self.builder, str) else ""

    def _made(self, data_dir: Path, options: Mapping[str, Any]) -> tfds.core.DatasetBuilder:
        if isinstance(self.builder, str):
            return tfds.builder(self.builder, data_dir=data_dir)
        config = f"{self.config}_phrases" if options.get("phrases") else self.config
        return self.builder(config=config, data_dir=data_dir)


def own_source(example: str, read: Callable[..., LabelledTextSet[Any]], **more: Any) -> Source:
    """Return the source of the user's own files.

    `read` takes them by split and, if there is an option `columns`, the columns' names in them.
    """

    def read_own(options: Mapping[str, Any]) -> LabelledTextSet[Any]:
        files = {split: options[split] for split in SPLITS if options[split]}
        if "train" not in files:
            raise UserError(
                "data.train is '': name a file, with --data FILE or --set data.train=FILE"
            )
        return read(files, *([options["columns"]] if "columns" in options else []))

    return Source(example=example, read=read_own, **more)
