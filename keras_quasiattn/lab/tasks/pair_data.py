"""The data sources of `pairs` and `rank`, by preset."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    LabelledTextSet,
    PairCorpus,
    TextPairs,
    pairs_from_click_log,
    pairs_from_files,
    pairs_from_tfds,
    ranked_pairs_from_files,
)
from keras_quasiattn.lab.data.text_pairs import pairs_from_file
from keras_quasiattn.lab.tasks.batches import FILE
from keras_quasiattn.lab.tasks.held_out import hold_out
from keras_quasiattn.lab.tasks.sources import Source, own_files

PairSet = LabelledTextSet[TextPairs]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Pairs(Source):
    """Pairs of texts; `keys` name the features: both texts, label and, for ranking, question."""

    builder: str | type[tfds.core.DatasetBuilder] = PairCorpus
    keys: tuple[str, ...] = ("first", "second", "label")


_INFERENCE = "A man plays a guitar on stage.\tA man makes music."
_PARAPHRASE = "How do I learn French?\tWhat is the best way to learn French?"
_ANSWERS = (
    "how are glacier caves formed ?\tA glacier cave is a cave within the ice .\t"
    "Ice is frozen water ."
)
_REPLIES = "how do i unpack a rar file?\tinstall unrar with apt-get\twhat do you mean by root"
_NLI = ("premise", "hypothesis", "label")
_matched = {"train": "train", "validation": "validation_matched", "test": "validation_mismatched"}

SOURCES: Mapping[str, _Pairs] = {
    "snli": _Pairs(builder="snli", example=_INFERENCE, keys=_NLI),
    "snli_part": _Pairs(config="snli_part", example=_INFERENCE, published_rows=549_367),
    "multi_nli": _Pairs(builder="multi_nli", example=_INFERENCE, splits=_matched, keys=_NLI),
    "scitail": _Pairs(builder="sci_tail", example=_INFERENCE, keys=_NLI),
    "dialogue_nli": _Pairs(config="dialogue_nli", example="i like dogs .\ti have two dogs ."),
    # The published test split has no labels, so the test split here is the published validation
    # split, and validation pairs are held out from the training split.
    "quora": _Pairs(
        builder="glue/qqp",
        example=_PARAPHRASE,
        splits={"train": "train", "test": "validation"},
        keys=("question1", "question2", "label"),
    ),
    "quora_tsv": _Pairs(config="quora", example=_PARAPHRASE),
    "quora_part": _Pairs(config="quora_part", example=_PARAPHRASE, published_rows=384_290),
}
_ranked = functools.partial(_Pairs, keys=("first", "second", "label", "question_id"))
RANKED_SOURCES: Mapping[str, _Pairs] = {
    "wikiqa": _ranked(config="wikiqa", example=_ANSWERS),
    "wikiqa_original": _ranked(config="wikiqa_original", example=_ANSWERS),
    "trecqa": _ranked(config="trecqa_all", example=_ANSWERS),
    "trecqa_train": _ranked(config="trecqa", example=_ANSWERS),
    "ubuntu_irc": _ranked(config="ubuntu_irc", example=_REPLIES),
    "ubuntu": _ranked(config="ubuntu_v2", example=_REPLIES),
}
_COLUMNS, _RANKED_COLUMNS = "first,second,label", "question,candidate,label"
_OWN: Mapping[str, tuple[str, str, Callable[..., PairSet]]] = {
    "own": ("any text\tanother text", _COLUMNS, pairs_from_files),
    "click_log": (
        "weather paris\tIs it cold in Paris?",
        "query,question,ctr",
        pairs_from_click_log,
    ),
}


def load_pairs(preset: str, options: Mapping[str, Any], data_dir: Path) -> tuple[PairSet, str]:
    """Return the pairs of a preset of `pairs`, with a validation split, and a note on them.

    Args:
        preset: a name in `SOURCES`, "own" or "click_log".
        options: the task's data options.
        data_dir: folder of the TFDS data.

    Raises:
        UserError: files are missing or malformed.
    """
    if preset in SOURCES:
        return _from_tfds(SOURCES[preset], options, data_dir)
    _, columns, read = _OWN[preset]
    return _with_note(read(_files(own_files(options), columns), options["columns"]), options)


def load_ranked(preset: str, options: Mapping[str, Any], data_dir: Path) -> tuple[PairSet, str]:
    """Return the questions and candidates of a `rank` preset; see `load_pairs`."""
    if preset in RANKED_SOURCES:
        return _from_tfds(RANKED_SOURCES[preset], options, data_dir)
    files = _files(own_files(options), _RANKED_COLUMNS)
    return _with_note(ranked_pairs_from_files(files, options["columns"]), options)


def example_of(preset: str) -> str:
    """Return an example input for the preset."""
    source = SOURCES.get(preset)
    return _OWN[preset][0] if source is None else source.example


def ranked_example_of(preset: str) -> str:
    """Return an example question and candidates like the preset's data."""
    return RANKED_SOURCES[preset].example if preset in RANKED_SOURCES else _ANSWERS


def pairs_of_file(
    preset: str, given: str, classes: Sequence[str], names: Mapping[str, str] | None
) -> TextPairs:
    """Return the pairs of a file in the form of the user's training data, with these classes."""
    if preset in _OWN and _OWN[preset][2] is not pairs_from_files:
        _, columns, read = _OWN[preset]
        return read(_files({FILE: given}, columns), names).splits[FILE]
    return pairs_from_file(_files({FILE: given}, _COLUMNS)[FILE], classes, names)


def ranked_pairs_of_file(given: str, names: Mapping[str, str] | None) -> TextPairs:
    """Return the questions and candidates of one file in the form of the user's training data."""
    files = _files({FILE: given}, _RANKED_COLUMNS)
    return ranked_pairs_from_files(files, names).splits[FILE]


def _files(given_files: Mapping[str, str], columns: str) -> dict[str, Any]:
    """Return for each split one table, or one file per column with a text per line."""
    names = columns.split(",")
    files: dict[str, Any] = {}
    for split, given in given_files.items():
        parts = given.split(",")
        if len(parts) not in (1, len(names)):
            raise UserError(
                f"data.{split} is {given!r}: give one table, or {len(names)} comma-separated files "
                f"with one text per line ({columns})"
            )
        files[split] = given if len(parts) == 1 else dict(zip(names, parts, strict=True))
    return files


def _from_tfds(source: _Pairs, options: Mapping[str, Any], data_dir: Path) -> tuple[PairSet, str]:
    keys = dict(
        zip(("first_key", "second_key", "label_key", "question_key"), source.keys, strict=False)
    )
    whole = pairs_from_tfds(source.prepared(data_dir), source.splits, **keys)
    return _with_note(whole, options, source.notes(whole.splits["train"]))


def _with_note(
    whole: PairSet, options: Mapping[str, Any], notes: Sequence[str] = ()
) -> tuple[PairSet, str]:
    dropped = sum(whole.dropped.values())
    without_label = [f"{dropped:,} rows without a label left out"] if dropped else []
    whole, of_validation = hold_out(whole, options)
    return whole, "; ".join([*notes, *without_label, *of_validation])
