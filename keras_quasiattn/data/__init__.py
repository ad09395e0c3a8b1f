"""TFDS builders and tf.data pipelines."""

from keras_quasiattn.data.arithmetic import ArithmeticGrammar, Expression
from keras_quasiattn.data.mlu import SPLITS, ArithmeticMlu, ArithmeticMluConfig, split_of
from keras_quasiattn.data.pipeline import (
    evaluation_batches,
    prepare,
    sequence_pair_encoder,
    split_reader,
    training_batches,
)

__all__ = [
    "SPLITS",
    "ArithmeticGrammar",
    "ArithmeticMlu",
    "ArithmeticMluConfig",
    "Expression",
    "evaluation_batches",
    "prepare",
    "sequence_pair_encoder",
    "split_of",
    "split_reader",
    "training_batches",
]
