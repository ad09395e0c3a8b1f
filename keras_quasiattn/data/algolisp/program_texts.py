"""Problems as texts with their programs, in memory."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.algolisp.problems import read_problems
from keras_quasiattn.data.labelled_texts import (
    LabelledTextSet,
    columns_from_tfds,
    files_version,
    text_array,
)
from keras_quasiattn.data.parallel_texts import ParallelTexts


@dataclasses.dataclass(frozen=True)
class ProgramTexts(ParallelTexts):
    """Texts and the programs that they ask for.

    Args:
        source: object (problems,), UTF-8 bytes, the texts.
        target: object (problems,), UTF-8 bytes, the programs.
        tests: object (problems,), JSON for `ProgramTests.from_json`.
    """

    tests: np.ndarray

    @property
    def split_key(self) -> np.ndarray:
        """The programs: a held-out program is held out with all its texts."""
        return self.target

    def where(self, chosen: np.ndarray) -> "ProgramTexts":
        """The problems that a boolean array selects."""
        return ProgramTexts(self.source[chosen], self.target[chosen], self.tests[chosen])


def programs_from_tfds(
    builder: tfds.core.DatasetBuilder, splits: Sequence[str]
) -> LabelledTextSet[ProgramTexts]:
    """Reads the splits of a prepared `GeneratedAlgoLisp`."""
    read = {
        split: ProgramTexts(*columns_from_tfds(builder, split, ("text", "program", "tests")))
        for split in splits
    }
    return LabelledTextSet((), read, builder.info.full_name)


def programs_from_files(files: Mapping[str, str | Path]) -> LabelledTextSet[ProgramTexts]:
    """Reads splits from files in AlgoLisp's published format; see `read_problems`.

    Args:
        files: the file of each split, by the split's name; "train" is required.

    Raises:
        UserError: a line is not a problem; the message names file and line.
    """
    read = {split: programs_from_file(file) for split, file in files.items()}
    return LabelledTextSet((), read, files_version(files.values()))


def programs_from_file(file: str | Path) -> ProgramTexts:
    """Reads one file as `programs_from_files` does.

    Raises:
        UserError: a line is not a problem; the message names file and line.
    """
    problems = list(read_problems(file))
    columns = (
        [problem.text for problem in problems],
        [problem.program for problem in problems],
        [problem.tests.to_json() for problem in problems],
    )
    return ProgramTexts(*(text_array(text.encode() for text in column) for column in columns))
