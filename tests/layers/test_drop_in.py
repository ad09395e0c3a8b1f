"""What stays where `MultiHeadSoftmax` or `MultiHeadCoDA` takes the place of Keras' attention.

Every test asks the same of `keras.layers.MultiHeadAttention`. Models and files are in
test_drop_in_models.py, numbers and what differs on purpose in test_drop_in_numbers.py. Where an
older Keras lacks an argument, there is nothing to compare with, and the test is skipped.
"""

import inspect

import keras
import numpy as np
import pytest
from drop_in import (
    FEATURES,
    HEAD_SIZE,
    HEADS,
    MASK,
    QUERY,
    SHAPES,
    VALUE,
    built,
    close,
    every_layer,
    names,
    needs,
    numbers,
    twins,
)
from keras import ops
from keras.layers import MultiHeadAttention

SIZES = [
    {},
    {"value_dim": 5, "use_bias": False},
    {"output_shape": (2, 3)},
    {"value_dim": 5, "output_shape": 13, "use_gate": True, "use_bias": False},
]
every_size = pytest.mark.parametrize("options", SIZES, ids=str)


# The constructor.


@every_layer
def test_it_is_a_multi_head_attention(layer_type):
    assert issubclass(layer_type, MultiHeadAttention)


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
def test_arguments_go_by_position(layer_type):
    given = (2, 3, 5, 0.25, False, 13, (1,))
    for layer in (MultiHeadAttention(*given), layer_type(*given)):
        assert (layer.num_heads, layer.key_dim, layer.value_dim) == (2, 3, 5)
        assert (layer.dropout, layer.use_bias, layer.attention_axes) == (0.25, False, (1,))
        assert layer.get_config()["output_shape"] == (13,)


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


@every_layer
def test_it_is_serialized_without_custom_objects(layer_type):
    layer = layer_type(HEADS, HEAD_SIZE, output_shape=(2, 3), kernel_regularizer="l2")
    other = keras.layers.deserialize(keras.layers.serialize(layer))
    assert type(other) is layer_type and other.get_config() == layer.get_config()


@every_layer
def test_an_unknown_argument_is_an_error(layer_type):
    for t in (MultiHeadAttention, layer_type):
        with pytest.raises(ValueError, match="nope"):
            t(HEADS, HEAD_SIZE, nope=1)


# Sublayers and weights.


@every_layer
@every_size
def test_weights_have_the_same_names_shapes_and_order(layer_type, options):
    theirs, ours = twins(layer_type, **options)
    assert names(ours) == names(theirs)
    assert ours.count_params() == theirs.count_params()
    for one, other in zip(ours.weights, theirs.weights, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_array_equal(numbers(one.value), numbers(other.value))


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
def test_the_first_call_builds(layer_type):
    for t in (MultiHeadAttention, layer_type):
        layer = t(HEADS, HEAD_SIZE)
        assert not layer.built and not layer.weights
        layer(QUERY, VALUE)
        assert layer.built and len(layer.weights) == 8


@every_layer
def test_what_is_not_trainable_is_left_out(layer_type):
    for layer in twins(layer_type, dropout=0.5):
        assert len(layer.trainable_weights) == 8 and not layer.non_trainable_weights
        layer.key_dense.trainable = False
        assert len(layer.trainable_weights) == 6 and len(layer.non_trainable_weights) == 2
        layer.trainable = False
        assert not layer.trainable_weights


@every_layer
@pytest.mark.parametrize("name", ["kernel_regularizer", "bias_regularizer", "activity_regularizer"])
def test_regularizers_add_as_many_losses(layer_type, name):
    theirs, ours = twins(layer_type, **{name: "l2"})
    for layer in (theirs, ours):
        layer(QUERY, VALUE)
    assert len(ours.losses) == len(theirs.losses) == 4
    if name != "activity_regularizer":
        close(sorted(map(float, ours.losses)), sorted(map(float, theirs.losses)))


@every_layer
def test_constraints_are_on_the_same_weights(layer_type):
    theirs, ours = twins(layer_type, kernel_constraint="max_norm", bias_constraint="non_neg")
    assert [type(w.constraint) for w in ours.weights] == [
        type(w.constraint) for w in theirs.weights
    ]


@every_layer
def test_biases_start_as_the_initializer_says(layer_type):
    for t in (MultiHeadAttention, layer_type):
        layer = t(HEADS, HEAD_SIZE, bias_initializer="ones")
        layer.build(*SHAPES)
        assert all((numbers(w.value) == 1).all() for w in layer.weights if w.name == "bias")


# The call.


@every_layer
def test_call_takes_arguments_by_position_and_by_name(layer_type):
    key = VALUE[..., ::-1]
    for layer in twins(layer_type):
        by_position = numbers(layer(QUERY, VALUE, key, attention_mask=MASK))
        by_name = layer(attention_mask=MASK, key=key, value=VALUE, query=QUERY)
        np.testing.assert_array_equal(numbers(by_name), by_position)


@every_layer
def test_the_value_is_the_key_by_default(layer_type):
    for layer in twins(layer_type):
        close(layer(QUERY, VALUE), layer(QUERY, VALUE, VALUE))


@every_layer
@every_size
def test_outputs_and_scores_have_the_same_shape(layer_type, options):
    theirs, ours = (
        [tuple(x.shape) for x in layer(QUERY, VALUE, return_attention_scores=True)]
        for layer in twins(layer_type, **options)
    )
    assert ours == theirs
    assert tuple(built(layer_type, **options)(QUERY, VALUE).shape) == theirs[0]


@every_layer
@pytest.mark.parametrize("axes", [None, 1, (2,), (1, 2)], ids=str)
def test_attention_axes_give_the_same_shapes(layer_type, axes):
    x = np.ones((2, 3, 5, FEATURES), "float32")
    theirs, ours = (
        [tuple(y.shape) for y in layer(x, x, return_attention_scores=True)]
        for layer in twins(layer_type, x.shape, x.shape, attention_axes=axes)
    )
    assert ours == theirs


@every_layer
@every_size
def test_symbolic_shapes_are_the_same(layer_type, options):
    theirs, ours = twins(layer_type, **options)
    for shapes in ([(None, None, FEATURES)] * 2, [(3, 5, FEATURES), (3, 7, FEATURES)]):
        assert ours.compute_output_shape(*shapes) == theirs.compute_output_shape(*shapes)
        inputs = [keras.KerasTensor(shape) for shape in shapes]
        assert ours(*inputs).shape == theirs(*inputs).shape


@every_layer
def test_the_mask_of_the_query_goes_on(layer_type):
    mask = MASK[:, 1, :5]
    for layer in twins(layer_type):
        assert layer.supports_masking
        x = keras.layers.Masking()(QUERY * mask[..., None])
        np.testing.assert_array_equal(numbers(layer(x, x)._keras_mask), mask)


@every_layer
def test_dropout_acts_in_training_alone_and_follows_the_seed(layer_type):
    for layer, same in zip(
        twins(layer_type, dropout=0.5, seed=3), twins(layer_type, dropout=0.5, seed=3), strict=True
    ):
        plain = numbers(layer(QUERY, VALUE))
        np.testing.assert_array_equal(numbers(layer(QUERY, VALUE, training=False)), plain)
        dropped = numbers(layer(QUERY, VALUE, training=True))
        assert (dropped != plain).any()
        np.testing.assert_array_equal(numbers(same(QUERY, VALUE, training=True)), dropped)
        assert (numbers(layer(QUERY, VALUE, training=True)) != dropped).any()


@every_layer
def test_the_functional_core_is_the_layer(layer_type):
    for layer in twins(layer_type):
        values = [
            [ops.convert_to_tensor(v.value) for v in vs]
            for vs in (layer.trainable_variables, layer.non_trainable_variables)
        ]
        output, _ = layer.stateless_call(*values, QUERY, VALUE)
        close(output, layer(QUERY, VALUE))


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
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16", "float16"])
def test_precision_policies_mean_the_same(layer_type, policy):
    theirs, ours = twins(layer_type, dtype=policy)
    results = [layer(QUERY, VALUE, return_attention_scores=True) for layer in (theirs, ours)]
    for one, other in zip(*results, strict=True):
        assert keras.backend.standardize_dtype(one.dtype) == keras.backend.standardize_dtype(
            other.dtype
        )
    assert [w.dtype for w in ours.weights] == [w.dtype for w in theirs.weights]


@every_layer
def test_the_global_policy_counts(layer_type):
    keras.config.set_dtype_policy("mixed_bfloat16")
    assert [layer.compute_dtype for layer in twins(layer_type)] == ["bfloat16"] * 2


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


@every_layer
def test_lora_leaves_its_own_weights_trainable(layer_type):
    for layer in twins(layer_type):
        for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
            dense.enable_lora(2)
        lora = [w.name for w in layer.trainable_weights if w.name != "bias"]
        assert lora == ["lora_kernel_a", "lora_kernel_b"] * 4
        layer(QUERY, VALUE)


@every_layer
def test_int8_weights_give_nearly_the_same(layer_type):
    for layer in twins(layer_type):
        expected = numbers(layer(QUERY, VALUE))
        for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
            dense.quantize("int8")
            assert keras.backend.standardize_dtype(dense._kernel.dtype) == "int8"
        error = np.abs(numbers(layer(QUERY, VALUE)) - expected).max()
        assert 0 < error < 0.1 * np.abs(expected).max()
