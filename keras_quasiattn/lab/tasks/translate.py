"""Translation of sentences from one language to another."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from keras_quasiattn.lab.data import ParallelTexts, ParallelTextSet, parallel_from_files
from keras_quasiattn.lab.tasks.batches import FILE
from keras_quasiattn.lab.tasks.catalogue import CATALOGUE
from keras_quasiattn.lab.tasks.parallel_data import OWN_EXAMPLE, SOURCES, load_parallel, sides_of
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.tasks.sequence_task import SequenceTask
from keras_quasiattn.lab.tasks.sources import Source
from keras_quasiattn.lab.tasks.translate_presets import MODELS, PRESETS
from keras_quasiattn.metrics import bleu


class Translate(SequenceTask):
    """Translation: Tables 4 and 9 of CoDA, and the recurrent models of the HW4 write-up.

    The recurrent models are in Tables 1 and 2 of the write-up. `data.source` and `data.target` are
    the two languages of the preset's corpus, in either order.

    Source: Tay et al. 2019, §3.4 and §4.2; Vaswani et al. 2017; Luong et al. 2015.
    """

    name: ClassVar[str] = "translate"
    summary: ClassVar[str] = CATALOGUE["translate"].summary
    figure: ClassVar[str] = "bleu"
    shares: ClassVar[tuple[str, ...]] = ("sequence_accuracy",)
    models: ClassVar[tuple[str, ...]] = MODELS
    presets: ClassVar[dict[str, Preset]] = PRESETS
    own_data: ClassVar[tuple[str, str] | None] = CATALOGUE["translate"].own_data
    sources: ClassVar[Mapping[str, Source]] = SOURCES

    @property
    def example(self) -> str:
        """A sentence like those in the preset's data."""
        return SOURCES[self.preset].example if self.preset in SOURCES else OWN_EXAMPLE

    def _load(self) -> tuple[ParallelTextSet, str]:
        return load_parallel(self.preset, self.options.data, self.data_dir)

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> ParallelTexts:
        return parallel_from_files({FILE: sides_of("--data", file)}).splits[FILE]

    def _figures(self, answers: Sequence[bytes], examples: Any) -> dict[str, float | str]:
        return bleu(answers, examples.target.tolist())
