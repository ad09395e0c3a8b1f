"""Serving: from a finished run to files that other programs can load and run."""

from keras_quasiattn.extras import needs

with needs("tasks"):
    from keras_quasiattn.serving.check import serve_check
    from keras_quasiattn.serving.convert import convert
    from keras_quasiattn.serving.export import export
    from keras_quasiattn.serving.loading import load
    from keras_quasiattn.serving.quantization import quantize
    from keras_quasiattn.serving.runtimes import need_runtime

__all__ = ["convert", "export", "load", "need_runtime", "quantize", "serve_check"]
