"""Keras metrics, and what attention costs."""

from keras_quasiattn.metrics.attention_flops import attention_flops, auxiliary_flops
from keras_quasiattn.metrics.program_accuracy import program_accuracy
from keras_quasiattn.metrics.sequence_accuracy import SequenceAccuracy, exact_match

__all__ = ["SequenceAccuracy", "attention_flops", "auxiliary_flops", "exact_match", "program_accuracy"]
