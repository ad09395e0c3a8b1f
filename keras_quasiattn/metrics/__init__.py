"""Keras metrics."""

from keras_quasiattn.metrics.sequence_accuracy import SequenceAccuracy, exact_match

__all__ = ["SequenceAccuracy", "exact_match"]
