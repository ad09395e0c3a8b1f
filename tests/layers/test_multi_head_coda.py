"""MultiHeadCoDA and MultiHeadSoftmax stand where `keras.layers.MultiHeadAttention` stood."""

import inspect

import keras
import numpy as np
import pytest
from keras.layers import MultiHeadAttention
from layer_case import randomize
from running import as_tensor, detach
from tools import to_numpy

from keras_quasiattn import ops
from keras_quasiattn.layers import MultiHeadCoDA, MultiHeadSoftmax

FEATURES, HEADS, HEAD_SIZE = 11, 2, 3
every_layer = pytest.mark.parametrize("layer_type", [MultiHeadCoDA, MultiHeadSoftmax])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def built(layer_type, *shapes, **options):
    layer = layer_type(HEADS, HEAD_SIZE, **options)
    layer.build(*(shapes or [(None, None, FEATURES)] * 2))
    randomize(layer)
    return layer


def learned_temperatures(layer):
    return [weight for weight in layer.weights if weight.name in ("alpha", "beta")]


def numbers(structure):
    return to_numpy(keras.tree.map_structure(detach, structure))


def test_constructor_takes_the_same_arguments_in_the_same_order():
    theirs = inspect.signature(MultiHeadAttention).parameters
    ours = inspect.signature(MultiHeadCoDA).parameters
    positional = [p for p in ours.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [(p.name, p.default) for p in positional] == [
        (p.name, p.default) for p in theirs.values() if p.kind is p.POSITIONAL_OR_KEYWORD
    ]


@every_layer
def test_call_takes_the_same_arguments_in_the_same_order(layer_type):
    theirs, ours = (
        inspect.signature(t.call).parameters.values() for t in (MultiHeadAttention, layer_type)
    )
    assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in theirs]


@every_layer
@pytest.mark.parametrize(
    "options", [{}, {"value_dim": 5, "output_shape": 13, "use_gate": True, "use_bias": False}]
)
def test_weights_move_over(layer_type, options):
    theirs, ours = (
        built(t, (None, None, FEATURES), (None, None, 13), (None, None, 7), **options)
        for t in (MultiHeadAttention, layer_type)
    )
    assert [w.path.split("/", 1)[1] for w in ours.weights] == [
        w.path.split("/", 1)[1] for w in theirs.weights
    ]
    randomize(theirs, seed=5)
    ours.set_weights(theirs.get_weights())
    for one, other in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(numbers(one.value), numbers(other.value))


MASK = np.random.default_rng(1).random((3, 5, 7)) > 0.4
MASK[..., 0] = True  # no empty rows: there Keras gives something else
SAME_CALLS = [
    ({}, {}),
    ({}, {"attention_mask": MASK}),
    ({}, {"attention_mask": MASK[0]}),
    ({}, {"attention_mask": np.stack([MASK, ~MASK | MASK[..., ::-1]], 1)}),
    ({}, {"use_causal_mask": True}),
    ({}, {"use_causal_mask": True, "attention_mask": MASK}),
    ({"value_dim": 5}, {}),
    ({"output_shape": 13}, {}),
    ({"output_shape": (2, 3)}, {}),
    ({"use_gate": True}, {"attention_mask": MASK}),
    ({"use_bias": False}, {}),
    ({"sliding_window": 4}, {}),
]


@pytest.mark.parametrize("options,call", SAME_CALLS)
@pytest.mark.parametrize("scores", [False, True])
def test_softmax_is_keras_attention(options, call, scores):
    query, value = normal(3, 5, FEATURES), normal(3, 7, FEATURES, seed=1)
    # Always with scores: without them Keras' layer cannot have a value_dim of its own on JAX.
    theirs = built(MultiHeadAttention, **options)(
        query, value, return_attention_scores=True, **call
    )
    ours = built(MultiHeadSoftmax, **options)(query, value, return_attention_scores=scores, **call)
    ours, theirs = numbers(ours if scores else [ours]), numbers(theirs if scores else theirs[:1])
    for one, other in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [None, 1, (2,), (1, 2), (-2,)], ids=str)
def test_softmax_is_keras_attention_over_any_axes(axes):
    free = {1: (2,), (2,): (1,), (-2,): (1,)}.get(axes, ())
    query = normal(3, 2, 5, FEATURES)
    value = query if free else normal(3, 7, 2, FEATURES)
    # Keras takes a negative axis to be one of the projected tensor, which has an axis more.
    theirs = built(
        MultiHeadAttention, query.shape, value.shape, attention_axes=2 if axes == (-2,) else axes
    )
    ours = built(MultiHeadSoftmax, query.shape, value.shape, attention_axes=axes)
    expected, expected_scores = numbers(theirs(query, value, return_attention_scores=True))
    got, scores = numbers(ours(query, value, return_attention_scores=True))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "scaling,factors",
    [("mean", (1 / HEAD_SIZE,) * 2), ("paper", (HEAD_SIZE**-0.5,) * 2), ("none", (1.0, 1.0))],
)
@pytest.mark.parametrize("learned", [False, True])
def test_scaling_is_what_it_says(scaling, factors, learned):
    temperatures = (np.array([0.5, 2.0]), np.array([1.5, 0.25])) if learned else (0.5, 1.5)
    given = ("learned", "learned") if learned else temperatures
    layer = built(MultiHeadCoDA, scaling=scaling, alpha=given[0], beta=given[1])
    if learned:
        for weight, value in zip(learned_temperatures(layer), temperatures, strict=True):
            weight.assign(np.reshape(value, weight.shape))
    query, value = normal(3, 5, FEATURES), normal(3, 7, FEATURES, seed=1)
    got = numbers(layer(query, value))

    def heads(x, dense):
        kernel, bias = (numbers(weight.value) for weight in dense.weights)
        return np.einsum("btd,dnh->bnth", x, kernel) + bias[:, None]

    alpha, beta = (
        np.reshape(t, (-1, 1, 1)) * f for t, f in zip(temperatures, factors, strict=True)
    )
    pooled = ops.coda_attention(
        heads(query, layer.query_dense),
        heads(value, layer.key_dense),
        heads(value, layer.value_dense),
        alpha=alpha,
        beta=beta,
    )
    kernel, bias = (numbers(weight.value) for weight in layer.output_dense.weights)
    np.testing.assert_allclose(
        got, np.einsum("bnth,nhd->btd", numbers(pooled), kernel) + bias, rtol=1e-4, atol=1e-5
    )


def test_temperatures_may_be_numpy_numbers():
    layer = MultiHeadCoDA(HEADS, HEAD_SIZE, alpha=np.float32(0.5), beta=np.int64(2))
    assert (layer.alpha, layer.beta) == (0.5, 2.0) and type(layer.alpha) is float


def small_model(layer):
    query, value = keras.Input((None, FEATURES)), keras.Input((None, FEATURES))
    pooled = keras.layers.GlobalAveragePooling1D()(layer(query, value))
    model = keras.Model([query, value], keras.layers.Dense(1, dtype="float32")(pooled))
    model.compile(keras.optimizers.SGD(0.5), "mse")
    return model


def fit(model, epochs=1):
    inputs = [normal(3, 5, FEATURES), normal(3, 7, FEATURES, seed=1)]
    return model.fit(inputs, np.ones((3, 1), "float32"), verbose=0, epochs=epochs).history["loss"]


def test_one_step_of_fit_moves_every_weight_and_keeps_temperatures_positive():
    layer = MultiHeadCoDA(
        HEADS, HEAD_SIZE, dropout=0.1, alpha="learned", beta="learned", bias_initializer="ones"
    )
    model = small_model(layer)
    for weight in learned_temperatures(layer):
        assert tuple(weight.shape) == (HEADS, 1, 1) and (numbers(weight.value) == 1).all()
    before = [weight.copy() for weight in layer.get_weights()]
    assert np.isfinite(fit(model)).all()
    for weight, old in zip(layer.weights, before, strict=True):
        assert (numbers(weight.value) != old).any(), weight.path
    model.optimizer.learning_rate = 100.0  # overshoots zero at once
    fit(model)
    temperatures = np.stack([numbers(weight.value) for weight in learned_temperatures(layer)])
    assert (temperatures >= 0).all()
    for weight in learned_temperatures(layer):
        assert (numbers(weight.constraint(-weight.value - 1)) == 0).all()


@every_layer
def test_lora_trains_alone(layer_type):
    layer = layer_type(HEADS, HEAD_SIZE)
    model = small_model(layer)
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        dense.enable_lora(2)
    model.compile(keras.optimizers.SGD(0.5), "mse")
    frozen = numbers(layer.query_dense._kernel.value)
    before = numbers(layer.value_dense.lora_kernel_b.value)
    fit(model, epochs=2)
    np.testing.assert_array_equal(numbers(layer.query_dense._kernel.value), frozen)
    assert (numbers(layer.value_dense.lora_kernel_b.value) != before).any()


@every_layer
def test_int8_runs(layer_type):
    layer = built(layer_type)
    query, value = normal(3, 5, FEATURES), normal(3, 7, FEATURES, seed=1)
    expected = numbers(layer(query, value))
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        dense.quantize("int8")
        assert keras.backend.standardize_dtype(dense._kernel.dtype) == "int8"
    error = np.abs(numbers(layer(query, value)) - expected).max()
    assert 0 < error < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize(
    "layer_type", [MultiHeadCoDA, pytest.param(MultiHeadSoftmax, marks=pytest.mark.long)]
)
def test_int8_exports(layer_type, tmp_path, tensorflow_only):
    import tensorflow as tf

    model = small_model(layer_type(HEADS, HEAD_SIZE))
    model.quantize("int8")
    inputs = [as_tensor(normal(3, 5, FEATURES)), as_tensor(normal(3, 7, FEATURES, seed=1))]
    expected = model(inputs)
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.serve(inputs), expected, rtol=1e-5)


@every_layer
@pytest.mark.parametrize(
    "options,message",
    [
        ({"num_heads": 0}, "`num_heads`.*num_heads=0"),
        ({"num_heads": 2.0}, "`num_heads`.*num_heads=2.0"),
        ({"key_dim": -1}, "`key_dim`.*key_dim=-1"),
        ({"value_dim": "3"}, "`value_dim`.*value_dim='3'"),
        (
            {"flash_attention": True},
            "`flash_attention` must be None or False.*flash_attention=True",
        ),
        ({"sliding_window": 0}, "`sliding_window`.*sliding_window=0"),
        ({"attention_axes": "time"}, "`attention_axes`.*attention_axes=time"),
        ({"dropout": 1.0}, r"`dropout` must be .*dropout=1.0"),
        ({"dropout": -0.5}, r"`dropout` must be .*dropout=-0.5"),
    ],
)
def test_wrong_arguments_are_named(layer_type, options, message):
    with pytest.raises(ValueError, match=message):
        layer_type(**{"num_heads": HEADS, "key_dim": HEAD_SIZE, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": -1.0},
        {"alpha": float("nan")},
        {"beta": "fixed"},
        {"beta": True},
        {"scaling": "sqrt"},
        {"similarity": "relu"},
        {"gate": "relu"},
        {"gate_range": "double"},
        {"implementation": "fastest"},
        {"center_similarity": "yes"},
        {"center_per_query": "yes"},
    ],
    ids=str,
)
def test_wrong_coda_options_are_named(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"`{name}` must be .*{name}={value!r}"):
        MultiHeadCoDA(HEADS, HEAD_SIZE, **options)


@every_layer
@pytest.mark.parametrize(
    "shapes,options,message",
    [
        ([(3, FEATURES), (3, FEATURES)], {}, r"`query` must have shape.*\(3, 11\)"),
        ([(3, 5, FEATURES), (3, 2, 5, FEATURES)], {}, r"`value` must have shape.*\(3, 2, 5, 11\)"),
        (
            [(3, 5, FEATURES), (3, 7, FEATURES), (3, FEATURES)],
            {},
            r"`key` must have shape.*\(3, 11\)",
        ),
        (
            [(3, 5, FEATURES), (3, 7, FEATURES), (3, 5, FEATURES)],
            {},
            r"`value` and `key`.*\(3, 7, 11\).*\(3, 5, 11\)",
        ),
        (
            [(3, 5, None), (3, 7, FEATURES)],
            {},
            r"last dimension of `query` must be known.*\(3, 5, None\)",
        ),
        (
            [(3, 5, FEATURES)] * 2,
            {"attention_axes": 2},
            r"`attention_axes` must lie between.*\(2,\)",
        ),
        (
            [(3, 5, FEATURES)] * 2,
            {"attention_axes": 0},
            r"`attention_axes` must lie between.*\(0,\)",
        ),
        (
            [(3, 5, 2, FEATURES)] * 2,
            {"sliding_window": 2},
            r"`sliding_window` requires a single attention axis",
        ),
    ],
)
def test_wrong_shapes_are_named(layer_type, shapes, options, message):
    with pytest.raises(ValueError, match=message):
        layer_type(HEADS, HEAD_SIZE, **options).build(*shapes)


@every_layer
def test_wrong_calls_are_named(layer_type):
    x = normal(3, 2, 5, FEATURES)
    with pytest.raises(ValueError, match="`use_causal_mask` requires a single attention axis"):
        layer_type(HEADS, HEAD_SIZE)(x, x, use_causal_mask=True)
    x = x[:, 0]
    for name, mask in (
        ("key_mask", np.ones((3, 5))),
        ("attention_mask", np.ones((3, 5, 5), "float32")),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be boolean"):
            layer_type(HEADS, HEAD_SIZE)(x, x, x, **{name: mask})
