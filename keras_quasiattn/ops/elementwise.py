"""tanh, arctan and maximum that keep the precision of their input on every backend."""

import keras
from keras import ops

arctan, tanh, maximum = ops.arctan, ops.tanh, ops.maximum
if keras.backend.backend() == "jax":
    from keras_quasiattn.ops.elementwise_jax import arctan, tanh
elif keras.backend.backend() == "torch":
    from keras_quasiattn.ops.elementwise_torch import maximum

__all__ = ["arctan", "maximum", "tanh"]
