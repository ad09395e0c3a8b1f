"""The layout of help: examples keep their lines, and a task names its models and presets."""

import click

from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks.catalogue import MODELS


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
