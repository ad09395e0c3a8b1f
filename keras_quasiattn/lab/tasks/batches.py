"""The examples of a split, texts as arrays of bytes, and functions of strings called in batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError

_BATCH = 100
_STEP = 4  # tokens; with 8, pairs of SNLI and Quora have about as much padding


FILE = "file"  # the split that `Task.use_file` makes


def weights_of(examples: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
    """Return a list of the `weight` of a batch's examples, for `fit`; empty in training."""
    return [examples["weight"]] if "weight" in examples else []


def as_bytes(texts: Sequence[str]) -> np.ndarray:
    """Return texts as an object array of bytes; bytes that are not UTF-8 arrive as surrogates.

    Raises:
        UserError: a text has another unpaired surrogate.
    """
    array = np.empty(len(texts), object)
    try:
        array[:] = [text.encode("utf-8", "surrogateescape") for text in texts]
    except UnicodeEncodeError as error:
        around = error.object[max(error.start - 20, 0) : error.end + 20]
        raise UserError(
            f"a text has an unpaired surrogate, in {around!r}: expected valid Unicode"
        ) from None
    return array


def as_texts(texts: Iterable[bytes]) -> list[str]:
    """Return the inverse of `as_bytes`; tabs and line breaks become spaces."""
    decoded = (text.decode("utf-8", "surrogateescape") for text in texts)
    return [text.replace("\t", " ").replace("\n", " ") for text in decoded]


def joined(*columns: np.ndarray) -> list[str]:
    """Return the texts of each row of some columns (N,), joined by tabs."""
    return list(map("\t".join, zip(*map(as_texts, columns), strict=True)))


def counted(count: Callable[[tf.Tensor], tf.Tensor], texts: np.ndarray) -> np.ndarray:
    """Apply `count` to texts (N,), at most 1000 at a time, and return the integers, (N,)."""
    batches = (texts[start : start + 1000] for start in range(0, max(len(texts), 1), 1000))
    return np.concatenate([count(tf.constant(batch.tolist(), tf.string)) for batch in batches])


def length_key(lengths: Sequence[np.ndarray]) -> np.ndarray:
    """Return an integer (N,) for each row: rows that it sorts together need little padding.

    `lengths` are the token counts (N,) of each sequence that is padded by itself, one or two. Of
    two, the second is compared in steps of 4 tokens, and within a step the first: by the sum, a
    short question with a long answer would share a batch with a long question and a short answer.
    """
    *first, last = (np.asarray(counts, np.int64) for counts in lengths)
    return last // _STEP * (first[0].max(initial=0) + 1) + first[0] if first else last


def in_batches(
    answer: Callable[..., Mapping[str, tf.Tensor]],
    columns: Sequence[np.ndarray],
    lengths: Sequence[np.ndarray],
    together: int = _BATCH,
) -> list[dict[str, np.ndarray]]:
    """Return the answers of a function of string tensors (B,), one per column, row by row.

    Rows of similar lengths share a batch; `lengths` are one or two arrays as in `length_key`.
    """
    count = len(columns[0])
    order = np.argsort(length_key(lengths), kind="stable") if count > together else range(count)
    answers: list[dict[str, np.ndarray]] = [{}] * count
    for start in range(0, count, together):
        rows = order[start : start + together]
        outputs = answer(*(tf.constant(column[rows].tolist(), tf.string) for column in columns))
        values = {name: value.numpy() for name, value in outputs.items()}
        for place, row in enumerate(rows):
            answers[row] = {name: value[place] for name, value in values.items()}
    return answers


def unpadded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer as plain values; its tokens, weights and gates end with the text."""
    tokens = row.get("tokens")
    length = int(np.sum(tokens != b"")) if isinstance(tokens, np.ndarray) else None
    return {
        name: plain(value[:length] if name in ("tokens", "weights", "gates") else value)
        for name, value in row.items()
    }


def plain(value: Any) -> Any:
    """Return an answer's value as a number, a string, or lists of them."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(one) for one in value]
    return value.tolist()
