"""Summarize the user's own data before training: counts, and probable mistakes."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_quasiattn.lab.data import LabelledTextSet

_USES = {"train": "to train on", "validation": "for validation", "test": "to test"}
_LISTED = 12  # classes
_FEW = 5  # mean number of rows per class below which labels are probably not classes
_MOST = 0.9  # share of one class above which a model may ignore the others
_LOOKED_AT = 20_000  # texts per column whose tokens are counted, to take only seconds
_LONG, _TIMES_MEDIAN = 1000, 20  # above this, a text is probably several rows
_SHOWN = 40  # characters

Count = Callable[[np.ndarray], np.ndarray]
Key = tuple[bytes, ...]


def summarize(
    data: LabelledTextSet[Any], note: str, count: Count, limits: Mapping[str, tuple[str, int]]
) -> list[str]:
    """Describe rows, classes and lengths in lines, and warn about every probable mistake.

    `note` tells how the splits were made. `limits` has the option, and its value, that limits the
    tokens of a column.
    """
    splits = {name: data.splits[name] for name in _USES if name in data.splits}
    train, warnings = splits["train"], list[str]()
    keys: dict[str, list[Key]] = {}  # ignoring differences in spaces
    for name, examples in splits.items():
        columns = [[b" ".join(text.split()) for text in one] for one in examples.columns.values()]
        keys[name] = list(zip(*columns, strict=True))
    rows = ", ".join(f"{len(one):,} {_USES[name]}" for name, one in splits.items())
    lines = [f"data: {rows}{f' ({note})' if note else ''}"]
    if (labels := getattr(train, "labels", None)) is not None:
        counts = np.bincount(labels, minlength=max(len(data.classes), 2))
        given = data.classes or map(str, range(len(counts)))
        names = [" ".join(name.splitlines()) for name in given]
        order, more = np.argsort(-counts, kind="stable"), len(counts) - _LISTED
        listed = ", ".join(f"{names[number]} ({counts[number]:,})" for number in order[:_LISTED])
        and_more = f" and {more:,} more" if more > 0 else ""
        lines.append(f"{len(counts):,} classes: {listed}{and_more}")
        if getattr(train, "groups", None) is None:  # most candidates of a question are wrong
            warnings += _doubts_on_classes(counts)
        warnings += _contradictions(keys["train"], labels, names)
    for name, texts in train.columns.items():
        line, doubts = _lengths(name, texts, count, limits.get(name))
        lines.append(line)
        warnings += doubts
    for name, rows_there in keys.items():
        if empty := sum(not all(key) for key in rows_there):
            warnings.append(f"{empty:,} of {len(rows_there):,} {name} rows have an empty text")
    for name, later in itertools.combinations(keys, 2):
        known = set(keys[name])
        if both := sum(key in known for key in keys[later]):
            warnings.append(
                f"{both:,} of {len(keys[later]):,} {later} rows are {name} rows, too: figures "
                f"on {later} are better than on new texts"
            )
    return [*lines[:1], *(f"  {line}" for line in lines[1:]), *(f"warning: {w}" for w in warnings)]


def _doubts_on_classes(counts: np.ndarray) -> Iterator[str]:
    rows, single = counts.sum(), int(np.sum(counts == 1))
    if rows < _FEW * len(counts):
        yield (
            f"{len(counts):,} classes in {rows:,} rows, {single:,} of them with a single row, are "
            "too many to learn: is it the column of the labels?"
        )
    elif single:
        yield f"{single:,} of {len(counts):,} classes have a single row to learn from"
    if counts.max() >= _MOST * rows:
        yield (
            f"{counts.max() / rows:.1%} of the rows are of one class: training.select=macro_f1 and "
            "training.class_weights=balanced make the others count"
        )


def _contradictions(keys: Sequence[Key], labels: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    first: dict[Key, int] = {}
    other: dict[Key, int] = {}
    for key, label in zip(keys, labels.tolist(), strict=True):
        if first.setdefault(key, label) != label:
            other[key] = label
    if other:
        key, label = next(iter(other.items()))
        both = f"{names[first[key]]} and {names[label]}"
        rows = sum(key in other for key in keys)
        yield f"{rows:,} training rows have a text with two labels, such as {_shown(key)}: {both}"


def _lengths(
    name: str, texts: np.ndarray, count: Count, limit: tuple[str, int] | None
) -> tuple[str, list[str]]:
    """Return the line on the lengths of a column, and warnings."""
    longest = max(range(len(texts)), key=lambda row: len(texts[row]))
    chosen = texts[:: -(-len(texts) // _LOOKED_AT)]
    lengths = count(chosen)
    most = max(int(lengths.max()), int(count(texts[longest : longest + 1])[0]))
    median = int(np.median(lengths))
    line = f"{name}: {median:,} tokens in the median, {most:,} at most"
    if limit is not None and most > limit[1]:
        part = f" of {len(chosen):,} looked at" if len(chosen) < len(texts) else ""
        cut = max(int(np.sum(lengths > limit[1])), 1)
        line += f"; cut after {limit[1]:,} ({limit[0]}): {cut:,} ({cut / len(chosen):.1%}){part}"
    doubts = []
    if most > max(_LONG, _TIMES_MEDIAN * median):
        doubts.append(
            f"the longest {name} has {most:,} tokens, and the median is {median:,}: if it is "
            f"several rows, a quote is missing in {_shown((texts[longest],))}"
        )
    return line, doubts


def _shown(key: Key) -> str:
    text = "\t".join(part.decode("utf-8", "replace") for part in key)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
