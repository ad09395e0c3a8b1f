"""TFDS builders and tf.data pipelines."""

from keras_quasiattn.data.ag_news_part import AgNewsPart
from keras_quasiattn.data.algolisp.builder import GeneratedAlgoLisp, GeneratedAlgoLispConfig
from keras_quasiattn.data.algolisp.interpreter import Program
from keras_quasiattn.data.algolisp.problems import ProgramTests, read_problems
from keras_quasiattn.data.algolisp.trees import ProgramError
from keras_quasiattn.data.arithmetic import ArithmeticGrammar, Expression
from keras_quasiattn.data.labelled_texts import (
    LabelledTexts,
    LabelledTextSet,
    texts_from_files,
    texts_from_tfds,
)
from keras_quasiattn.data.mlu import SPLITS, ArithmeticMlu, ArithmeticMluConfig, split_of
from keras_quasiattn.data.pipeline import (
    evaluation_batches,
    prepare,
    sequence_pair_encoder,
    split_reader,
    training_batches,
)
from keras_quasiattn.data.stanford_sentiment import StanfordSentiment
from keras_quasiattn.data.table_files import read_table

__all__ = [
    "SPLITS",
    "AgNewsPart",
    "ArithmeticGrammar",
    "ArithmeticMlu",
    "ArithmeticMluConfig",
    "Expression",
    "GeneratedAlgoLisp",
    "GeneratedAlgoLispConfig",
    "LabelledTextSet",
    "LabelledTexts",
    "Program",
    "ProgramError",
    "ProgramTests",
    "StanfordSentiment",
    "evaluation_batches",
    "prepare",
    "read_problems",
    "read_table",
    "sequence_pair_encoder",
    "split_of",
    "split_reader",
    "texts_from_files",
    "texts_from_tfds",
    "training_batches",
]
