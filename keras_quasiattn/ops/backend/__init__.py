"""Whether operations run one by one, rather than fused by a compiler: it decides how tiles are best made."""

import keras

if keras.backend.backend() == "tensorflow":
    from keras_quasiattn.ops.executor_tensorflow import runs_op_by_op
else:

    def runs_op_by_op() -> bool:
        """True where every operation is a kernel call of its own; results never depend on it."""
        return keras.backend.backend() == "torch"


__all__ = ["runs_op_by_op"]
