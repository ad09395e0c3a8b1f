"""What MultiHeadCoDA adds to `keras.layers.MultiHeadAttention`, and what it rejects."""

import keras
import numpy as np
import pytest
from drop_in import FEATURES, HEAD_SIZE, HEADS, built, every_layer
from running import as_tensor
from tools import normal, to_numpy

from keras_quasiattn import ops
from keras_quasiattn.layers import MultiHeadCoDA, MultiHeadSoftmax


def learned_temperatures(layer):
    return [weight for weight in layer.weights if weight.name in ("alpha", "beta")]


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
    got = to_numpy(layer(query, value))

    def heads(x, dense):
        kernel, bias = (to_numpy(weight.value) for weight in dense.weights)
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
    kernel, bias = (to_numpy(weight.value) for weight in layer.output_dense.weights)
    np.testing.assert_allclose(
        got, np.einsum("bnth,nhd->btd", to_numpy(pooled), kernel) + bias, rtol=1e-4, atol=1e-5
    )


def test_temperatures_may_be_numpy_numbers():
    layer = MultiHeadCoDA(HEADS, HEAD_SIZE, alpha=np.float32(0.5), beta=np.int64(2))
    assert (layer.alpha, layer.beta) == (0.5, 2.0) and type(layer.alpha) is float


def small_model(layer):
    query, value = keras.Input((None, FEATURES)), keras.Input((None, FEATURES))
    pooled = keras.layers.GlobalAveragePooling1D()(layer(query, value))
    model = keras.Model([query, value], keras.layers.Dense(1, dtype="float32")(pooled))
    model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=True)
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
        assert tuple(weight.shape) == (HEADS, 1, 1) and (to_numpy(weight.value) == 1).all()
    before = [weight.copy() for weight in layer.get_weights()]
    assert np.isfinite(fit(model)).all()
    for weight, old in zip(layer.weights, before, strict=True):
        assert (to_numpy(weight.value) != old).any(), weight.path
    model.optimizer.learning_rate = 100.0  # overshoots zero at once
    fit(model)
    temperatures = np.stack([to_numpy(weight.value) for weight in learned_temperatures(layer)])
    assert (temperatures >= 0).all()
    for weight in learned_temperatures(layer):
        assert (to_numpy(weight.constraint(-weight.value - 1)) == 0).all()


@every_layer
def test_lora_trains_alone(layer_type):
    layer = layer_type(HEADS, HEAD_SIZE)
    model = small_model(layer)
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        dense.enable_lora(2)
    model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=True)
    frozen = to_numpy(layer.query_dense._kernel.value)
    before = to_numpy(layer.value_dense.lora_kernel_b.value)
    fit(model, epochs=2)
    np.testing.assert_array_equal(to_numpy(layer.query_dense._kernel.value), frozen)
    assert (to_numpy(layer.value_dense.lora_kernel_b.value) != before).any()


@pytest.mark.long
def test_int8_exports(tmp_path, tensorflow_only):
    import tensorflow as tf

    model = small_model(MultiHeadCoDA(HEADS, HEAD_SIZE))
    model.quantize("int8")
    inputs = [as_tensor(normal(3, 5, FEATURES)), as_tensor(normal(3, 7, FEATURES, seed=1))]
    expected = model(inputs)
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.serve(inputs), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"num_heads": 2.0}, "`num_heads`.*num_heads=2.0"),
        (
            {"flash_attention": True},
            "`flash_attention` must be None or False.*flash_attention=True",
        ),
        ({"attention_axes": "time"}, "`attention_axes`.*attention_axes=time"),
        ({"output_shape": 8.0}, "`output_shape`"),
        ({"dropout": 1.0}, r"`dropout` must be .*dropout=1.0"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadCoDA(**{"num_heads": HEADS, "key_dim": HEAD_SIZE, **options})


def test_softmax_left_keys_of_another_length_than_the_values_to_the_backend():
    for layer_type in (MultiHeadCoDA, MultiHeadSoftmax):
        layer, x = layer_type(HEADS, HEAD_SIZE), np.ones((1, 3, FEATURES), "float32")
        layer.build(x.shape, x.shape, x.shape)
        with pytest.raises(ValueError, match="`value` must have .* the same length as `key`"):
            layer(x, x, x[:, :2])


@pytest.mark.parametrize(
    "options",
    [{"alpha": float("nan")}, {"beta": "fixed"}, {"beta": True}],
    ids=str,
)
def test_wrong_coda_options_are_named(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"`{name}` must be .*{name}={value!r}"):
        MultiHeadCoDA(HEADS, HEAD_SIZE, **options)


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
def test_wrong_shapes_are_named(shapes, options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadCoDA(HEADS, HEAD_SIZE, **options).build(*shapes)


def test_wrong_calls_are_named():
    x = normal(3, 2, 5, FEATURES)
    with pytest.raises(ValueError, match="`use_causal_mask` requires a single attention axis"):
        MultiHeadCoDA(HEADS, HEAD_SIZE)(x, x, use_causal_mask=True)
    x = x[:, 0]
    for name, mask in (
        ("key_mask", np.ones((3, 5))),
        ("attention_mask", np.ones((3, 5, 5), "float32")),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be boolean"):
            MultiHeadCoDA(HEADS, HEAD_SIZE)(x, x, x, **{name: mask})
