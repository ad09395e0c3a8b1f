"""Export models: SavedModels for servers, and files for ONNX Runtime, LiteRT and OpenVINO.

This package works on any Keras model or SavedModel. The functions that export a training run are
defined in `keras_quasiattn.lab.serving`, which is imported on first use.
"""

from typing import TYPE_CHECKING

from keras_quasiattn.extras import lazy_attributes

if TYPE_CHECKING:
    from keras_quasiattn.lab.serving.export import convert, export
    from keras_quasiattn.lab.serving.exported_model import load
    from keras_quasiattn.lab.serving.quantize import quantize
    from keras_quasiattn.serving.check import serve_check
    from keras_quasiattn.serving.runtimes import need_runtime

__all__ = ["convert", "export", "load", "need_runtime", "quantize", "serve_check"]
_LAB = "keras_quasiattn.lab.serving"
__getattr__ = lazy_attributes(
    __name__,
    {
        **dict.fromkeys(("convert", "export"), f"{_LAB}.export"),
        "load": f"{_LAB}.exported_model",
        "need_runtime": "runtimes",
        "quantize": f"{_LAB}.quantize",
        "serve_check": "check",
    },
    extra="tasks",
)
