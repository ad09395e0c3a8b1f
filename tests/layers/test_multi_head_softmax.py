import keras
import numpy as np
import pytest
from keras import ops

from keras_quasiattn.layers import MultiHeadSoftmax

B, T, S, D = 2, 3, 5, 8


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_query_with_nothing_to_attend_gets_zeros_and_the_others_what_keras_gives(rank, scores, dropout):
    layer = MultiHeadSoftmax(2, 4, dropout=dropout)
    reference = keras.layers.MultiHeadAttention(2, 4, dropout=dropout)
    x, z = random(B, T, D), random(B, S, D, seed=1)
    mask = np.ones((B, T, S), bool)
    mask[0, 1], mask[1, 0, 2:] = False, False
    mask = mask if rank == 3 else np.stack([mask, mask], axis=1)
    out = layer(x, z, attention_mask=mask, return_attention_scores=scores)
    want = reference(x, z, attention_mask=mask, return_attention_scores=scores)
    reference.set_weights(layer.get_weights())
    want = reference(x, z, attention_mask=mask, return_attention_scores=scores)
    out, want = (out[0], want[0]) if scores else (out, want)
    out, want = ops.convert_to_numpy(out), ops.convert_to_numpy(want)
    assert (out[0, 1] == 0).all()
    out[0, 1] = want[0, 1] = 0
    np.testing.assert_allclose(out, want, atol=1e-6)


def test_one_blind_head_leaves_the_other_alone():
    layer = MultiHeadSoftmax(2, 4)
    x = random(1, T, D)
    mask = np.ones((1, 2, T, T), bool)
    mask[0, 1, 2] = False
    blind = ops.convert_to_numpy(layer(x, x, attention_mask=mask))
    full = ops.convert_to_numpy(layer(x, x))
    np.testing.assert_allclose(blind[0, :2], full[0, :2], atol=1e-6)
    assert np.abs(blind[0, 2]).max() > 1e-3 and np.abs(blind[0, 2] - full[0, 2]).max() > 1e-3


@pytest.mark.parametrize("name", ["query_mask", "value_mask", "key_mask", "attention_mask"])
def test_float_masks_are_refused_by_name(name):
    layer = MultiHeadSoftmax(2, 4)
    x = random(B, T, D)
    shape = (B, T, T) if name == "attention_mask" else (B, T)
    with pytest.raises(ValueError, match=f"`{name}` must be boolean"):
        layer(x, x, key=x, **{name: np.ones(shape, "float32")})


def test_causal_masks_and_gradients_in_half_precision_are_finite():
    inputs = keras.Input((None, D))
    mask = keras.Input((None,), dtype="bool")
    outputs = MultiHeadSoftmax(2, 4, dtype="mixed_float16")(
        inputs, inputs, attention_mask=mask[:, None], use_causal_mask=True
    )
    model = keras.Model([inputs, mask], outputs)
    model.compile("sgd", "mse")
    model.fit([300 * random(B, T, D), np.zeros((B, T), bool)], random(B, T, D), verbose=0)
    assert all(np.isfinite(w).all() for w in model.get_weights())
