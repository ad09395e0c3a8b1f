"""AlgoLisp: a small functional language, problems in it, and their generator."""

from keras_quasiattn.data.algolisp.generator import GeneratedAlgoLisp, GeneratedAlgoLispConfig
from keras_quasiattn.data.algolisp.language import Program, ProgramError
from keras_quasiattn.data.algolisp.problems import (
    ProgramTests,
    ProgramTexts,
    programs_from_files,
    programs_from_tfds,
    read_problems,
)

__all__ = [
    "GeneratedAlgoLisp",
    "GeneratedAlgoLispConfig",
    "Program",
    "ProgramError",
    "ProgramTests",
    "ProgramTexts",
    "programs_from_files",
    "programs_from_tfds",
    "read_problems",
]
