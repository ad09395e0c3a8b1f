"""Where the texts of `classify` come from, by preset."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data import (
    AgNewsPart,
    LabelledTextSet,
    StanfordSentiment,
    prepare,
    texts_from_files,
    texts_from_tfds,
)
from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.held_out import hold_out

_OWN_FILES = ("train", "validation", "test")
_AG_NEWS_ROWS = 120_000


@dataclasses.dataclass(frozen=True)
class _Source:
    """A TFDS data set: a name that TFDS knows, or a builder of ours and its config."""

    builder: str | type[tfds.core.DatasetBuilder]
    example: str
    text_keys: tuple[str, ...] = ("text",)
    label_key: str = "label"
    splits: tuple[str, ...] = ("train", "test")
    config: str | None = None
    published_rows: int | None = None

    def make(self, data_dir: Path, phrases: bool) -> tfds.core.DatasetBuilder:
        config = f"{self.config}{'_phrases' * phrases}" if self.config else None
        if isinstance(self.builder, str):
            return tfds.builder(self.builder, data_dir=data_dir)
        return self.builder(config=config, data_dir=data_dir)


_REVIEW = "a gorgeous, witty, seductive movie ."
_NEWS = "Stocks fall as oil prices rise - Shares fell on Wall Street after oil reached a new high."
_sentiment = functools.partial(_Source, StanfordSentiment, _REVIEW, splits=("train", "validation", "test"))
SOURCES: Mapping[str, _Source] = {
    "trec": _Source("trec", "What is the capital of Yugoslavia ?", label_key="label-coarse"),
    "sst1": _sentiment(config="fine"),
    "sst2": _sentiment(config="binary"),
    "imdb": _Source("imdb_reviews", "A gorgeous, witty film.<br />See it twice!"),
    "ag_news": _Source("ag_news_subset", _NEWS, text_keys=("title", "description")),
    "ag_news_part": _Source(AgNewsPart, _NEWS, published_rows=_AG_NEWS_ROWS),
}
OWN_EXAMPLE = "any text"


def load_texts(preset: str, options: Mapping[str, Any], data_dir: Path) -> tuple[LabelledTextSet, str]:
    """The texts of a preset, with a validation split, and a note on what they are.

    Args:
        preset: a name in `SOURCES`, or another one for a user's own files.
        options: the task's data options.
        data_dir: folder of the TFDS data.

    Raises:
        UserError: files are missing or have another form.
    """
    notes = []
    if preset in SOURCES:
        source = SOURCES[preset]
        builder = prepare(lambda: source.make(data_dir, options.get("phrases", False)), data_dir)
        whole = texts_from_tfds(builder, source.text_keys, source.label_key, source.splits)
        if source.published_rows is not None:
            notes.append(f"a part: {len(whole.splits['train']):,} of {source.published_rows:,} training rows")
    else:
        files = {split: options[split] for split in _OWN_FILES if options[split]}
        if "train" not in files:
            raise UserError("data.train is '': name a file, with --data FILE or --set data.train=FILE")
        whole = texts_from_files(files)
    whole, of_validation = hold_out(whole, options)
    return whole, "; ".join(notes + of_validation)
