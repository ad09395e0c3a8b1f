"""Sequences of unequal length as a padded batch and its mask."""

from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any
_IDS = np.iinfo(np.int32)


def from_ragged(sequences: Any) -> tuple[Tensor, Tensor]:
    """Pad sequences of unequal length; return the batch and its mask.

    padded[b, t] = x_b[t] and mask[b, t] = True for t < length of sequence x_b; else 0 and False

    Args:
        sequences: a list of B sequences, each of ids (L,) or vectors (L, D), such as lists, arrays
            or tensors; or, on TensorFlow also in a `tf.data` pipeline, a `tf.RaggedTensor`
            (B, None) or (B, None, D). Lengths may be 0.

    Returns:
        The batch (B, T) or (B, T, D), where T is the longest length, and the boolean mask (B, T).
        Integers in a list become int32, floats Keras' float type; ragged tensors keep their dtype.

    Raises:
        ValueError: there is no sequence, sequences differ in more than their length, or an integer
            does not fit int32.

    Example:
    >>> ids, mask = from_ragged([[5, 3, 8], [], [2]])
    >>> np.array(ids).tolist(), np.array(mask).astype(int).tolist()
    ([[5, 3, 8], [0, 0, 0], [2, 0, 0]], [[1, 1, 1], [0, 0, 0], [1, 0, 0]])
    """
    if hasattr(sequences, "row_lengths"):
        return _from_ragged_tensor(sequences)
    arrays = [_array(one) for one in sequences]
    if not arrays:
        raise ValueError("`sequences` must hold at least one sequence. Received: none")
    features = {one.shape[1:] for one in arrays if one.size or one.ndim > 1} or {()}
    if len(features) > 1 or any(one.ndim not in (1, 2) for one in arrays):
        raise ValueError(
            "`sequences` must be ids (L,) or vectors (L, D) with the same D, and differ only in L. "
            f"Received: shapes {[one.shape for one in arrays]}"
        )
    lengths = np.array([len(one) for one in arrays])
    # An empty list of ids has no dtype. NumPy's common dtype of int64 and uint64 would be a float.
    is_float = any(one.dtype.kind == "f" for one in arrays if one.size or one.ndim > 1)
    dtype = keras.config.floatx() if is_float else "int32"
    extremes = [extreme for one in arrays if one.size for extreme in (one.min(), one.max())]
    beyond = [one for one in extremes if not _IDS.min <= one <= _IDS.max]
    if dtype == "int32" and beyond:
        raise ValueError(
            f"`sequences` must hold integers from {_IDS.min} to {_IDS.max}, which become int32. "
            f"Received: {beyond[0]}"
        )
    padded = np.zeros((len(arrays), lengths.max(), *features.pop()), dtype)
    for row, one in zip(padded, arrays, strict=True):
        row[: len(one)] = one if one.size else 0
    mask = np.arange(padded.shape[1]) < lengths[:, None]
    return ops.convert_to_tensor(padded), ops.convert_to_tensor(mask)


def _array(sequence: Any) -> np.ndarray:
    try:
        array = np.asarray(ops.convert_to_numpy(sequence) if ops.is_tensor(sequence) else sequence)
    except ValueError:  # lists of unequal lengths
        array = np.empty((), object)
    if array.dtype.name == "bfloat16":  # of which NumPy does not know that it is a float
        array = array.astype("float32")
    if array.size and array.dtype.kind not in "iuf":
        raise ValueError(
            "`sequences` must hold sequences of integers or floats, ids (L,) or vectors (L, D). "
            f"Received: {sequence!r}"
        )
    return array


def _from_ragged_tensor(sequences: Any) -> tuple[Tensor, Tensor]:
    if sequences.ragged_rank != 1:
        raise ValueError(
            "`sequences` must be ragged only in their length, (B, None) or (B, None, D). "
            f"Received: shape {tuple(sequences.shape)}, ragged_rank={sequences.ragged_rank}"
        )
    padded = ops.convert_to_tensor(sequences.to_tensor())
    lengths = ops.convert_to_tensor(sequences.row_lengths())
    positions = ops.arange(ops.shape(padded)[1], dtype=lengths.dtype)
    return padded, ops.expand_dims(positions, 0) < ops.expand_dims(lengths, 1)  # (B, T)
