"""A counted loop whose steps run one after the other."""

import keras

if keras.backend.backend() == "tensorflow":
    from keras_quasiattn.ops.loop_tensorflow import loop
else:
    loop = keras.ops.fori_loop

__all__ = ["loop"]
