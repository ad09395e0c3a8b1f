import numpy as np
import pytest
from tools import only_on

from keras_quasiattn.core.score_bias import check_not_low
from keras_quasiattn.core.tiling import broadcast_leading, keys_per_tile
from keras_quasiattn.layers.base import _checked_masks


@only_on("tensorflow", "TensorFlow graphs")
@pytest.mark.parametrize(
    ("target", "source", "size"), [(64, 64, 64), (100, 129, 72), (2048, 0, 8), (2049, 129, 32)]
)
def test_tiles_are_wide_and_even_where_lengths_are_unknown_too(target, source, size):
    # They had 32 keys as soon as `target` was unknown, as in every export.
    import tensorflow as tf

    unknown = tf.function(keys_per_tile, input_signature=[tf.TensorSpec((), tf.int32)] * 2)
    assert keys_per_tile(target, source) == int(unknown(target, source)) == size


@only_on("tensorflow", "TensorFlow graphs")
@pytest.mark.parametrize("lengths", [(0, 1), (1, 0), (1, 1), (3, 1), (1, 3), (3, 3)])
def test_an_axis_of_length_0_beside_one_of_length_1_counted_as_1_in_graphs(lengths):
    import tensorflow as tf

    unknown = [tf.TensorSpec((None, 4, 3))] * 2
    lead = tf.function(lambda *given: broadcast_leading(given), input_signature=unknown)
    found = lead(*(tf.zeros((length, 4, 3)) for length in lengths))
    assert [int(one) for one in found] == [*np.broadcast_shapes(*((n,) for n in lengths))]


@only_on("tensorflow", "TensorFlow graphs")
@pytest.mark.parametrize("function", [keys_per_tile, _checked_masks, check_not_low])
def test_autograph_converts_names_that_are_set_in_branches(function):
    # An annotated name in a branch made it warn in every tf.function that called an op.
    import tensorflow as tf

    tf.autograph.to_graph(function)
