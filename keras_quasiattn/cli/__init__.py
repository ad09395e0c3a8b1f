"""The command line, `quasiattn`."""

from keras_quasiattn.cli.entry import main

__all__ = ["main"]
