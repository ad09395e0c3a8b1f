"""The command line, `quasiattn`."""

from keras_quasiattn.lab.cli.entry import main

__all__ = ["main"]
