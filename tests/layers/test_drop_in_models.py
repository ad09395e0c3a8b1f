"""Models, files and compilers take `MultiHeadSoftmax` or `MultiHeadCoDA` as Keras' attention."""

import copy

import keras
import numpy as np
import pytest
from drop_in import (
    FEATURES,
    HEAD_SIZE,
    HEADS,
    QUERY,
    VALUE,
    built,
    close,
    every_layer,
    numbers,
    self_attention_model,
    twins,
)
from keras.layers import MultiHeadAttention

from keras_quasiattn.layers import MultiHeadCoDA


@every_layer
def test_a_functional_model_runs_it_on_any_length(layer_type):
    for t in (MultiHeadAttention, layer_type):
        model = self_attention_model(t)
        assert model.count_params() == self_attention_model(MultiHeadAttention).count_params()
        for length in (1, 4):
            assert model(np.ones((2, length), "int32")).shape == (2, length, FEATURES)


@every_layer
def test_two_calls_share_weights(layer_type):
    for layer in (MultiHeadAttention(HEADS, HEAD_SIZE), layer_type(HEADS, HEAD_SIZE)):
        x = keras.Input((None, FEATURES))
        assert len(keras.Model(x, layer(layer(x, x), x)).weights) == 8


@every_layer
def test_time_distributed_takes_it_inside_a_layer_of_one_input(layer_type):
    x = np.random.default_rng(0).normal(size=(2, 3, 5, FEATURES)).astype("float32")
    for layer in twins(layer_type):
        inputs = keras.Input((5, FEATURES))
        wrapped = keras.layers.TimeDistributed(keras.Model(inputs, layer(inputs, inputs)))
        each = np.stack([numbers(layer(x[:, i], x[:, i])) for i in range(3)], 1)
        close(wrapped(x), each)


@every_layer
def test_a_copy_and_a_clone_are_of_the_same_class(layer_type):
    for t in (MultiHeadAttention, layer_type):
        model = self_attention_model(t)
        assert type(keras.models.clone_model(model).get_layer("attention")) is t
        close(copy.deepcopy(model)(np.ones((1, 3))), model(np.ones((1, 3))))


@every_layer
def test_keras_files_hold_it(layer_type, tmp_path):
    for t in (MultiHeadAttention, layer_type):
        model = self_attention_model(t, dropout=0.5)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert type(loaded.get_layer("attention")) is t
        close(loaded(np.ones((1, 3))), model(np.ones((1, 3))))


class Block(keras.Model):
    """A subclassed model, whose files name layers by their attributes."""

    def __init__(self, layer_type, dropout):
        super().__init__()
        self.attention = layer_type(HEADS, HEAD_SIZE, dropout=dropout)

    def call(self, x):
        return self.attention(x, x)


@every_layer
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_weights_file_of_a_subclassed_model_with_keras_attention_loads(
    layer_type, dropout, tmp_path
):
    theirs, ours = Block(MultiHeadAttention, dropout), Block(layer_type, dropout)
    theirs(QUERY), ours(QUERY)
    theirs.save_weights(tmp_path / "model.weights.h5")
    ours.load_weights(tmp_path / "model.weights.h5")
    for one, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@every_layer
def test_difference_a_weights_file_of_a_functional_model_names_the_class(layer_type, tmp_path):
    theirs, ours = self_attention_model(MultiHeadAttention), self_attention_model(layer_type)
    theirs.save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="could not be loaded"):
        ours.load_weights(tmp_path / "model.weights.h5")
    ours.set_weights(theirs.get_weights())


@every_layer
def test_fit_moves_every_weight(layer_type):
    for t in (MultiHeadAttention, layer_type):
        model = self_attention_model(t, dropout=0.1, bias_initializer="ones")
        before = model.get_weights()
        model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=False, run_eagerly=True)
        x = np.array([[1, 2, 3], [4, 5, 0]])
        model.fit(x, np.zeros((2, 3, FEATURES)), verbose=0)
        still = {
            "/".join(weight.path.split("/")[-2:])
            for weight, old in zip(model.weights, before, strict=True)
            if (numbers(weight.value) == old).all()
        }
        # A softmax does not change if all its arguments grow alike.
        assert still <= ({"key/bias"} if t is not MultiHeadCoDA else set())


@pytest.mark.long
@every_layer
def test_a_saved_model_gives_the_same(layer_type, tmp_path, tensorflow_only):
    import tensorflow as tf

    tokens = np.array([[1, 2, 0], [3, 0, 0]], "int32")
    for t in (MultiHeadAttention, layer_type):
        model = self_attention_model(t)
        model.export(tmp_path / t.__name__, verbose=False)
        loaded = tf.saved_model.load(tmp_path / t.__name__)
        close(loaded.serve(tf.constant(tokens)), model(tokens))


@every_layer
def test_compiled_it_gives_the_same(layer_type):
    layer = built(layer_type)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        compiled = tf.function(layer, jit_compile=True)
    elif keras.backend.backend() == "jax":
        import jax

        def compiled(*inputs):
            with jax.disable_jit(False):
                return jax.jit(layer)(*inputs)
    else:
        pytest.skip("torch.compile needs a C++ compiler")
    close(compiled(QUERY, VALUE), layer(QUERY, VALUE))
