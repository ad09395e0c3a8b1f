import keras
import numpy as np
import pytest
from tools import to_numpy

from keras_quasiattn import layers
from keras_quasiattn.attention.multi_head import ProjectionInitializer
from keras_quasiattn.layers import MultiHeadCoDA

X = np.ones((2, 5, 8), "float32")


def test_projections_start_at_the_scale_of_a_dense_layer():
    """A plain initializer of Keras before 3.15 would make kernels four times too small.

    It takes the heads for the window of a convolution.
    """
    layer = MultiHeadCoDA(num_heads=4, key_dim=32)
    layer.build((None, None, 128), (None, None, 128))
    bound = (6 / (128 + 128)) ** 0.5
    for projection in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        largest = np.abs(keras.ops.convert_to_numpy(projection.kernel)).max()
        assert 0.98 * bound < largest <= bound


def test_output_projection_counts_all_heads_as_inputs():
    layer = MultiHeadCoDA(num_heads=3, key_dim=5, value_dim=7, output_shape=11)
    layer.build((None, None, 13), (None, None, 13))
    bound = (6 / (3 * 7 + 11)) ** 0.5
    largest = np.abs(keras.ops.convert_to_numpy(layer.output_dense.kernel)).max()
    assert 0.9 * bound < largest <= bound


@keras.saving.register_keras_serializable("tests")
def quarters(shape, dtype=None):
    return keras.ops.full(shape, 0.25, dtype)


@pytest.mark.parametrize(
    "kind,arguments,inputs",
    [
        (layers.MultiHeadGated, {"num_heads": 2, "key_dim": 4}, [X, X]),
        (layers.TransformerEncoder, {"intermediate_dim": 8, "num_heads": 2}, [X]),
        (layers.DecomposableAttention, {"units": 3, "attention": "conflict"}, [[X, X]]),
        (layers.BidirectionalAttentionConnector, {}, [[X, X]]),
        (layers.AttentiveSpanPointer, {"units": 3}, [[X, X]]),
    ],
)
def test_a_plain_function_as_initializer_had_no_clone(kind, arguments, inputs):
    layer = kind(**arguments, kernel_initializer=quarters)
    for one in (layer, kind.from_config(layer.get_config())):
        one(*inputs)
        assert any((to_numpy(weight) == 0.25).all() for weight in one.trainable_weights)


def test_config_round_trip():
    initializer = ProjectionInitializer(keras.initializers.HeNormal(seed=3), input_axes=2)
    config = keras.saving.serialize_keras_object(initializer)
    again = keras.saving.deserialize_keras_object(config)
    first, second = (keras.ops.convert_to_numpy(x((2, 3, 4))) for x in (initializer, again))
    assert first.shape == (2, 3, 4)
    np.testing.assert_array_equal(first, second)
