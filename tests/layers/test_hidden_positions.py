"""NaN and infinity at positions that a row may not see reach neither the row nor a gradient.

0 · NaN is NaN, so weights of 0 alone hide nothing. Rows that see such a position are NaN.
"""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from layer_case import randomize
from tools import CODA_IMPLEMENTATIONS, normal, only_on, run_with_gradients, sampled, to_numpy

from keras_quasiattn import layers
from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.core.masks import finite_positions

B, T, S, N, H, FEATURES = 3, 6, 5, 2, 4, 8
SPOILT, HIDDEN = 1, 4  # the example and the position that hold NaN
TIME = np.arange(T)
KEYS = np.ones((B, T), "bool")
KEYS[SPOILT, HIDDEN] = False
PAIRS = np.ones((B, T, T), "bool")
PAIRS[SPOILT, :3, HIDDEN] = False
SEGMENTS = np.tile([0, 0, 0, 1, 1, 1], (B, 1))
PACKED = {"attention_mask": SEGMENTS[:, :, None] == SEGMENTS[:, None]}
BIAS = np.where(PAIRS[:, None], 0, -np.inf).astype("float32")
CAUSAL = {"use_causal_mask": True}
# Arguments of the constructor and of the call, and the rows that do not see the position. The row
# at the position is NaN itself, as a query, unless its mask hides that too.
WAYS = {
    "keys": ({}, {"attention_mask": KEYS[:, None]}, TIME != HIDDEN),
    "pairs": ({}, {"attention_mask": PAIRS}, TIME < 3),
    "pairs of heads": ({}, {"attention_mask": np.stack([PAIRS] * N, 1)}, TIME < 3),
    "packed": ({}, PACKED, TIME < 3),
    "packed, causal": ({}, {**PACKED, **CAUSAL}, TIME < HIDDEN),
    "values": ({}, {"value_mask": KEYS}, TIME != HIDDEN),
    "values, also from keys": ({}, {"value_mask": KEYS, "key": True}, TIME != HIDDEN),
    "keys of their own": ({}, {"key_mask": KEYS, "key": True}, TIME != HIDDEN),
    "implicit": ({}, {"implicit": True}, TIME >= 0),
    "bias": ({}, {"attention_bias": BIAS}, TIME < 3),
    "bias, causal": ({}, {"attention_bias": BIAS, **CAUSAL}, TIME < HIDDEN),
    "causal": ({}, CAUSAL, TIME < HIDDEN),
    "window": ({"sliding_window": 2}, {}, abs(TIME - HIDDEN) > 1),
    "window, causal": ({"sliding_window": 2}, CAUSAL, (TIME < HIDDEN) | (TIME > HIDDEN + 1)),
    "shared heads": ({"num_key_value_heads": 1, "rotary_base": 1e4}, CAUSAL, TIME < HIDDEN),
    "gate": ({"use_gate": True}, {"attention_mask": PAIRS}, TIME < 3),
}


@functools.cache
def built(name, dtype, *options):
    layer = ATTENTIONS[name](N, H, dtype=dtype, **dict(options))
    layer.build((None, None, FEATURES), (None, None, FEATURES))
    randomize(layer)
    return layer


def outputs_and_gradients(layer, call, inputs, cotangent):
    """One output of `call(*inputs)`; gradients for the inputs and the weights of `layer`."""

    def function(*tensors):
        state = list(zip(layer.weights, tensors[len(inputs) :], strict=True))
        with keras.StatelessScope(state_mapping=state):
            return [call(*tensors[: len(inputs)])]

    weights = [ops.convert_to_numpy(one.value) for one in layer.weights]
    (output,), gradients = run_with_gradients(function, [*inputs, *weights], [cotangent])
    return output, gradients


def check_hidden(layer, call, inputs, place, spoilt, blind, lost=None):
    """Check that rows `blind` of the spoilt example, and all other examples, are unaffected."""
    known = np.ones((B, T), "bool")
    known[SPOILT] = blind
    cotangent = known[..., None] * normal(B, T, FEATURES, seed=5)
    spoiled = [x.copy() for x in inputs]
    spoiled[place][SPOILT, HIDDEN] = spoilt
    want, gradients = outputs_and_gradients(layer, call, inputs, cotangent)
    output, others = outputs_and_gradients(layer, call, spoiled, cotangent)
    rough = 3e-2 if layer.compute_dtype == "float16" else 1e-4
    np.testing.assert_allclose(output[known], want[known], rtol=rough, atol=rough)
    if not np.all(np.isfinite(spoilt)):
        assert np.isnan(output[~known]).all(), "a row that sees NaN says so"
    for gradient, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(other, gradient, rtol=rough, atol=rough * 10)


def check_way(name, way, spoilt, dtype, **options):
    own, call, blind = WAYS[way]
    call, layer = dict(call), built(name, dtype, *{**own, **options}.items())

    def attend(x):
        if call.get("implicit"):
            keras.src.backend.set_keras_mask(x, ops.convert_to_tensor(KEYS))
            return layer(x, x)
        key = {"key": x} if "key" in call else {}
        return layer(x, x, **{**call, **key})

    check_hidden(layer, attend, [normal(B, T, FEATURES)], 0, spoilt, blind)


CASES = [
    (name, way, spoilt, dtype)
    for name in ATTENTIONS
    for way in WAYS
    for spoilt in (np.nan, np.inf)
    for dtype in ("float32", "mixed_float16")
]


@pytest.mark.parametrize("name,way,spoilt,dtype", sampled(CASES, 40))
def test_nan_that_a_row_may_not_see_reached_it_and_every_gradient(name, way, spoilt, dtype):
    check_way(name, way, spoilt, dtype)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_what_overflows_in_a_float16_projection_reached_rows_that_may_not_see_it(name):
    check_way(name, "pairs", 6e4, "mixed_float16")


@pytest.mark.parametrize("implementation", CODA_IMPLEMENTATIONS)
@pytest.mark.parametrize("way", ["keys", "pairs", "causal", "window", "bias"])
def test_on_every_path_of_coda(way, implementation):
    if implementation == "compiled" and way == "bias":
        pytest.skip("compiled loops take no bias")
    check_way("coda", way, np.nan, "float32", implementation=implementation)


def test_integers_were_taken_for_infinite():
    if keras.backend.backend() == "torch":
        pytest.skip("PyTorch multiplies no integers with weights, in Keras' own layer neither")
    layer, x = built("coda", "float32"), np.arange(B * T * FEATURES).reshape(B, T, FEATURES) % 3
    for call in (CAUSAL, {"attention_mask": PAIRS}):
        want = to_numpy(layer(x.astype("float32"), x.astype("float32"), **call))
        have = to_numpy(layer(x, x, **call))
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


@only_on("torch", "of PyTorch")
def test_torch_compile_broke_its_graph_at_an_array():
    import torch

    run = torch.compile(finite_positions, backend="eager", fullgraph=True)
    for dtype, largest in (("float16", 65504.0), ("bfloat16", 3e38), ("float64", 1e308)):
        x = ops.convert_to_tensor([[[1.0, -largest], [1.0, np.inf], [np.nan, 0.0]]], dtype=dtype)
        assert run(x).tolist() == [[True, False, False]]
    torch._dynamo.reset()


def test_over_several_axes():
    layer = layers.MultiHeadSoftmax(N, H)
    layer.build((B, 2, 3, FEATURES), (B, 2, 3, FEATURES))
    x, seen = normal(B, 2, 3, FEATURES), np.ones((B, 2, 3, 2, 3), "bool")
    seen[SPOILT, 0, :, 1, 1] = False
    want = to_numpy(layer(x, x, attention_mask=seen))
    x[SPOILT, 1, 1] = np.nan
    output = to_numpy(layer(x, x, attention_mask=seen))
    np.testing.assert_allclose(output[SPOILT, 0], want[SPOILT, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(output[::2], want[::2], rtol=1e-5, atol=1e-6)
    assert np.isnan(output[SPOILT, 1]).all()


def test_a_mean_over_all_pairs_sees_every_row():
    x = normal(B, T, FEATURES)
    x[SPOILT, HIDDEN] = np.nan
    for options, sees in (({}, True), ({"center_per_query": True}, False)):
        layer = layers.MultiHeadCoDA(N, H, center_similarity=True, **options)
        output = to_numpy(layer(x, x, attention_mask=KEYS[:, None]))
        assert np.isnan(output[SPOILT, 0]).all() == sees
        assert np.isfinite(output[::2]).all()
        assert np.isfinite(to_numpy(layer(x, x, query_mask=KEYS, value_mask=KEYS))).all()


@pytest.mark.parametrize("name", ATTENTIONS)
def test_weights_of_a_row_that_sees_nan_are_nan_where_it_sees(name):
    x = normal(B, T, FEATURES)
    x[SPOILT, HIDDEN] = np.nan
    _, scores = built(name, "float32")(x, x, use_causal_mask=True, return_attention_scores=True)
    spoiled = np.isnan(to_numpy(scores)).any(1)
    sees = np.tril(np.ones((T, T), "bool")) & (TIME >= HIDDEN)[:, None]
    np.testing.assert_array_equal(spoiled[SPOILT], sees)
    assert not spoiled[::2].any()


ENCODER, DECODER = layers.TransformerEncoder, layers.TransformerDecoder
SEEN = np.ones((B, T, S), "bool")
SEEN[SPOILT, :3, HIDDEN] = False
# Class, options, lengths of the inputs, call, which input has NaN, and the rows that do not see it.
BLOCKS = {
    "encoder": (ENCODER, {}, (T,), {"attention_mask": PAIRS}, 0, TIME < 3),
    "causal": (ENCODER, {}, (T,), CAUSAL, 0, TIME < HIDDEN),
    "window": (ENCODER, {"sliding_window": 2}, (T,), {}, 0, abs(TIME - HIDDEN) > 1),
    "decoder": (DECODER, {}, (T, S), {}, 0, TIME < HIDDEN),
    "alone": (DECODER, {}, (T,), {}, 0, TIME < HIDDEN),
    "packed": (DECODER, {}, (T,), {"decoder_attention_mask": PACKED["attention_mask"]}, 0, None),
    "across": (DECODER, {}, (T, S), {"encoder_attention_mask": SEEN}, 1, TIME < 3),
    "padding": (DECODER, {}, (T, S), {"encoder_mask": KEYS[:, :S]}, 1, TIME >= 0),
}
OF_BLOCKS = [
    (kind, attention, first, dtype)
    for kind in BLOCKS
    for attention in ("coda", "softmax", "entmax")
    for first in (True, False)
    for dtype in ("float32", "mixed_float16")
]


@pytest.mark.parametrize("kind,attention,first,dtype", sampled(OF_BLOCKS, 12))
def test_a_block_spread_nan_to_rows_that_may_not_see_it(kind, attention, first, dtype):
    block, own, lengths, call, place, blind = BLOCKS[kind]
    blind = TIME < HIDDEN if blind is None else blind
    options = {"attention_options": own, "normalize_first": first, "dtype": dtype}
    layer = block(16, N, attention, **options)
    inputs = [normal(B, length, FEATURES, seed=length) for length in lengths]
    layer.build(*(x.shape for x in inputs))
    randomize(layer)
    check_hidden(layer, lambda *x: layer(*x, **call), inputs, place, np.nan, blind)


def bias_and_mask():
    """Return a bias with −∞ and an empty row, the mask of the rest, and the bias without −∞."""
    random = np.random.default_rng(3)
    seen, bias = random.random((B, 1, T, T)) < 0.6, normal(B, 1, T, T, seed=4)
    seen[0, 0, 2] = False
    return np.where(seen, bias, np.float32(-np.inf)), seen, bias


BIASED = [*((name, ()) for name in ATTENTIONS), ("entmax", (("alpha", "learned"),))]


@pytest.mark.parametrize(
    "name,options,dtype",
    [
        *((*one, "float32") for one in BIASED),
        *((name, (), "mixed_float16") for name in ("coda", "softmax", "entmax")),
    ],
)
def test_minus_infinity_in_a_bias_was_not_a_mask(name, options, dtype):
    layer, x = built(name, dtype, *options), normal(B, T, FEATURES)
    infinite, seen, bias = bias_and_mask()
    results = []
    for call, given in (({}, infinite), ({"attention_mask": seen}, bias)):
        for causal in (False, True) if (name, dtype) == ("coda", "float32") else (False,):
            _, scores = layer(x, x, attention_bias=given, return_attention_scores=True, **call)
            output, gradients = outputs_and_gradients(
                layer,
                lambda x, bias, call=call, causal=causal: layer(
                    x, x, attention_bias=bias, use_causal_mask=causal, **call
                ),
                [x, given],
                normal(B, T, FEATURES, seed=6),
            )
            results.append([to_numpy(scores), output, *gradients])
    half = len(results) // 2
    for have, want in zip(results[:half], results[half:], strict=True):
        assert not have[1][0, 2].any(), "an empty row is zero, without the bias of the projection"
        for one, other in zip(have, want, strict=True):
            assert np.isfinite(one).all()
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_so_it_is_in_a_graph_that_does_not_know_the_bias():
    infinite, seen, bias = bias_and_mask()
    x = normal(B, T, FEATURES)
    for name in ("coda", "gated"):
        layer = built(name, "float32")
        inputs = keras.Input((T, FEATURES)), keras.Input((1, T, T))
        model = keras.Model(inputs, layer(inputs[0], inputs[0], attention_bias=inputs[1]))
        for given, call in ((infinite, {"attention_mask": seen}), (bias, {})):
            want = to_numpy(layer(x, x, attention_bias=bias, **call))
            have = model.predict([x, given], verbose=0)
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_low_bias_subtracted_a_key_that_it_was_to_delete(name):
    layer, x = built(name, "float32"), normal(B, T, FEATURES)
    bias = np.where(TIME == HIDDEN, np.float32(-1e9), np.float32(0))
    call = {"return_attention_scores": True}
    subtracts = name in ("coda", "signed_softmax", "context_guided")
    if subtracts:
        with pytest.raises(ValueError, match=r"`attention_bias`.*must be −inf.*-10000.*-1e\+09"):
            layer(x, x, attention_bias=bias, **call)
        layer(
            x, x, attention_bias=bias, attention_mask=np.tile(TIME != HIDDEN, (T, 1))
        )  # no row sees it
        layer(x, x, attention_bias=np.maximum(bias, -1e4))
        upper = np.triu(np.full((T, T), -1e9, "float32"), 1)
        layer(x, x, attention_bias=upper, use_causal_mask=True)
    else:
        _, scores = layer(x, x, attention_bias=bias, **call)
        assert not to_numpy(scores)[..., HIDDEN].any()


@pytest.mark.parametrize(
    "name,options,spoilt",
    [*((*one, np.nan) for one in BIASED), *((name, (), np.inf) for name in ("coda", "softmax"))],
)
def test_nan_at_a_real_key_was_silently_left_out(name, options, spoilt):
    layer, x = built(name, "float32", *options), normal(B, T, FEATURES)
    key = x.copy()
    key[SPOILT, HIDDEN] = spoilt
    for training in (False, True):
        output = to_numpy(layer(x, x, key=key, training=training))
        assert np.isnan(output[SPOILT]).all() and np.isfinite(output[::2]).all()
    spoiled = np.isnan(to_numpy(layer(key, x)))
    assert spoiled[SPOILT, HIDDEN].all() and spoiled.sum() == FEATURES, "a query's own row alone"
