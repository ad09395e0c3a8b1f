"""The command line, `quasiattn`."""

from keras_quasiattn.cli.commands import main

__all__ = ["main"]
