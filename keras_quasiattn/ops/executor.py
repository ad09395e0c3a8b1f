"""Whether operations run one by one, as they are called."""

import keras

if keras.backend.backend() == "tensorflow":
    from keras_quasiattn.ops.executor_tensorflow import runs_at_once
else:

    def runs_at_once() -> bool:
        """True where every operation runs as it is called; False where a graph may be compiled."""
        return keras.backend.backend() == "torch"


__all__ = ["runs_at_once"]
