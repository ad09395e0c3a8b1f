"""Sums over runs of rows, one run an example, and whether rows may be gathered by value at all.

`segment_sum(data, segment_ids, num_segments)` and `segment_max` take ascending ids; `needs_static_shapes(x)` says
whether the code around is being traced for a compiler that must know all sizes.
"""

import keras

if keras.backend.backend() == "tensorflow":
    from keras_quasiattn.ops.segments_tensorflow import needs_static_shapes, segment_max, segment_sum
elif keras.backend.backend() == "jax":
    from keras_quasiattn.ops.segments_jax import needs_static_shapes, segment_max, segment_sum
else:
    from keras_quasiattn.ops.segments_torch import needs_static_shapes, segment_max, segment_sum

__all__ = ["needs_static_shapes", "segment_max", "segment_sum"]
