"""Initializer for the recurrent kernels of LSTMs and GRUs."""

from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class OrthogonalInitializer(keras.initializers.Orthogonal):
    """`keras.initializers.Orthogonal` for every dtype: 16-bit kernels are drawn in float32.

    PyTorch has no QR decomposition in float16 and bfloat16. In float32 and float64 the values are
    those of Keras. That holds for a global seed too if a layer is given this class instead of an
    instance: the layer then creates the instance at the point where it would create Keras' own.

    >>> kernel = OrthogonalInitializer(seed=1)((2, 2), dtype="float16")
    >>> np.round(kernel @ keras.ops.transpose(kernel), 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Returns a tensor of `shape`."""
        dtype = keras.backend.standardize_dtype(dtype)
        drawn = super().__call__(
            shape, dtype=dtype if dtype in ("float32", "float64") else "float32"
        )
        return ops.cast(drawn, dtype)
