"""Quasi-attention layers for Keras: weights that add, subtract, delete, gate or repel.

`keras_quasiattn.attention`, `layers`, `ops`, `models` and `metrics` need only Keras and one of its
backends. All are imported here, so Keras finds every class that a saved model may name. The command
`quasiattn` alone imports the package without them first, and reloads it once it has something to
compute. The other packages are imported on first use, because they need extras.
"""

import os
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from keras_quasiattn._version import __version__
from keras_quasiattn.extras import require

if not os.environ.pop("QUASIATTN_WITHOUT_KERAS", None):
    try:
        from keras_quasiattn import attention, layers, metrics, models, ops
    except ModuleNotFoundError as error:
        backend = str(error.name).partition(".")[0]
        if backend not in ("tensorflow", "jax", "torch"):
            raise
        raise ModuleNotFoundError(
            f"Keras runs on {backend} here, which is not installed: pip install "
            f"'keras-quasiattn[{backend}]', or set the environment variable KERAS_BACKEND to "
            "tensorflow, jax or torch, whichever is installed",
            name=backend,
        ) from error

# The extra that each package needs.
_EXTRAS = {"report": "report", "serving": "tasks", "tuning": "tuning"}

__all__ = [
    "__version__",
    "attention",
    "compare",
    "lab",
    "layers",
    "metrics",
    "models",
    "ops",
    "report",
    "serving",
    "tuning",
]


def __getattr__(name: str) -> Any:
    if name == "compare":
        return require("keras_quasiattn.lab.comparison", "tensorflow").compare
    if name == "lab":
        return import_module("keras_quasiattn.lab")
    if name in _EXTRAS:
        return require(f"keras_quasiattn.{name}", _EXTRAS[name])
    raise AttributeError(f"module 'keras_quasiattn' has no attribute {name!r}")


if "attention" in globals():
    # Importing the modules registers the attentions of other packages.
    for _point in entry_points(group="keras_quasiattn.attentions"):
        _point.load()
