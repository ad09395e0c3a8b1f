import keras
import numpy as np
import pytest
from keras import ops
from tools import normal, to_numpy

from keras_quasiattn.layers import TransformerDecoder, TransformerEncoder

CENTERED = {"gate_range": "centered", "center_similarity": True}
B, T, S, D, E = 3, 5, 7, 12, 8


def test_each_attention_has_a_mask_of_pairs():
    block = TransformerDecoder(7, 2, "softmax")
    x, z = normal(B, T, D), normal(B, S, E, seed=1)
    draw = np.random.default_rng(0)
    masks = {
        "decoder_attention_mask": draw.random((B, T, T)) < 0.6,
        "encoder_attention_mask": (draw.random((T, S)) < 0.6).astype("int32"),
    }
    _, across, own = block(x, z, **masks, return_attention_scores=True)
    np.testing.assert_array_equal(
        to_numpy(own)[:, 0] != 0, np.tril(masks["decoder_attention_mask"])
    )
    np.testing.assert_array_equal(
        to_numpy(across)[:, 1] != 0, np.tile(masks["encoder_attention_mask"], (B, 1, 1)) != 0
    )
    *_, own = block(x, z, use_causal_mask=False, return_attention_scores=True)
    assert to_numpy(own).min() > 0


def test_without_an_encoder_the_block_is_a_causal_encoder_block():
    block, twin = TransformerDecoder(7, 2), TransformerEncoder(7, 2)
    ids = np.array([[4, 2, 0, 0], [3, 1, 2, 0]])
    x = keras.layers.Embedding(5, D, mask_zero=True)(ids)
    output, scores = block(x, return_attention_scores=True)
    twin.build(x.shape)
    twin.set_weights(block.get_weights())
    want = twin(x, use_causal_mask=True)
    np.testing.assert_allclose(to_numpy(output), to_numpy(want), atol=2e-6)
    assert scores.shape == (2, 2, 4, 4) and not to_numpy(scores)[0, :, :, 2:].any()
    second = TransformerEncoder(7, 2, "softmax")  # obeys the mask that the output carries
    np.testing.assert_allclose(
        to_numpy(second(block(x))), to_numpy(second(to_numpy(output), mask=ids != 0)), atol=1e-5
    )
    assert block.compute_output_shape((2, 3, D)) == (2, 3, D)


def test_centring_in_cross_attention_stays_within_a_row_for_a_template_too():
    coda = TransformerEncoder(7, 2, "coda", CENTERED)
    coda.build((None, None, D))
    template = coda.attention.__class__.from_config(coda.attention.get_config())
    block = TransformerDecoder(7, attention=template)
    x, z = normal(B, T, D), normal(B, S, E, seed=1)
    changed = x.copy()
    changed[:, 3:] *= -4
    np.testing.assert_allclose(
        to_numpy(block(x, z))[:, :3], to_numpy(block(changed, z))[:, :3], atol=2e-6
    )


@pytest.mark.parametrize(
    ("attention", "options", "policy", "normalize_first", "read"),
    [
        ("softmax", None, "float32", False, 0),
        ("coda", None, "mixed_bfloat16", True, 0),
        ("coda", CENTERED, "float32", True, 0),
        ("coda", CENTERED, "float32", True, 3),
        ("coda", CENTERED, "float32", False, 3),
    ],
)
def test_steps_give_what_one_call_gives(attention, options, policy, normalize_first, read):
    """Also after the first positions, `read` at once."""
    common = {"dropout": 0.5, "dtype": policy, "normalize_first": normalize_first}
    block = TransformerDecoder(7, 2, attention, options, **common)
    x, z = normal(B, T, D), normal(B, S, E, seed=1)
    mask = np.array(
        [[True, True, True, False, False], [True] * T, [True, False, True, False, True]]
    )
    source_mask = np.array([[True] * S, [True] * 3 + [False] * 4, [False] * S])
    x[~mask] = np.nan  # also of padding, which was written to the cache unchanged
    want = to_numpy(ops.cast(block(x, z, decoder_mask=mask, encoder_mask=source_mask), "float32"))
    cache = block.start_cache(ops.convert_to_tensor(z), T + 2, source_mask)
    room = np.pad(mask, ((0, 0), (0, 2)))
    tolerance = 1e-5 if policy == "float32" else 2.0**-5
    if read:
        first = ops.convert_to_tensor(x[:, :read])
        out, cache = block.prefill(first, cache, mask[:, :read], source_mask)
        real = mask[:, :read]
        np.testing.assert_allclose(to_numpy(out)[real], want[:, :read][real], atol=tolerance)
    for index in range(read, T):
        step = ops.convert_to_tensor(x[:, index : index + 1])
        out, cache = block.step(step, index, cache, decoder_mask=room, encoder_mask=source_mask)
        real = mask[:, index]
        out = to_numpy(ops.cast(out, "float32"))
        np.testing.assert_allclose(out[real, 0], want[real, index], atol=tolerance)


def test_bad_calls_are_named():
    x, z = normal(B, T, D), normal(B, S, E)
    with pytest.raises(ValueError, match="`encoder` must have shape"):
        TransformerDecoder(7, 2)(x, z[:, 0])
    with pytest.raises(ValueError, match="`decoder` must have shape"):
        TransformerDecoder(7, 2)(x[:, 0], z)


def test_an_encoder_that_the_block_was_not_built_for_is_named():
    x, z = normal(B, T, D), normal(B, S, E)
    alone, both = TransformerDecoder(7, 2, "softmax"), TransformerDecoder(7, 2, "softmax")
    alone(x)
    both(x, z)
    with pytest.raises(ValueError, match=r"`encoder` must be None.*encoder.shape=\(3, 7, 8\)"):
        alone(x, z)
    with pytest.raises(ValueError, match=r"`encoder` must be given.*encoder=None"):
        both(x)
    with pytest.raises(ValueError, match=r"`encoder` must be given.*encoder=None"):
        both.start_cache(None, T, batch_size=B)
    with pytest.raises(ValueError, match="`batch_size` must be given.*batch_size=None"):
        alone.start_cache(None, T)
    for name, shape in (("encoder_mask", (B, S)), ("encoder_attention_mask", (B, T, S))):
        with pytest.raises(ValueError, match=f"`{name}` needs `encoder`. Received: encoder=None"):
            alone(x, **{name: np.ones(shape, "bool")})
