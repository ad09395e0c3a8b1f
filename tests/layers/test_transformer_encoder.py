import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_quasiattn.layers import TransformerEncoder

CENTERED = {"gate_range": "centered", "center_similarity": True}
ATTENTIONS = [("softmax", None), ("coda", None), ("coda", CENTERED)]
B, T, D = 3, 5, 12


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize(("attention", "options"), ATTENTIONS)
@pytest.mark.parametrize("padding", [0.0, 1e4, np.nan])
def test_masked_input_gives_what_the_sliced_input_gives(attention, options, padding):
    block = TransformerEncoder(7, 2, attention, options)
    x, lengths = random(B, T, D), [3, 5, 1]
    mask = np.arange(T) < np.array(lengths)[:, None]
    padded = np.where(mask[..., None], x, np.float32(padding))
    got = numpy(block(padded, mask=mask))
    for row, length in enumerate(lengths):
        want = numpy(block(x[row : row + 1, :length]))
        np.testing.assert_allclose(got[row, :length], want[0], atol=2e-6)


def test_implicit_masks_count_travel_on_and_yield_to_explicit_ones():
    ids = np.array([[4, 2, 0, 0], [3, 1, 2, 0]])
    x = keras.layers.Embedding(5, D, mask_zero=True)(ids)
    block = TransformerEncoder(7, 2, "softmax")
    implicit = block(x)
    bare = ops.convert_to_tensor(numpy(x))
    np.testing.assert_allclose(
        numpy(implicit), numpy(block(bare, mask=(ids != 0).astype("int32"))), atol=1e-6
    )
    # The mask reached the output: the next block, told nothing, obeys it.
    second = TransformerEncoder(7, 2, "softmax")
    want = numpy(second(ops.convert_to_tensor(numpy(implicit)), mask=ids != 0))
    np.testing.assert_allclose(numpy(second(implicit)), want, atol=1e-6)
    everything = np.ones_like(ids, dtype=bool)
    np.testing.assert_allclose(numpy(block(x, mask=everything)), numpy(block(bare)), atol=1e-6)
    assert np.abs(numpy(block(bare)) - numpy(implicit)).max() > 1e-3


@pytest.mark.parametrize(("attention", "options"), ATTENTIONS)
def test_a_row_of_padding_adds_no_attention_and_stays_finite(attention, options):
    block = TransformerEncoder(7, 2, attention, options)
    x = random(2, T, D)
    mask = np.array([[False] * T, [True] * T])
    out = numpy(block(x, mask=mask))
    assert np.isfinite(out).all()
    np.testing.assert_allclose(
        out[0], numpy(block.feed_forward(np.zeros_like(x[:1])))[0], atol=1e-6
    )


def test_the_block_is_pre_norm_with_two_residuals():
    block = TransformerEncoder(7, 2, "softmax")
    x = random(B, T, D)
    out = numpy(block(x))
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    y = x + numpy(block.attention(normed, normed))
    normed = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-6)
    first, second = block.feed_forward.intermediate_dense, block.feed_forward.output_dense
    inner = np.maximum(normed @ numpy(first.kernel) + numpy(first.bias), 0)
    want = y + inner @ numpy(second.kernel) + numpy(second.bias)
    np.testing.assert_allclose(out, want, atol=1e-5)


def normed(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def test_a_post_norm_block_normalizes_the_sums():
    block = TransformerEncoder(7, 2, "softmax", normalize_first=False)
    x = random(B, T, D)
    out = numpy(block(x))
    y = normed(x + numpy(block.attention(x, x)))
    first, second = block.feed_forward.intermediate_dense, block.feed_forward.output_dense
    inner = np.maximum(y @ numpy(first.kernel) + numpy(first.bias), 0)
    want = normed(y + inner @ numpy(second.kernel) + numpy(second.bias))
    np.testing.assert_allclose(out, want, atol=1e-5)


@pytest.mark.parametrize(("attention", "options"), ATTENTIONS)
def test_a_causal_call_is_a_call_with_a_triangle_and_later_positions_change_nothing(
    attention, options
):
    block = TransformerEncoder(7, 2, attention, options)
    x, changed = random(B, T, D), random(B, T, D)
    changed[:, 3:] *= -4
    causal = numpy(block(x, use_causal_mask=True))
    np.testing.assert_allclose(
        causal[:, :3], numpy(block(changed, use_causal_mask=True))[:, :3], atol=2e-6
    )
    if options is None:  # else the means differ: under a triangle they are over all its pairs
        triangle = np.tril(np.ones((T, T), "int32"))
        np.testing.assert_allclose(causal, numpy(block(x, attention_mask=triangle)), atol=2e-6)


def test_an_attention_mask_hides_pairs_and_leaves_the_implicit_mask_in_place():
    ids = np.array([[4, 2, 0, 0], [3, 1, 2, 0]])
    x = keras.layers.Embedding(5, D, mask_zero=True)(ids)
    block = TransformerEncoder(7, 2, "coda")
    pairs = np.random.default_rng(0).random((2, 4, 4)) < 0.6
    output, scores = block(x, attention_mask=pairs, return_attention_scores=True)
    real = (ids != 0)[:, :, None] & (ids != 0)[:, None]
    np.testing.assert_array_equal(numpy(scores)[:, 0] != 0, pairs & real)
    bare = ops.convert_to_tensor(numpy(x))
    explicit = block(bare, mask=ids != 0, attention_mask=pairs[:, None])
    np.testing.assert_allclose(numpy(output), numpy(explicit), atol=2e-6)
    # The mask reached the output.
    second = TransformerEncoder(7, 2, "softmax")
    want = numpy(second(ops.convert_to_tensor(numpy(output)), mask=ids != 0))
    np.testing.assert_allclose(numpy(second(output)), want, atol=1e-6)


def test_scores_and_masks_in_a_functional_model_survive_save_and_load(tmp_path):
    x, pairs = keras.Input((None, D)), keras.Input((None, None), dtype="bool")
    output, scores = TransformerEncoder(7, 2)(
        x, attention_mask=pairs, use_causal_mask=True, return_attention_scores=True
    )
    assert (output.shape, scores.shape) == ((None, None, D), (None, 2, None, None))
    model = keras.Model([x, pairs], [output, scores])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    arrays = [random(B, T, D), np.random.default_rng(0).random((B, T, T)) < 0.6]
    for got, want in zip(loaded(arrays), model(arrays), strict=True):
        np.testing.assert_array_equal(numpy(got), numpy(want))
    assert np.triu(numpy(want), 1).max() == 0 < numpy(want).max()


NON_DEFAULT = {
    "intermediate_dim": 9,
    "num_heads": 3,
    "attention": "softmax",
    "attention_options": {"use_bias": True, "value_dim": 2},
    "key_dim": 5,
    "dropout": 0.25,
    "activation": "gelu",
    "layer_norm_epsilon": 1e-3,
    "kernel_initializer": keras.initializers.serialize(keras.initializers.HeNormal(seed=3)),
    "normalize_first": False,
}


def save_and_load(layer, path, *lengths):
    inputs = [keras.Input((None, D)) for _ in lengths]
    model = keras.Model(inputs, layer(*inputs))
    model.save(path)
    loaded = keras.saving.load_model(path)
    arrays = [random(2, length, D, seed=length) for length in lengths]
    np.testing.assert_allclose(
        model.predict(arrays, verbose=0), loaded.predict(arrays, verbose=0), atol=1e-6
    )
    return loaded.layers[-1]


def test_every_constructor_argument_survives_save_and_load(tmp_path):
    parameters = inspect.signature(TransformerEncoder.__init__).parameters
    assert set(parameters) - {"self", "kwargs"} == set(NON_DEFAULT)
    assert not [
        n for n, p in parameters.items() if n in NON_DEFAULT and p.default == NON_DEFAULT[n]
    ]
    layer = TransformerEncoder(**NON_DEFAULT)
    loaded = save_and_load(layer, tmp_path / "model.keras", 4)
    config = loaded.get_config()
    for name, value in NON_DEFAULT.items():
        assert config[name] == value, name
    assert (
        loaded.attention.key_dim == 5
        and loaded.attention.use_bias
        and loaded.attention.dropout == 0.25
    )
    assert loaded.attention_norm.epsilon == loaded.feed_forward.norm.epsilon == 1e-3


@pytest.mark.parametrize("as_config", [False, True])
def test_any_layer_with_the_call_contract_will_do(tmp_path, as_config):
    template = keras.layers.MultiHeadAttention(num_heads=2, key_dim=3, use_gate=True)
    given = keras.saving.serialize_keras_object(template) if as_config else template
    layer = TransformerEncoder(7, attention=given)
    loaded = save_and_load(layer, tmp_path / "model.keras", 4)
    assert isinstance(loaded.attention, keras.layers.MultiHeadAttention)
    assert loaded.attention.get_config()["use_gate"] and loaded.attention.key_dim == 3
    assert not template.built


@pytest.mark.parametrize("attention", ["softmax", "coda"])
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_low_precision_is_finite_and_near(attention, policy):
    block = TransformerEncoder(7, 2, attention)
    low = TransformerEncoder(7, 2, attention, dtype=policy)
    x = 3 * random(B, T, D)
    mask = np.array([[True] * T, [True, True, False, False, False], [False] * T])
    full = numpy(block(x, mask=mask))
    low(x, mask=mask)
    low.set_weights(block.get_weights())
    out = low(x, mask=mask)
    assert keras.backend.standardize_dtype(out.dtype) == policy.removeprefix("mixed_")
    out = numpy(ops.cast(out, "float32"))
    epsilon = 2.0**-10 if policy == "mixed_float16" else 2.0**-7
    np.testing.assert_allclose(out, full, atol=16 * epsilon * np.abs(full).max())


def test_symbolic_shapes_and_dropout_only_in_training():
    block = TransformerEncoder(7, 2, "softmax", dropout=0.5)
    symbolic = block(keras.Input((None, D), batch_size=4))
    assert symbolic.shape == (4, None, D)
    assert block.compute_output_shape((2, 3, D)) == (2, 3, D)
    x = random(B, T, D)
    np.testing.assert_array_equal(numpy(block(x)), numpy(block(x, training=False)))
    assert np.abs(numpy(block(x, training=True)) - numpy(block(x))).max() > 0.1


@pytest.mark.parametrize("attention", ["softmax", "coda"])
def test_build_makes_every_weight_and_each_one_learns(attention):
    block = TransformerEncoder(7, 2, attention)
    block.build((None, None, D))
    paths = [w.path for w in block.weights]
    model = keras.Sequential([keras.Input((None, D)), block])
    model.compile(keras.optimizers.SGD(0.5), "mse")
    before = [numpy(w) for w in block.trainable_weights]
    model.fit(random(B, T, D), random(B, T, D, seed=1), verbose=0)
    assert len(block.weights) == len(paths)
    for weight, old in zip(block.trainable_weights, before, strict=True):
        assert np.abs(numpy(weight) - old).max() > 0, weight.path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"intermediate_dim": 0}, "intermediate_dim=0"),
        ({"num_heads": 0}, "num_heads=0"),
        ({"num_heads": True}, "num_heads=True"),
        ({"key_dim": -1}, "key_dim=-1"),
        ({"dropout": 1.0}, r"dropout=1\.0"),
        ({"normalize_first": "pre"}, "`normalize_first` must be one of True, False.*'pre'"),
        ({"attention": "hard"}, "attention='hard'"),
        ({"attention": 3}, "attention=3"),
        ({"attention": keras.layers.MultiHeadAttention(2, 3)}, "`num_heads` must be None when"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        TransformerEncoder(**{"intermediate_dim": 7, "num_heads": 2, **arguments})


def test_bad_calls_are_named():
    x, block = random(B, T, D), TransformerEncoder(7, 2, "softmax")
    with pytest.raises(ValueError, match="`mask` must be boolean"):
        block(x, mask=np.ones((B, T), "float32"))
    with pytest.raises(ValueError, match="`mask` must have shape"):
        block(x, mask=np.ones((B, T, T), "bool"))
    with pytest.raises(ValueError, match="`attention_mask` must be boolean.*float32"):
        block(x, attention_mask=np.ones((B, T, T), "float32"))
    with pytest.raises(ValueError, match=r"`attention_mask` must have shape.*\(5, 5\).*\(3, 5\)"):
        block(x, attention_mask=np.ones((B, T), "bool"))
    with pytest.raises(ValueError, match="`attention_mask` must be boolean.*float32"):
        block(keras.Input((T, D)), attention_mask=keras.Input((T, T)))
    with pytest.raises(ValueError, match="`inputs` must have shape"):
        TransformerEncoder(7, 2)(x[0])
    with pytest.raises(ValueError, match="num_heads=5, width=12"):
        TransformerEncoder(7, 5)(x)
    built = keras.layers.MultiHeadAttention(2, 3)
    built(x, x)
    with pytest.raises(ValueError, match="`attention` must be an unbuilt layer"):
        TransformerEncoder(7, attention=built)
