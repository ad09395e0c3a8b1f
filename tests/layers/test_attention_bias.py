"""`attention_bias` of every multi-head layer, and `RelativePositionBias`, which learns one."""

import warnings

import keras
import numpy as np
import pytest
import reference
from keras import ops
from layer_case import randomize
from running import as_tensor
from tools import normal, only_on, reloaded, to_numpy

from keras_quasiattn import layers
from keras_quasiattn.attention.base import ATTENTIONS

B, T, S, N, H, FEATURES = 3, 5, 7, 2, 4, 11
every_layer = pytest.mark.parametrize("layer_type", ATTENTIONS.values(), ids=list(ATTENTIONS))


def built(layer_type, **options):
    layer = layer_type(N, H, **options)
    layer.build((None, None, FEATURES), (None, None, FEATURES))
    randomize(layer)
    return layer


@every_layer
def test_it_is_added_to_the_scores_in_any_of_its_shapes(layer_type):
    """As the op does, which tests/ops compares with its definition."""
    layer = built(layer_type)
    query, value = normal(B, T, FEATURES), normal(B, S, FEATURES, seed=1)
    mask = np.random.default_rng(2).random((B, 1, 1, S)) < 0.7
    mask[..., 0] = True
    heads = [layer.project_query(as_tensor(query)), *layer.project(as_tensor(value))[:2]]
    heads = [ops.swapaxes(x, 1, 2) for x in heads]
    options = {"is_causal": False, "dropout": 0.0, "dropout_seed": None, "return_scores": True}
    for shape in ((T, S), (N, T, S), (B, N, T, S), (1, S), (N, 1, 1)):
        bias = normal(*shape, seed=3)
        _, scores = layer(
            query,
            value,
            value_mask=mask[:, 0, 0],
            attention_bias=bias,
            return_attention_scores=True,
        )
        whole = as_tensor(np.broadcast_to(bias, (B, N, T, S)))
        _, want = layer.attend(*heads, as_tensor(mask), bias=whole, **options)
        np.testing.assert_allclose(to_numpy(scores), to_numpy(want), rtol=1e-4, atol=1e-5)


@every_layer
def test_asking_for_scores_and_a_causal_mask_change_nothing_else(layer_type):
    layer, x, bias = built(layer_type), normal(B, T, FEATURES), normal(N, T, T, seed=3)
    options = {"attention_bias": bias, "use_causal_mask": True}
    output, scores = to_numpy(layer(x, x, return_attention_scores=True, **options))
    np.testing.assert_allclose(to_numpy(layer(x, x, **options)), output, rtol=1e-4, atol=1e-5)
    assert not scores[..., ~np.tril(np.ones((T, T), "bool"))].any()
    spoiled = np.where(np.tril(np.ones((T, T), "bool")), bias, np.nan)
    again = layer(x, x, attention_bias=spoiled, use_causal_mask=True)
    np.testing.assert_allclose(to_numpy(again), output, rtol=1e-4, atol=1e-5)


def test_a_row_of_nan_has_weight_0_where_its_bias_hides_a_pair():
    layer, x = built(layers.MultiHeadSoftmax), normal(B, T, FEATURES)
    x[0, 1, 0] = np.nan
    bias = np.zeros((T, T), "float32")
    bias[:, 2] = -np.inf
    _, scores = to_numpy(layer(x, x, attention_bias=bias, return_attention_scores=True))
    _, expected = to_numpy(
        layer(x, x, attention_mask=np.isfinite(bias), return_attention_scores=True)
    )
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert np.isnan(scores[0, ..., 1]).all() and not scores[..., 2].any()


def test_several_attention_axes():
    x = normal(B, 2, 3, FEATURES)
    layer = layers.MultiHeadSoftmax(N, H)
    layer.build(x.shape, x.shape)
    bias = normal(N, 1, 3, 2, 3, seed=3)
    _, without = to_numpy(layer(x, x, return_attention_scores=True))
    _, scores = to_numpy(layer(x, x, attention_bias=bias, return_attention_scores=True))
    want = without * np.exp(bias)
    want /= want.sum((-2, -1), keepdims=True)
    np.testing.assert_allclose(scores, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "bias,message",
    [
        (np.ones((T, S), "bool"), "`attention_bias` must hold floats.*dtype bool"),
        (np.ones((T, S), "int32"), "`attention_bias` must hold floats.*dtype int32"),
        (np.ones((B, T, S), "float32"), r"`attention_bias` must broadcast to .*\(3, 5, 7\)"),
        (
            np.ones((1, B, N, T, S), "float32"),
            r"`attention_bias` must broadcast to .*\(1, 3, 2, 5, 7\)",
        ),
    ],
)
def test_wrong_biases_are_named(bias, message):
    x, y = normal(B, T, FEATURES), normal(B, S, FEATURES)
    with pytest.raises(ValueError, match=message):
        built(layers.MultiHeadSoftmax)(x, y, attention_bias=bias)
    with pytest.raises(ValueError, match=message):
        symbolic = keras.Input((S, FEATURES))
        layers.MultiHeadCoDA(N, H)(
            keras.Input((T, FEATURES)),
            symbolic,
            attention_bias=keras.Input(batch_shape=bias.shape, dtype=str(bias.dtype)),
        )


def relative(layer, target, source):
    table = to_numpy(layer.table.value)
    options = (layer.num_buckets, layer.max_distance, layer.bidirectional)
    bias = [
        [table[reference.relative_bucket(s - t, *options)] for s in range(source)]
        for t in range(target)
    ]
    return np.moveaxis(np.reshape(bias, (target, source, layer.num_heads)), -1, 0)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_position_bias_is_that_of_t5(bidirectional):
    layer = layers.RelativePositionBias(3, 8, 20, bidirectional)
    layer.build()
    assert [(one.name, tuple(one.shape)) for one in layer.weights] == [("table", (8, 3))]
    assert not to_numpy(layer(query=4)).any()
    randomize(layer)
    for target, source in ((5, 37), (41, 3), (1, 1), (0, 4), (4, 0), (0, 0)):
        want = relative(layer, target, source)
        np.testing.assert_allclose(to_numpy(layer(query=target, key=source)), want)
        tensors = ops.zeros((2, target, 6)), ops.zeros((2, source, 6))
        np.testing.assert_allclose(to_numpy(layer(*tensors)), want)
    assert tuple(layer(ops.zeros((2, 5, 6))).shape) == (3, 5, 5)
    assert layer(keras.Input((None, 6)), keras.Input((7, 6))).shape == (3, None, 7)
    low = layers.RelativePositionBias(3, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(low(query=3, key=4).dtype) == "bfloat16"
    assert keras.backend.standardize_dtype(low.table.dtype) == "float32"


@pytest.mark.parametrize(
    "options,message",
    [
        ({"num_heads": 0}, "num_heads=0"),
        ({"num_buckets": 7}, "`num_buckets` must be .*num_buckets=7, bidirectional=True"),
        ({"num_buckets": 2}, "`num_buckets` must be .*num_buckets=2, bidirectional=True"),
        ({"num_buckets": 1, "bidirectional": False}, "`num_buckets` must be .*num_buckets=1"),
        ({"max_distance": 8}, "`max_distance` must be above 8.*max_distance=8, num_buckets=32"),
        ({"bidirectional": "yes"}, "`bidirectional` must be .*bidirectional='yes'"),
    ],
)
def test_wrong_arguments_of_relative_position_bias_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        layers.RelativePositionBias(**{"num_heads": 2, **options})


def test_relative_position_bias_of_a_masked_sequence_has_no_mask_and_warns_of_none():
    x = keras.layers.Embedding(9, FEATURES, mask_zero=True)(np.array([[4, 3, 0], [2, 0, 0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        bias = layers.RelativePositionBias(N)(x)
        output = built(layers.MultiHeadCoDA)(x, x, attention_bias=bias)
    assert getattr(bias, "_keras_mask", None) is None
    assert to_numpy(output)[0, :2].all() and not to_numpy(output)[0, 2].any()


def model_with_everything():
    """Two layers share a learned bias; the second also rotates and shares heads of keys."""
    x = keras.Input((None, 8))
    bias = layers.RelativePositionBias(N, 8, 20, name="bias")(x)
    y = layers.MultiHeadSoftmax(N, H, name="first")(x, x, attention_bias=bias)
    y = layers.MultiHeadCoDA(N, H, num_key_value_heads=1, rotary_base=100.0, name="second")(
        x + y, x, attention_bias=bias, use_causal_mask=True
    )
    return keras.Model(x, keras.layers.GlobalAveragePooling1D()(y))


@pytest.mark.long
def test_a_model_with_a_learned_bias_trains_and_is_saved_and_exported(tmp_path):
    model, x = model_with_everything(), normal(B, T, 8)
    model.compile(keras.optimizers.SGD(0.5), "mse")
    before = to_numpy(model.get_layer("bias").table.value)
    model.fit(x, np.ones((B, 8), "float32"), verbose=0)
    assert (to_numpy(model.get_layer("bias").table.value) != before).any()
    loaded = reloaded(model, tmp_path)
    np.testing.assert_array_equal(to_numpy(loaded(x)), to_numpy(model(x)))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        model.export(tmp_path / "model", verbose=False)
        exported = tf.saved_model.load(tmp_path / "model")
        for length in (T, 1, S):
            x = normal(B, length, 8, seed=length)
            np.testing.assert_allclose(exported.serve(x), model(x), rtol=1e-4, atol=1e-5)


@only_on("torch", "traces and transforms of PyTorch")
@pytest.mark.parametrize("kind", [layers.MultiHeadSoftmax, layers.MultiHeadCoDA])
def test_a_trace_kept_whether_its_first_bias_hid_pairs_and_vmap_failed(kind):
    import torch

    layer, x = kind(2, 4), torch.randn(2, 5, 8)
    biases = torch.zeros(2, 1, 5, 5)
    biases[1, ..., 3:] = -torch.inf
    expected = torch.cat([layer(x, x, attention_bias=one) for one in biases])

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, bias):
            return self.layer(x, x, attention_bias=bias)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sizes, which a trace fixes
        traced = torch.jit.trace(Model(), (x, biases[0]), check_trace=False)
    found = torch.cat([traced(x, one) for one in biases])
    torch.testing.assert_close(found, expected)
    mapped = torch.func.vmap(lambda one: layer(x, x, attention_bias=one))(biases)
    torch.testing.assert_close(mapped.flatten(0, 1), expected)
