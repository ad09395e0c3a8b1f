import keras
import numpy as np
import pytest
from keras import ops
from tools import normal, reloaded, to_numpy

from keras_quasiattn.layers import TransformerDecoder, TransformerEncoder

B, T, D = 3, 5, 12


def normed(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize("first", [True, False])
def test_the_block_is_two_residuals_normalized_first_or_afterwards(first):
    block = TransformerEncoder(7, 2, "softmax", normalize_first=first)
    before, after = (normed, np.asarray) if first else (np.asarray, normed)
    x = normal(B, T, D)
    output, attended = to_numpy(block(x)), before(x)
    y = after(x + to_numpy(block.attention(attended, attended)))
    inner, outer = block.feed_forward.intermediate_dense, block.feed_forward.output_dense
    z = np.maximum(before(y) @ to_numpy(inner.kernel) + to_numpy(inner.bias), 0)
    want = after(y + z @ to_numpy(outer.kernel) + to_numpy(outer.bias))
    np.testing.assert_allclose(output, want, atol=1e-5)


def test_an_attention_mask_hides_pairs_and_leaves_the_implicit_mask_in_place():
    ids = np.array([[4, 2, 0, 0], [3, 1, 2, 0]])
    x = keras.layers.Embedding(5, D, mask_zero=True)(ids)
    block = TransformerEncoder(7, 2, "coda")
    pairs = np.random.default_rng(0).random((2, 4, 4)) < 0.6
    output, scores = block(x, attention_mask=pairs, return_attention_scores=True)
    real = (ids != 0)[:, :, None] & (ids != 0)[:, None]
    np.testing.assert_array_equal(to_numpy(scores)[:, 0] != 0, pairs & real)
    bare = ops.convert_to_tensor(to_numpy(x))
    explicit = block(bare, mask=ids != 0, attention_mask=pairs[:, None])
    np.testing.assert_allclose(to_numpy(output), to_numpy(explicit), atol=2e-6)
    # The mask reached the output.
    second = TransformerEncoder(7, 2, "softmax")
    want = to_numpy(second(ops.convert_to_tensor(to_numpy(output)), mask=ids != 0))
    np.testing.assert_allclose(to_numpy(second(output)), want, atol=1e-6)


@pytest.mark.parametrize("as_config", [False, True])
def test_any_layer_with_the_call_contract_will_do(tmp_path, as_config):
    template = keras.layers.MultiHeadAttention(num_heads=2, key_dim=3, use_gate=True)
    given = keras.saving.serialize_keras_object(template) if as_config else template
    x, inputs = normal(2, 4, D), keras.Input((None, D))
    model = keras.Model(inputs, TransformerEncoder(7, attention=given)(inputs))
    loaded = reloaded(model, tmp_path)
    np.testing.assert_array_equal(to_numpy(loaded(x)), to_numpy(model(x)))
    attention = loaded.layers[-1].attention
    assert isinstance(attention, keras.layers.MultiHeadAttention)
    assert attention.get_config()["use_gate"] and attention.key_dim == 3
    assert not template.built


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": True}, "num_heads=True"),
        ({"key_dim": -1}, "key_dim=-1"),
        ({"dropout": 1.0}, r"dropout=1\.0"),
        ({"attention": 3}, "attention=3"),
        ({"attention": keras.layers.MultiHeadAttention(2, 3)}, "`num_heads` must be None when"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        TransformerEncoder(**{"intermediate_dim": 7, "num_heads": 2, **arguments})


def test_bad_calls_are_named():
    x, block = normal(B, T, D), TransformerEncoder(7, 2, "softmax")
    with pytest.raises(ValueError, match="`attention_mask` must be boolean.*float32"):
        block(x, attention_mask=np.ones((B, T, T), "float32"))
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


def test_an_implicit_mask_was_lost_where_jax_traces():
    """Keras passes no mask to a call with a further tensor, nor to a decoder without an encoder."""
    ids = keras.Input((3,), dtype="int32")
    x = keras.layers.Embedding(5, 8, mask_zero=True)(ids)
    attention = {"num_heads": 2, "attention": "softmax"}
    encoded = TransformerEncoder(8, **attention)(x, attention_mask=np.ones((3, 3), "bool"))
    decoded = TransformerDecoder(8, **attention)(x, use_causal_mask=False)
    model = keras.Model(ids, [encoded, decoded])
    tokens = np.array([[4, 3, 0], [2, 0, 0]])
    for traced, eager in zip(model.predict(tokens, verbose=0), model(tokens), strict=True):
        np.testing.assert_allclose(traced, to_numpy(eager), atol=1e-5)
