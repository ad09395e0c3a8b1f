"""The layout of help: examples keep their lines, and a task names its models and presets."""

import click

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.cli.arguments import complete_model, complete_preset, complete_task
from keras_quasiattn.lab.tasks.catalogue import MODELS, OPTIONS, chosen_options, usual_model


class Command(click.Command):
    """A command whose `--help` ends with its epilog as examples, with the line breaks kept."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for line in (self.epilog or "").splitlines():
                formatter.write(f"  {line}\n")


class TaskCommand(Command):
    """A command whose `TASK --help` also names the models and presets of that task."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the task: `--help` is answered before the arguments are parsed."""
        ctx.meta["task"] = next((one for one in args if one in tasks.available()), None)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the task's models and presets."""
        super().format_options(ctx, formatter)
        if ctx.meta.get("task"):
            write_models_and_presets(formatter, ctx.meta["task"], f" of {ctx.meta['task']}")


class Group(Command, click.Group):
    """A group whose commands, and whose own help, have examples."""

    command_class = Command


def write_names(formatter: click.HelpFormatter, title: str, names: dict[str, str]) -> None:
    """Write a section of names with a sentence each."""
    with formatter.section(title):
        formatter.write_dl(list(names.items()))


def write_models_and_presets(formatter: click.HelpFormatter, name: str, whose: str = "") -> None:
    """Write two sections on a task; `whose` ends their titles."""
    task = tasks.describe(name)
    write_names(formatter, f"Models{whose}", {one: MODELS.get(one, "") for one in task.models})
    presets = {one: preset.summary for one, preset in task.presets.items()}
    write_names(formatter, f"Presets{whose}", presets)


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
