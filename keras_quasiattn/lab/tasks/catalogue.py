"""The tasks with their models, presets and options, and a sentence of help on each of them.

`help.ini` has the sentences on models, and on the options of data and models. Nothing here imports
Keras, so help, completion and errors are fast.
"""

import configparser
import dataclasses
import inspect
import re
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import classify_presets, pair_presets, read_presets, sequence_presets
from keras_quasiattn.lab.tasks.preset import Preset, TrainingSettings

if TYPE_CHECKING:
    from keras_quasiattn.lab.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Entry:
    """The description of a task that is available without importing its class, which takes seconds.

    `location` is the class, as "module:class"; `shows_tokens` says whether `predict` answers with
    the tokens of the one text. `Task` documents the other attributes.
    """

    location: str
    summary: str
    models: tuple[str, ...]
    presets: Mapping[str, Preset]
    own_data: tuple[str, str] | None = ("own", "data.train")
    own_files: str = "--data FILE"
    shows_tokens: bool = False


CATALOGUE: Mapping[str, Entry] = {
    "classify": Entry(
        "keras_quasiattn.lab.tasks.classify:Classify",
        "texts to classes: questions, reviews, news, or your own file",
        classify_presets.MODELS,
        classify_presets.PRESETS,
        shows_tokens=True,
    ),
    "mlu": Entry(
        "keras_quasiattn.lab.tasks.mlu:Mlu",
        "arithmetic in characters: two variables and an operation in, a number out",
        sequence_presets.MLU_MODELS,
        sequence_presets.MLU_PRESETS,
        own_data=None,
    ),
    "pairs": Entry(
        "keras_quasiattn.lab.tasks.pairs:Pairs",
        "two texts to a class: inference, paraphrase, or your own file",
        pair_presets.MODELS,
        pair_presets.PRESETS,
    ),
    "programs": Entry(
        "keras_quasiattn.lab.tasks.sequence_task:Programs",
        "a text to the AlgoLisp program that it asks for, which is run on tests",
        sequence_presets.PROGRAM_MODELS,
        sequence_presets.PROGRAM_PRESETS,
    ),
    "rank": Entry(
        "keras_quasiattn.lab.tasks.pairs:Rank",
        "a question and its candidates to their order: answers, replies, or your own file",
        pair_presets.RANK_MODELS,
        pair_presets.RANK_PRESETS,
    ),
    "read": Entry(
        "keras_quasiattn.lab.tasks.read:Read",
        "a question and passages to the answer in them: SQuAD, Quasar-T, SearchQA, own files",
        read_presets.MODELS,
        read_presets.PRESETS,
    ),
    "translate": Entry(
        "keras_quasiattn.lab.tasks.sequence_task:Translate",
        "a sentence to its translation: published corpora, or two files of your own",
        sequence_presets.MODELS,
        sequence_presets.PRESETS,
        own_files="--source FILE --target FILE",
    ),
}


def usual_model(task: "Entry | type[Task] | Task", preset: str) -> str:
    """Return the default model: the preset's, or else the task's first."""
    usual = task.presets[preset].usual_model if preset in task.presets else ""
    return usual or task.models[0]


def chosen_options(
    name: str,
    task: "Entry | type[Task] | Task",
    *,
    preset: str,
    model: str,
    seed: int,
    overrides: Mapping[str, Any],
) -> Preset:
    """Return the options of a task for this preset and model, with the overrides applied."""
    UserError.check(f"preset of task {name}", preset, task.presets)
    UserError.check(f"model of task {name}", model, task.models)
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


def _documented(text: str) -> dict[str, str]:
    """Return the arguments in a docstring, each with its text up to the first period."""
    section = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
    joined = re.sub(r"\n {8,}", " ", section)
    entries = re.findall(r"^ +(\w+): (.*?)\.?$", joined, re.MULTILINE)
    return {name: said.partition(". ")[0] for name, said in entries}


_HELP = configparser.ConfigParser(interpolation=None, delimiters="=")
_HELP.read_string(resources.files(__package__).joinpath("help.ini").read_text("utf-8"))
MODELS: Mapping[str, str] = dict(_HELP["models"])
OPTIONS: Mapping[str, str] = {
    f"{section}.{name}": said
    for section, entries in (
        ("data", _HELP["data"]),
        ("model", _HELP["model"]),
        ("training", _documented(inspect.getdoc(TrainingSettings) or "")),
    )
    for name, said in entries.items()
}
