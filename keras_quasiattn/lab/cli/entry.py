"""The entry point of the command line: an error becomes one line and an exit code."""

import contextlib
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import click

from keras_quasiattn.errors import DataWarning, UserError
from keras_quasiattn.lab.cli import run_commands  # noqa: F401 (adds its commands)
from keras_quasiattn.lab.cli.commands import cli

_PATIENCE = 3.0  # seconds for the main thread to clean up
_STOPPED = (
    "quasiattn: stopped; if you repeat the command, training continues from its last checkpoint; "
    "`quasiattn finish RUN` makes a model of the best one"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; an error becomes one line and a nonzero exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # TFDS warns about every config without a fixed name, TensorFlow about several shapes of inputs.
    for name in ("absl", "tensorflow"):
        logging.getLogger(name).setLevel(logging.ERROR)
    show = warnings.showwarning

    def shown(message: Any, category: type[Warning], *place: Any, **options: Any) -> None:
        """Print warnings about the user's data as one line without the place in the code."""
        if issubclass(category, DataWarning):
            click.echo(f"quasiattn: warning: {' '.join(str(message).splitlines())}", err=True)
        else:
            show(message, category, *place, **options)

    with interruptible(_STOPPED), warnings.catch_warnings():
        warnings.showwarning = shown
        code = _run(arguments)
    sys.exit(code)


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


@contextlib.contextmanager
def interruptible(last_words: str) -> Iterator[None]:
    """Make Control-C in the `with` block end the process with one line on standard error.

    TensorFlow may lose or delay the KeyboardInterrupt, and the interrupted code may write to
    standard error, which is therefore silenced. Another thread ends the process once the main
    thread has cleaned up, or after three seconds. Files are written atomically, so nothing is lost.
    """
    over = threading.Event()
    hearing, telling = os.pipe()
    os.set_blocking(telling, False)
    standard_error = os.dup(2)

    def stop(number: int, frame: FrameType | None) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        raise KeyboardInterrupt

    def end_at_control_c() -> None:
        while (byte := os.read(hearing, 1)) and byte[0] != signal.SIGINT:
            pass
        if byte:
            over.wait(_PATIENCE)
            os.write(standard_error, f"{last_words}\n".encode())
            os._exit(130)

    watcher = threading.Thread(target=end_at_control_c, daemon=True)
    watcher.start()
    # The number of a signal is written to this pipe at once. Python's own handler runs in the main
    # thread, after the operation that it is in.
    former_pipe = signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    former = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGINT, former)
        signal.set_wakeup_fd(former_pipe)
        os.close(telling)
        watcher.join()
        os.close(hearing)
        os.close(standard_error)
