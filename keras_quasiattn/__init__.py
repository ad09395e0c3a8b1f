"""Quasi-attention layers for Keras: weights that add, subtract, delete, gate or repel.

`keras_quasiattn.ops` and `keras_quasiattn.layers` need only Keras. `models`, `tasks` and `report`
are imported on first use, because `tasks` brings in TensorFlow Text and TensorFlow Datasets.
"""

import importlib
from types import ModuleType

from keras_quasiattn import layers, ops
from keras_quasiattn._version import __version__

__all__ = ["__version__", "layers", "models", "ops", "report", "tasks"]


def __getattr__(name: str) -> ModuleType:
    if name in ("models", "report", "tasks"):
        return importlib.import_module(f"keras_quasiattn.{name}")
    raise AttributeError(f"module 'keras_quasiattn' has no attribute {name!r}")
