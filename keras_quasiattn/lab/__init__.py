"""Tasks, texts, data, training and the command line, and everything that needs training runs.

The other packages work on any Keras model and import nothing from here. If one of them has a public
function that is defined here, such as `serving.export`, it looks the function up on first use
(`extras.lazy_attributes`).
"""

from typing import Any

from keras_quasiattn.extras import require

# The extra that each package needs. All are imported on first use.
_EXTRAS = {
    "comparison": "tensorflow",
    "data": "tasks",
    "report": "tasks",
    "serving": "tasks",
    "tasks": "tasks",
    "text": "tasks",
    "training": "tasks",
    "tuning": "tuning",
}

__all__ = list(_EXTRAS)


def __getattr__(name: str) -> Any:
    if name in _EXTRAS:
        return require(f"keras_quasiattn.lab.{name}", _EXTRAS[name])
    raise AttributeError(f"module 'keras_quasiattn.lab' has no attribute {name!r}")
