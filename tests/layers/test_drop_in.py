"""What stays the same when `MultiHeadSoftmax` or `MultiHeadCoDA` replaces Keras' attention.

Every test also runs on `keras.layers.MultiHeadAttention`. test_drop_in_numbers.py has the numbers
and the intended differences. Where an older Keras lacks an argument, the test is skipped.
"""

import inspect

import keras
import numpy as np
import pytest
from drop_in import (
    HEAD_SIZE,
    HEADS,
    QUERY,
    SHAPES,
    VALUE,
    built,
    close,
    every_layer,
    names,
    needs,
    self_attention_model,
    twins,
)
from keras.layers import MultiHeadAttention
from tools import to_numpy

SIZES = [
    {},
    {"value_dim": 5, "use_bias": False},
    {"output_shape": (2, 3)},
    {"value_dim": 5, "output_shape": 13, "use_gate": True, "use_bias": False},
    {"kernel_constraint": "max_norm", "bias_constraint": "non_neg"},
]


# The constructor.


@every_layer
@pytest.mark.parametrize("method", ["__init__", "call", "build", "compute_output_shape"])
def test_arguments_have_the_same_names_order_and_defaults(layer_type, method):
    theirs, ours = (
        [
            (p.name, p.default)
            for p in inspect.signature(getattr(t, method)).parameters.values()
            if p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        for t in (MultiHeadAttention, layer_type)
    )
    older = {"sliding_window", "use_gate"} - {name for name, _ in theirs}
    assert [pair for pair in ours if pair[0] not in older] == theirs


@every_layer
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value_dim": 5, "dropout": 0.25, "use_bias": False, "output_shape": 13, "seed": 3},
        {"attention_axes": 1, "kernel_initializer": "he_normal", "bias_initializer": "ones"},
        {"kernel_regularizer": "l1", "bias_regularizer": "l2", "activity_regularizer": "l2"},
        {"kernel_constraint": "max_norm", "bias_constraint": "non_neg"},
        {"name": "mine", "dtype": "mixed_bfloat16", "trainable": False},
        {"sliding_window": 2},
        {"use_gate": True},
    ],
    ids=lambda options: "-".join(options) or "defaults",
)
def test_the_configuration_holds_what_keras_holds(layer_type, options):
    needs(options)
    theirs, ours = (
        t(HEADS, HEAD_SIZE, **{"name": "a", **options}).get_config()
        for t in (MultiHeadAttention, layer_type)
    )
    assert {name: ours[name] for name in theirs} == theirs


@every_layer
def test_a_configuration_of_keras_makes_the_layer(layer_type):
    config = MultiHeadAttention(HEADS, HEAD_SIZE, value_dim=5, dropout=0.5).get_config()
    layer = layer_type.from_config(config)
    assert (layer.num_heads, layer.value_dim, layer.dropout) == (HEADS, 5, 0.5)


# Sublayers and weights.


@every_layer
@pytest.mark.parametrize("options", SIZES, ids=str)
def test_weights_have_the_same_names_shapes_and_order(layer_type, options):
    theirs, ours = twins(layer_type, **options)
    assert names(ours) == names(theirs)
    assert ours.count_params() == theirs.count_params()
    for one, other in zip(ours.weights, theirs.weights, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert type(one.constraint) is type(other.constraint)
        np.testing.assert_array_equal(to_numpy(one.value), to_numpy(other.value))


@every_layer
def test_projections_are_found_under_the_same_names(layer_type):
    for layer in twins(layer_type):
        denses = (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense)
        assert denses == (
            *(layer._query_dense, layer._key_dense),
            *(layer._value_dense, layer._output_dense),
        )
        assert [dense.name for dense in denses] == ["query", "key", "value", "attention_output"]
        assert all(type(dense) is keras.layers.EinsumDense for dense in denses)


@every_layer
@pytest.mark.parametrize("name", ["kernel_regularizer", "bias_regularizer", "activity_regularizer"])
def test_regularizers_add_as_many_losses(layer_type, name):
    theirs, ours = twins(layer_type, **{name: "l2"})
    for layer in (theirs, ours):
        layer(QUERY, VALUE)
    assert len(ours.losses) == len(theirs.losses) == 4
    losses = [sorted(map(float, layer.losses)) for layer in (ours, theirs)]
    if name == "activity_regularizer":  # it was as many times too strong as there are examples
        ours.set_weights(theirs.get_weights())
        ours(QUERY, VALUE)
        # The output depends on the attention; the order is that of the sublayers.
        losses = [[*map(float, layer.losses)][:3] for layer in (ours, theirs)]
    close(*losses)


@every_layer
def test_biases_start_as_the_initializer_says(layer_type):
    for t in (MultiHeadAttention, layer_type):
        layer = t(HEADS, HEAD_SIZE, bias_initializer="ones")
        layer.build(*SHAPES)
        assert all((to_numpy(w.value) == 1).all() for w in layer.weights if w.name == "bias")


# The call.


@every_layer
def test_the_documented_extension_point_computes_attention(layer_type):
    class Cached(layer_type):  # as KerasHub's CachedMultiHeadAttention: a `call` of its own
        def call(self, query, value):
            heads = self._query_dense(query), self._key_dense(value), self._value_dense(value)
            output, scores = self._compute_attention(*heads, return_attention_scores=True)
            return self._output_dense(output), scores

    layer = built(Cached)
    close(layer(QUERY, VALUE), built(layer_type)(QUERY, VALUE, return_attention_scores=True))


# Precision.


@every_layer
def test_a_map_of_policies_reaches_the_projections(layer_type):
    get = keras.dtype_policies.get
    policies = {"attention/query": get("mixed_bfloat16"), "attention/value": get("bfloat16")}
    theirs, ours = twins(
        layer_type, dtype=keras.dtype_policies.DTypePolicyMap(get("float32"), policies)
    )
    assert [w.dtype for w in ours.weights] == [w.dtype for w in theirs.weights]
    assert ours.query_dense.compute_dtype == theirs.query_dense.compute_dtype == "bfloat16"
    assert ours.key_dense.compute_dtype == theirs.key_dense.compute_dtype == "float32"


# Files.


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
def test_a_bias_initializer_draws_anew_for_each_projection(layer_type):
    for t in (MultiHeadAttention, layer_type):
        layer = t(HEADS, HEAD_SIZE, bias_initializer=keras.initializers.RandomNormal())
        layer.build((None, 5, 6), (None, 5, 6))
        query, key = to_numpy(layer._query_dense.bias), to_numpy(layer._key_dense.bias)
        assert not np.array_equal(query, key)


@every_layer
def test_dropout_where_flash_attention_is_enabled(layer_type):
    enabled = keras.config.is_flash_attention_enabled()
    keras.config.enable_flash_attention()
    try:
        assert layer_type(HEADS, HEAD_SIZE, dropout=0.25).dropout == 0.25
    finally:
        if not enabled:
            keras.config.disable_flash_attention()
