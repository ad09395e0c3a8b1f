"""The share of sequences that are right as a whole."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SequenceAccuracy(keras.metrics.Metric):
    """Share of sequences in which every target is the most likely id, given the true ids before it.

        correct(b) = all over t with y(b,t) ≠ pad_id of  argmax_v logits(b,t,v) = y(b,t)

    This is teacher forcing. For the share of exact matches it equals greedy decoding, because a
    greedy decoder sees the true past up to its first error. Compare decoded strings with
    `exact_match`.

    Positions with target `pad_id` or weight 0 do not count; the end of the sequence does. A
    sequence without any position that counts is left out of the share.

    Args:
        pad_id: target id that stands for padding.
        name: name of the metric in logs.
        dtype: dtype of the counts; the default, float32, counts 2^24 sequences exactly.

    Call arguments:
        y_true: integer ids (B, T).
        y_pred: logits or probabilities (B, T, V), of any float dtype.
        sample_weight: None; or (B, T), a mask of positions (zero leaves a position out, any other
            value keeps it); or (B,) or (B, 1), a weight for each sequence.

    Returns:
        `result()` is a scalar in [0, 1], and 0 before the first sequence.

    Raises:
        ValueError: if a rank is wrong.

    >>> metric = SequenceAccuracy()
    >>> logits = keras.ops.one_hot([[2, 1, 0], [2, 2, 0]], 3)
    >>> metric.update_state([[2, 1, 0], [2, 1, 0]], logits)
    >>> float(metric.result())
    0.5

    Source: tensor2tensor, `utils/metrics.py` (`padded_sequence_accuracy`).
    """

    def __init__(self, pad_id: int = 0, name: str = "sequence_accuracy", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.pad_id = pad_id
        self.correct = self.add_variable(shape=(), initializer="zeros", name="correct")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Counts the sequences of one batch."""
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        if len(y_true.shape) != 2 or len(y_pred.shape) != 3:
            raise ValueError(
                "y_true must have shape (B, T) and y_pred (B, T, V); "
                f"got {y_true.shape} and {y_pred.shape}"
            )
        y_true = ops.cast(y_true, "int32")
        counts = y_true != self.pad_id  # (B, T)
        weight = ops.ones_like(y_true[:, 0], dtype=self.dtype)  # (B,)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight)
            if len(sample_weight.shape) == 1 or tuple(sample_weight.shape[1:]) == (1,) != tuple(
                y_true.shape[1:]
            ):
                weight = ops.cast(ops.reshape(sample_weight, (-1,)), self.dtype)
            elif len(sample_weight.shape) == 2:
                counts = ops.logical_and(counts, ops.cast(sample_weight, "bool"))
            else:
                raise ValueError(
                    "sample_weight must have shape (B, T), (B,) or (B, 1); "
                    f"got {sample_weight.shape}"
                )
        # Not `ops.argmax`: on TensorFlow it first rewrites negative zeros, which takes six more
        # tensors of the logits' size.
        likeliest = ops.squeeze(ops.top_k(y_pred, 1)[1], -1)  # (B, T)
        right = ops.cast(likeliest, "int32") == y_true
        all_right = ops.all(ops.logical_or(right, ops.logical_not(counts)), axis=-1)  # (B,)
        weight = ops.where(ops.any(counts, axis=-1), weight, 0.0)
        self.correct.assign_add(ops.sum(ops.where(all_right, weight, 0.0)))
        self.count.assign_add(ops.sum(weight))

    def result(self) -> Any:
        """Returns the share of sequences that were right."""
        return ops.divide_no_nan(self.correct, self.count)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        return {**super().get_config(), "pad_id": self.pad_id}


def exact_match(predictions: Sequence[str | bytes], references: Sequence[str | bytes]) -> float:
    """Returns the share of decoded strings that equal their reference byte for byte.

    A `str` is compared by its UTF-8 bytes.

    Args:
        predictions: the model's answers.
        references: the right answers, in the same order.

    Raises:
        ValueError: if the two differ in number, or are empty.

    >>> exact_match(["-137", b"12"], ["-137", "13"])
    0.5
    """
    if len(predictions) != len(references) or len(references) == 0:
        raise ValueError(
            "predictions and references must have the same length, at least 1; "
            f"got {len(predictions)} and {len(references)}"
        )
    pairs = zip(predictions, references, strict=True)
    return sum(
        _as_bytes(prediction) == _as_bytes(reference) for prediction, reference in pairs
    ) / len(references)


def _as_bytes(text: str | bytes) -> bytes:
    # The command line passes bytes that are not UTF-8 as surrogates.
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
