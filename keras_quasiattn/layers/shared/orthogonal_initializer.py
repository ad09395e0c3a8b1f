"""First values for the recurrent kernels of LSTMs and GRUs."""

from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class OrthogonalInitializer(keras.initializers.Orthogonal):
    """Keras' `Orthogonal` in every dtype: drawn in float32 where a backend cannot factorize matrices of fewer bits.

    PyTorch has no QR decomposition in float16 and bfloat16. In float32 and float64 the values are Keras' own, for the
    same seed too where a layer is given this class, of which it makes the instance when it would make Keras'.

    >>> kernel = OrthogonalInitializer(seed=1)((2, 2), dtype="float16")
    >>> np.round(kernel @ keras.ops.transpose(kernel), 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """A tensor of `shape`."""
        dtype = keras.backend.standardize_dtype(dtype)
        drawn = super().__call__(
            shape, dtype=dtype if dtype in ("float32", "float64") else "float32"
        )
        return ops.cast(drawn, dtype)
