"""Shell completion of the names of tasks, models, presets, options and policies."""

from collections.abc import Callable, Iterable, Mapping

import click
from click.shell_completion import CompletionItem

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks.catalogue import MODELS, OPTIONS, usual_model

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names(known: Iterable[str]) -> Complete:
    """Return a completer for some names."""
    return lambda context, parameter, begun: _beginning(begun, dict.fromkeys(known, ""))


def complete_task(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the tasks."""
    return _beginning(begun, {name: tasks.describe(name).summary for name in tasks.available()})


def complete_model(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the models of the task that was typed."""
    found = _typed_task(context)
    return _beginning(begun, {name: MODELS.get(name, "") for name in found.models} if found else {})


def complete_preset(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the presets of the task that was typed."""
    found = _typed_task(context)
    presets = found.presets if found else {}
    return _beginning(begun, {name: preset.summary for name, preset in presets.items()})


def complete_option(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the options that the task, preset and model that were typed have, as NAME=VALUE."""
    found = _typed_task(context)
    if found is None:
        return []
    preset = context.params.get("preset") or next(iter(found.presets))
    model = context.params.get("model") or usual_model(found, preset)
    if preset not in found.presets or model not in found.models:
        return []
    options = found.presets[preset].for_model(model).used_options()
    return _beginning(
        begun, {f"{name}={value}": OPTIONS.get(name, "") for name, value in options.items()}
    )


def _typed_task(context: click.Context) -> "tasks.Entry | type[tasks.Task] | None":
    try:
        # Where the option that is completed has no value yet, click has not parsed the task.
        return tasks.describe(context.params.get("task") or context.meta.get("task") or "")
    except UserError:
        return None


def _beginning(begun: str, known: Mapping[str, str]) -> list[CompletionItem]:
    return [
        CompletionItem(name, help=said or None)
        for name, said in known.items()
        if name.startswith(begun)
    ]
