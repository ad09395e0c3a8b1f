"""`quasiattn tasks`: what can be trained, on one screen or in detail."""

import click

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.cli.completion import complete_model, complete_preset, complete_task
from keras_quasiattn.lab.cli.layout import TaskCommand, write_models_and_presets, write_names
from keras_quasiattn.lab.tasks.catalogue import OPTIONS, chosen_options, usual_model


@click.command(
    "tasks",
    cls=TaskCommand,
    epilog="quasiattn tasks\n"
    "quasiattn tasks classify\n"
    "quasiattn tasks classify --preset own --model bilstm_gated",
)
@click.argument("task", required=False, shell_complete=complete_task)
@click.option(
    "--preset",
    shell_complete=complete_preset,
    help="Preset whose options to list; default: the first.",
)
@click.option(
    "--model",
    shell_complete=complete_model,
    help="Model whose options to list; default: the preset's.",
)
@click.pass_context
def list_tasks(
    context: click.Context, task: str | None, preset: str | None, model: str | None
) -> None:
    """List the tasks, or the models, presets and options of TASK."""
    formatter = context.make_formatter()
    if task is not None:
        _write_one(formatter, task, preset, model)
    elif preset or model:
        raise UserError("--preset and --model need a task: quasiattn tasks TASK")
    else:
        _write_all(formatter)
    click.echo(formatter.getvalue().rstrip("\n"))


def _write_all(formatter: click.HelpFormatter) -> None:
    for name in tasks.available():
        task = tasks.describe(name)
        formatter.write_text(f"{name}: {task.summary}")
        with formatter.indentation():
            formatter.write_dl(
                [("models", ", ".join(task.models)), ("presets", ", ".join(task.presets))]
            )
    formatter.write("quasiattn tasks TASK explains them, and lists the options.\n")


def _write_one(
    formatter: click.HelpFormatter, name: str, preset: str | None, model: str | None
) -> None:
    task = tasks.describe(name)
    preset = preset or next(iter(task.presets))
    model = model or usual_model(task, preset)
    options = chosen_options(
        name, task, preset=preset, model=model, seed=0, overrides={}
    ).used_options()
    formatter.write_text(f"{name}: {task.summary}")
    write_models_and_presets(formatter, name)
    write_names(
        formatter,
        f"Options of the preset {preset} and the model {model} (--set NAME=VALUE)",
        {f"{option}={value}": OPTIONS.get(option, "") for option, value in options.items()},
    )
