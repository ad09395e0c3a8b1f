"""The data sources of `classify`, by preset."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_quasiattn.lab.data import (
    AgNewsPart,
    LabelledTexts,
    LabelledTextSet,
    StanfordSentiment,
    counted_letters,
    texts_from_files,
    texts_from_tfds,
)
from keras_quasiattn.lab.tasks.held_out import SPLITS, hold_out
from keras_quasiattn.lab.tasks.sources import Source, own_files

_AG_NEWS_ROWS = 120_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Texts(Source):
    """Labelled texts; the values of `text_keys` are joined into one text."""

    text_keys: tuple[str, ...] = ("text",)
    label_key: str = "label"
    splits: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"train": "train", "test": "test"}
    )

    def is_prepared(self, data_dir: Path, options: Mapping[str, Any]) -> bool:
        """Return whether the data are prepared, including the phrases if requested."""
        return self._made(data_dir, _suffix(options)).is_prepared()

    def texts(self, options: Mapping[str, Any], data_dir: Path) -> LabelledTextSet[LabelledTexts]:
        """Return the splits of the data set."""
        builder = self.prepared(data_dir, _suffix(options))
        return texts_from_tfds(builder, self.text_keys, self.label_key, tuple(self.splits.values()))


def _suffix(options: Mapping[str, Any]) -> str:
    return "_phrases" if options.get("phrases") else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Generated(_Texts):
    """Texts that a function generates."""

    builder: Any = None
    generate: Callable[[], LabelledTextSet[LabelledTexts]]

    def is_prepared(self, data_dir: Path, options: Mapping[str, Any]) -> bool:
        """Return True: nothing is written."""
        return True

    def texts(self, options: Mapping[str, Any], data_dir: Path) -> LabelledTextSet[LabelledTexts]:
        """Return the generated splits."""
        return self.generate()


_REVIEW = "a gorgeous, witty, seductive movie ."
_NEWS = "Stocks fall as oil prices rise - Shares fell on Wall Street after oil reached a new high."
_sentiment = functools.partial(
    _Texts, builder=StanfordSentiment, example=_REVIEW, splits={split: split for split in SPLITS}
)
SOURCES: Mapping[str, _Texts] = {
    "trec": _Texts(
        builder="trec", example="What is the capital of Yugoslavia ?", label_key="label-coarse"
    ),
    "sst1": _sentiment(config="fine"),
    "sst2": _sentiment(config="binary"),
    "imdb": _Texts(builder="imdb_reviews", example="A gorgeous, witty film.<br />See it twice!"),
    "ag_news": _Texts(builder="ag_news_subset", example=_NEWS, text_keys=("title", "description")),
    "ag_news_part": _Texts(builder=AgNewsPart, example=_NEWS, published_rows=_AG_NEWS_ROWS),
    "letters": _Generated(generate=counted_letters, example="b a f b c b"),
}
OWN_EXAMPLE = "any text"


def load_texts(
    preset: str, options: Mapping[str, Any], data_dir: Path
) -> tuple[LabelledTextSet, str]:
    """Return the texts of a preset, with a validation split, and a note that describes them.

    Args:
        preset: a name in `SOURCES`; any other name means the user's own files.
        options: the task's data options.
        data_dir: folder of the TFDS data.

    Raises:
        UserError: files are missing or malformed.
    """
    notes = []
    if preset in SOURCES:
        source = SOURCES[preset]
        whole = source.texts(options, data_dir)
        notes += source.notes(whole.splits["train"])
    else:
        whole = texts_from_files(own_files(options), options["columns"])
    whole, of_validation = hold_out(whole, options)
    return whole, "; ".join(notes + of_validation)
