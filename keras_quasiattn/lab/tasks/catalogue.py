"""Descriptions of the tasks that need no Keras, for help and completion."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, Protocol

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.preset import Preset

_OWN = ("own", "data.train")


class Described(Protocol):
    """A task, its class or its catalogue entry: anything with models and presets to choose from."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of the models."""

    @property
    def presets(self) -> Mapping[str, Preset]:
        """Named sets of options."""


def usual_model(task: Described, preset: str) -> str:
    """Return the default model: the preset's, or else the task's first."""
    usual = task.presets[preset].usual_model if preset in task.presets else ""
    return usual or task.models[0]


def chosen_options(
    name: str,
    task: Described,
    *,
    preset: str,
    model: str,
    seed: int,
    overrides: Mapping[str, Any],
) -> Preset:
    """Return the options of a task for this preset and model, with the overrides applied.

    Raises:
        UserError: as for `Task`.
    """
    if preset not in task.presets:
        raise UserError.unknown(f"preset of task {name}", preset, task.presets)
    if model not in task.models:
        raise UserError.unknown(f"model of task {name}", model, task.models)
    if not 0 <= seed < 2**32:
        raise UserError(f"seed is {seed}: it must be at least 0 and below 2**32")
    usual = task.presets[preset].for_model(model)
    vectors = overrides.get("data.vectors")
    if vectors and not usual.takes_vectors:
        able = [one for one in task.models if task.presets[preset].for_model(one).takes_vectors]
        raise UserError(
            f"data.vectors is {str(vectors)!r}: the model {model!r} of task {name} cannot start "
            f"with word vectors; models that can: {', '.join(able) or 'none'}"
        )
    return usual.with_overrides(overrides)


@dataclasses.dataclass(frozen=True)
class Entry:
    """The description of a task that is available without importing its class, which takes seconds.

    The class reads it from here; `Task` documents the attributes of the same names.

    Args:
        home: location of the class, as "module:class".
        presets_module: the module with the task's `PRESETS` and `MODELS`.
        summary: one line on the input and the answer.
        own_data: the preset for a user's own files, and its option that names the training file;
            None for a task that generates its data.
    """

    home: str
    presets_module: str
    summary: str
    own_data: tuple[str, str] | None = _OWN

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of the models; the first is the command line's default."""
        return self._module.MODELS

    @property
    def presets(self) -> Mapping[str, Preset]:
        """Named sets of options; the first is the command line's default."""
        return self._module.PRESETS

    @property
    def _module(self) -> Any:
        return importlib.import_module(f"keras_quasiattn.lab.tasks.{self.presets_module}")


CATALOGUE: Mapping[str, Entry] = {
    "classify": Entry(
        "keras_quasiattn.lab.tasks.classify:Classify",
        "classify_presets",
        "texts to classes: questions, reviews, news, or your own file",
    ),
    "mlu": Entry(
        "keras_quasiattn.lab.tasks.mlu:Mlu",
        "mlu_presets",
        "arithmetic in characters: two variables and an operation in, a number out",
        own_data=None,
    ),
    "pairs": Entry(
        "keras_quasiattn.lab.tasks.pairs:Pairs",
        "pair_presets",
        "two texts to a class: inference, paraphrase, or your own file",
    ),
    "programs": Entry(
        "keras_quasiattn.lab.tasks.programs:Programs",
        "program_presets",
        "a text to the AlgoLisp program that it asks for, which is run on tests",
    ),
    "rank": Entry(
        "keras_quasiattn.lab.tasks.rank:Rank",
        "rank_presets",
        "a question and its candidates to their order: answers, replies, or your own file",
    ),
    "read": Entry(
        "keras_quasiattn.lab.tasks.read:Read",
        "read_presets",
        "a question and passages to the answer in them: SQuAD, Quasar-T, SearchQA, own files",
    ),
    "translate": Entry(
        "keras_quasiattn.lab.tasks.translate:Translate",
        "translate_presets",
        "a sentence to its translation: published corpora, or two files of your own",
    ),
}
