"""Shell completion of the names of tasks, models, presets, options and policies."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks.catalogue import MODELS, OPTIONS, usual_model

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completing(known: Callable[[click.Context], Mapping[str, str]]) -> Complete:
    """Return a completer for the names, with a sentence each, that are known in a context."""
    return lambda context, parameter, begun: [
        CompletionItem(name, help=said or None)
        for name, said in known(context).items()
        if name.startswith(begun)
    ]


def names(known: Iterable[str]) -> Complete:
    """Return a completer for some names."""
    return _completing(lambda context: dict.fromkeys(known, ""))


def _typed_task(context: click.Context) -> Any:
    try:
        # Where the option that is completed has no value yet, click has not parsed the task.
        return tasks.describe(context.params.get("task") or context.meta.get("task") or "")
    except UserError:
        return tasks.Entry("", "", (), {})


def _options(context: click.Context) -> dict[str, str]:
    """Return the options of the task, preset and model that were typed, as NAME=VALUE."""
    found = _typed_task(context)
    preset = context.params.get("preset") or next(iter(found.presets), "")
    if preset not in found.presets:
        return {}
    model = context.params.get("model") or usual_model(found, preset)
    if model not in found.models:
        return {}
    options = found.presets[preset].for_model(model).used_options()
    return {f"{name}={value}": OPTIONS.get(name, "") for name, value in options.items()}


complete_task = _completing(
    lambda context: {name: tasks.describe(name).summary for name in tasks.available()}
)
complete_model = _completing(
    lambda context: {name: MODELS.get(name, "") for name in _typed_task(context).models}
)
complete_preset = _completing(
    lambda context: {name: one.summary for name, one in _typed_task(context).presets.items()}
)
complete_option = _completing(_options)
