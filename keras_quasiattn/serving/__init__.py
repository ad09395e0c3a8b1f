"""From a run folder to a SavedModel that answers."""

from keras_quasiattn.serving.check import serve_check
from keras_quasiattn.serving.export import export

__all__ = ["export", "serve_check"]
