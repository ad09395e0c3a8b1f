"""The `quasiattn` command, or `python -m quasiattn`, without TensorFlow's startup messages.

TensorFlow writes messages to file descriptor 2 while it loads, before it reads any of its own
settings. Importing any part of `keras_quasiattn` imports Keras and thereby TensorFlow, so this
module stands outside the package.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def _silent_unless_it_fails() -> Iterator[None]:
    """Hold back standard error, including C++ output, and write it out if the body raises."""
    sys.stderr.flush()
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        except Exception:
            held_back.seek(0)
            os.write(standard_error, held_back.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(standard_error, 2)
            os.close(standard_error)


def main() -> None:
    """Run the command line with the arguments of this process."""
    # Level 3 hides C++ error messages. Real errors reach Python as exceptions; the messages hidden
    # here are about machines without a GPU.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        sys.exit(
            f"quasiattn: KERAS_BACKEND is {backend!r}: the commands run on TensorFlow only; "
            "unset it or set it to 'tensorflow'"
        )
    missing = None
    try:
        with _silent_unless_it_fails():
            try:
                from keras_quasiattn import cli
            except ModuleNotFoundError as error:
                missing = str(error.name)
                if missing.startswith("keras_quasiattn"):
                    raise
    except KeyboardInterrupt:
        sys.exit(130)
    if missing:
        sys.exit(f"quasiattn: {missing} is not installed: pip install 'keras-quasiattn[tasks]'")
    cli.main()


if __name__ == "__main__":
    main()
