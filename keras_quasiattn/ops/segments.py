"""Sums over runs of rows, one run an example, and whether rows may be gathered by value at all."""

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    from keras_quasiattn.ops.segments_tensorflow import needs_static_shapes, segment_max, segment_sum
elif keras.backend.backend() == "jax":
    from keras_quasiattn.ops.segments_jax import needs_static_shapes, segment_max, segment_sum
else:
    segment_max, segment_sum = ops.segment_max, ops.segment_sum

    def needs_static_shapes(x: object) -> bool:
        """PyTorch sizes a tensor by its content anywhere."""
        return False


__all__ = ["needs_static_shapes", "segment_max", "segment_sum"]
