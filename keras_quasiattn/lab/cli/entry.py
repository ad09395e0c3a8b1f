"""The entry point of the command line: an error becomes one line and an exit code."""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import click

from keras_quasiattn.errors import DataWarning, UserError
from keras_quasiattn.lab.cli import compare, run_commands  # noqa: F401 (add their commands)
from keras_quasiattn.lab.cli.commands import cli
from keras_quasiattn.lab.cli.interruption import interruptible

_STOPPED = (
    "quasiattn: stopped; a training continues from its last checkpoint when started again, "
    "and `quasiattn finish RUN` makes a model of what there is"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; an error becomes one line and a nonzero exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # TFDS warns about every config without a fixed name.
    logging.getLogger("absl").setLevel(logging.ERROR)
    with interruptible(_STOPPED), warnings.catch_warnings():
        warnings.showwarning = _line_for_data(warnings.showwarning)
        code = _run(arguments)
    sys.exit(code)


def _line_for_data(show: Callable[..., None]) -> Callable[..., None]:
    """Print warnings about the user's data as one line without the place in the code."""

    def shown(message: Any, category: type[Warning], *place: Any, **options: Any) -> None:
        if issubclass(category, DataWarning):
            click.echo(f"quasiattn: warning: {' '.join(str(message).splitlines())}", err=True)
        else:
            show(message, category, *place, **options)

    return shown


def _run(arguments: list[str]) -> int:
    options: dict[str, Any] = {"prog_name": "quasiattn", "obj": arguments, "standalone_mode": False}
    try:
        result = cli.main(list(arguments), **options)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except UserError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error.filename or 'system'}: {error.strerror or error}", 1)
    except Exception as error:
        # Damaged or missing data files, or too little memory.
        names = ("DataLossError", "NotFoundError", "ResourceExhaustedError")
        errors = getattr(sys.modules.get("tensorflow"), "errors", None)
        if errors is None or not isinstance(error, tuple(getattr(errors, name) for name in names)):
            raise
        return _fail(f"TensorFlow stopped: {error.message}", 1)  # type: ignore[attr-defined]


def _fail(message: str, code: int) -> int:
    click.echo(f"quasiattn: {' '.join(message.splitlines())}", err=True)
    return code
