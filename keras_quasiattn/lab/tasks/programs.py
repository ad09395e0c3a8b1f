"""Text to code: from a description in words to the AlgoLisp program that it asks for."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    GeneratedAlgoLisp,
    GeneratedAlgoLispConfig,
    LabelledTextSet,
    ProgramTests,
    ProgramTexts,
    prepare,
    programs_from_files,
    programs_from_tfds,
)
from keras_quasiattn.lab.data.algolisp.problems import programs_from_file
from keras_quasiattn.lab.tasks.catalogue import CATALOGUE
from keras_quasiattn.lab.tasks.held_out import SPLITS, hold_out
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.tasks.program_presets import MODELS, PRESETS
from keras_quasiattn.lab.tasks.sequence_task import SequenceTask
from keras_quasiattn.lab.tasks.sources import own_files
from keras_quasiattn.metrics import program_accuracy


class Programs(SequenceTask):
    """Text to code, Table 7 of CoDA.

    The metrics are the share of answers that equal the reference (`sequence_accuracy`, the paper's
    metric) and the share that pass the problem's ten tests (`program_accuracy`, Polosukhin and
    Skidanov's). A program fails if it is malformed, raises an error, or exceeds the interpreter's
    step limit.

    Source: Tay et al. 2019, §3.5; Polosukhin and Skidanov 2018, "Neural Program Search".
    """

    name: ClassVar[str] = "programs"
    summary: ClassVar[str] = CATALOGUE["programs"].summary
    figure: ClassVar[str] = "sequence_accuracy"
    shares: ClassVar[tuple[str, ...]] = ("sequence_accuracy", "program_accuracy")
    models: ClassVar[tuple[str, ...]] = MODELS
    presets: ClassVar[dict[str, Preset]] = PRESETS
    own_data: ClassVar[tuple[str, str] | None] = CATALOGUE["programs"].own_data

    @property
    def example(self) -> str:
        """A text in the style of the problems."""
        return "given an array of numbers a , find the largest value in a"

    def _load(self) -> tuple[LabelledTextSet[ProgramTexts], str]:
        data = self.options.data
        if "train" in data:
            return _from_files(data)
        builder = prepare(self._builder, self.data_dir)
        return programs_from_tfds(builder, SPLITS), "problems by rule, not the published ones"

    def _builder(self) -> GeneratedAlgoLisp:
        data = self.options.data
        try:
            config = GeneratedAlgoLispConfig(
                seed=data["problem_seed"], **{split: data[f"{split}_problems"] for split in SPLITS}
            )
        except ValueError as error:
            raise UserError(f"the data options do not suit task {self.name}: {error}") from None
        return GeneratedAlgoLisp(config=config, data_dir=self.data_dir)

    def missing_data(self) -> str:
        """Return whether the problems would have to be generated."""
        if "train" in self.options.data or self._builder().is_prepared():
            return ""
        return f"{self.data_dir} does not have the problems of this run"

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> ProgramTexts:
        return programs_from_file(file)

    def _figures(self, answers: Sequence[bytes], examples: Any) -> dict[str, float | str]:
        tests = [ProgramTests.from_json(test) for test in examples.tests]
        return {"program_accuracy": program_accuracy(answers, tests)}


def _from_files(options: Mapping[str, Any]) -> tuple[LabelledTextSet[ProgramTexts], str]:
    whole, notes = hold_out(programs_from_files(own_files(options)), options)
    return whole, "; ".join(notes)
