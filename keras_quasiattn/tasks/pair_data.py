"""Where the pairs of `pairs` and the candidates of `rank` come from, by preset."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.data import (
    LabelledTextSet,
    PairCorpus,
    TextPairs,
    pairs_from_click_log,
    pairs_from_files,
    pairs_from_tfds,
    prepare,
    ranked_pairs_from_files,
)
from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.held_out import hold_out

PairSet = LabelledTextSet[TextPairs]
_SPLITS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class _Source:
    """A TFDS data set: a name that TFDS knows, or a config of `PairCorpus`."""

    example: str
    name: str = ""
    config: str = ""
    splits: Mapping[str, str] = dataclasses.field(default_factory=lambda: {split: split for split in _SPLITS})
    keys: tuple[str, ...] = ("first", "second", "label")
    published_rows: int | None = None

    def make(self, data_dir: Path) -> tfds.core.DatasetBuilder:
        if self.name:
            return tfds.builder(self.name, data_dir=data_dir)
        return PairCorpus(config=self.config, data_dir=data_dir)


_INFERENCE = "A man plays a guitar on stage.\tA man makes music."
_PARAPHRASE = "How do I learn French?\tWhat is the best way to learn French?"
_ANSWERS = "how are glacier caves formed ?\tA glacier cave is a cave within the ice .\tIce is frozen water ."
_REPLIES = "how do i unpack a rar file?\tinstall unrar with apt-get\twhat do you mean by root"
_NLI = ("premise", "hypothesis", "label")
_matched = {"train": "train", "validation": "validation_matched", "test": "validation_mismatched"}

SOURCES: Mapping[str, _Source] = {
    "snli": _Source(_INFERENCE, "snli", keys=_NLI),
    "snli_part": _Source(_INFERENCE, config="snli_part", published_rows=549_367),
    "multi_nli": _Source(_INFERENCE, "multi_nli", splits=_matched, keys=_NLI),
    "scitail": _Source(_INFERENCE, "sci_tail", keys=_NLI),
    "dialogue_nli": _Source("i like dogs .\ti have two dogs .", config="dialogue_nli"),
    # The published test split has no labels, so the validation split is measured on and some pairs are held out.
    "quora": _Source(
        _PARAPHRASE,
        "glue/qqp",
        splits={"train": "train", "test": "validation"},
        keys=("question1", "question2", "label"),
    ),
    "quora_tsv": _Source(_PARAPHRASE, config="quora"),
    "quora_part": _Source(_PARAPHRASE, config="quora_part", published_rows=384_290),
}
_ranked = functools.partial(_Source, _ANSWERS, keys=("first", "second", "label", "question_id"))
RANKED_SOURCES: Mapping[str, _Source] = {
    "wikiqa": _ranked(config="wikiqa"),
    "wikiqa_original": _ranked(config="wikiqa_original"),
    "trecqa": _ranked(config="trecqa_all"),
    "trecqa_train": _ranked(config="trecqa"),
    "ubuntu_irc": _ranked(_REPLIES, config="ubuntu_irc"),
    "ubuntu": _ranked(_REPLIES, config="ubuntu_v2"),
}
_OWN: Mapping[str, tuple[str, str, Callable[[Mapping[str, Any]], PairSet]]] = {
    "own": ("any text\tanother text", "first,second,label", pairs_from_files),
    "click_log": ("weather paris\tIs it cold in Paris?", "query,question,ctr", pairs_from_click_log),
}


def load_pairs(preset: str, options: Mapping[str, Any], data_dir: Path) -> tuple[PairSet, str]:
    """The pairs of a preset of `pairs`, with a validation split, and a note on what they are.

    Args:
        preset: a name in `SOURCES`, "own" or "click_log".
        options: the task's data options.
        data_dir: folder of the TFDS data.

    Raises:
        UserError: files are missing or have another form.
    """
    if preset in SOURCES:
        return _from_tfds(SOURCES[preset], options, data_dir)
    _, columns, read = _OWN[preset]
    return _with_note(read(_files(options, columns)), options)


def load_ranked(preset: str, options: Mapping[str, Any], data_dir: Path) -> tuple[PairSet, str]:
    """The questions and candidates of a preset of `rank`; arguments and errors as for `load_pairs`."""
    if preset in RANKED_SOURCES:
        return _from_tfds(RANKED_SOURCES[preset], options, data_dir)
    return _with_note(ranked_pairs_from_files(_files(options, "question,candidate,label")), options)


def example_of(preset: str) -> str:
    """An input like the preset's data."""
    source = SOURCES.get(preset)
    return _OWN[preset][0] if source is None else source.example


def ranked_example_of(preset: str) -> str:
    """A question and candidates like the preset's data."""
    return RANKED_SOURCES[preset].example if preset in RANKED_SOURCES else _ANSWERS


def _files(options: Mapping[str, Any], columns: str) -> dict[str, Any]:
    """A table for each split, or files of one text a line, parted by commas in the order of the columns."""
    names = columns.split(",")
    files: dict[str, Any] = {}
    for split in _SPLITS:
        parts = options[split].split(",") if options[split] else []
        if len(parts) == 1:
            files[split] = parts[0]
        elif len(parts) == len(names):
            files[split] = dict(zip(names, parts, strict=True))
        elif parts:
            raise UserError(
                f"data.{split} is {options[split]!r}: one table, or {len(names)} files of one text a line "
                f"({columns}), would be right"
            )
    if "train" not in files:
        raise UserError("data.train is '': name a file, with --data FILE or --set data.train=FILE")
    return files


def _from_tfds(source: _Source, options: Mapping[str, Any], data_dir: Path) -> tuple[PairSet, str]:
    builder = prepare(lambda: source.make(data_dir), data_dir)
    keys = dict(zip(("first_key", "second_key", "label_key", "question_key"), source.keys, strict=False))
    return _with_note(pairs_from_tfds(builder, source.splits, **keys), options, source.published_rows)


def _with_note(
    whole: PairSet, options: Mapping[str, Any], published_rows: int | None = None
) -> tuple[PairSet, str]:
    notes = []
    rows = len(whole.splits["train"])
    if published_rows is not None:
        notes.append(f"a part: {rows:,} of {published_rows:,} training rows")
    dropped = sum(whole.dropped.values())
    if dropped:
        notes.append(f"{dropped:,} rows without a label left out")
    whole, of_validation = hold_out(whole, options)
    return whole, "; ".join(notes + of_validation)
