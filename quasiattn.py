"""The `quasiattn` command, or `python -m quasiattn`, which starts without Keras.

Importing any part of `keras_quasiattn` runs the package's `__init__`, which imports Keras and
TensorFlow and takes seconds. Help, completion and wrong arguments need neither, so this module
stands outside the package and asks it to leave them out. `cli.loading` imports them, once a command
has something to compute.
"""

import os
import sys


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
    if "keras_quasiattn" not in sys.modules:
        os.environ["QUASIATTN_WITHOUT_KERAS"] = "yes"
    try:
        from keras_quasiattn.lab import cli
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if missing.startswith("keras_quasiattn"):
            raise
        sys.exit(f"quasiattn: {missing} is not installed: pip install 'keras-quasiattn[tasks]'")
    except KeyboardInterrupt:
        print("quasiattn: stopped", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
