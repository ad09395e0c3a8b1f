"""Every layer rejects, by name, masks of wrong rank or size and the wrong number of inputs."""

import keras
import numpy as np
import pytest
from cases import CASES, ONE_OF_EACH
from layer_case import BATCH, FEATURES
from running import as_tensor, shared_layer
from tools import to_numpy

from keras_quasiattn import layers
from keras_quasiattn.layers.base import PairAttention

every_class = pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
PAIR_CASES = [case for case in CASES if issubclass(case.layer, PairAttention)]


@every_class
def test_a_mask_that_is_not_of_the_positions_was_taken(case):
    """(B, N, T) for a (B, T, D), which `TimeDistributed` passes on, and sizes that do not fit."""
    layer, sequences = shared_layer(case), case.sequences()
    symbolic = [keras.Input(x.shape[1:], batch_size=BATCH) for x in sequences]
    for index, name in enumerate(case.style.mask_names):
        length = sequences[index].shape[1]
        for shape in (
            (BATCH, length, length),  # coincides with the positions and itself
            (BATCH, length, FEATURES),
            (BATCH, 1, 1, length),
            (length,),
            (BATCH, length + 1),
            (BATCH + 1, length),
        ):
            masks = [None] * len(sequences)
            masks[index] = np.ones(shape, "bool")
            message = rf"`{name}` must have shape \(batch, length\).*attention_mask`.*{shape}"
            message = message.replace("[", r"\[").replace("]", r"\]")
            message = message.replace(
                str(shape), str(shape).replace("(", r"\(").replace(")", r"\)")
            )
            with pytest.raises(ValueError, match=message):
                case.run(layer, [as_tensor(x) for x in sequences], masks)
            if shape[1:] and len(shape) > 2:
                masks[index] = keras.Input(shape[1:], batch_size=BATCH, dtype="bool")
                with pytest.raises(ValueError, match=r"must have shape \(batch, length\)"):
                    case.run(layer, symbolic, masks)


@every_class
def test_an_axis_of_length_1_did_not_stand_for_all_positions(case):
    layer, sequences = shared_layer(case), list(map(as_tensor, case.sequences()))
    short = [np.array([[True], [False], [True]])] * len(sequences)
    whole = [mask.repeat(x.shape[1], 1) for mask, x in zip(short, sequences, strict=True)]
    for one, other in zip(*(case.run(layer, sequences, m) for m in (short, whole)), strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), rtol=1e-5, atol=1e-6)


B, T, S, N = 3, 5, 7, 2
WRONG_PAIRS = [(T,), (B, S, T), (B + 1, T, S), (B, N + 1, T, S), (B, N, 1, T, S), (B, S)]
RIGHT_PAIRS = [(T, S), (B, T, S), (B, N, T, S), (B, 1, S), (B, 1, T, S), (1, 1, T, 1)]


def test_an_attention_mask_that_is_not_of_the_pairs_was_taken():
    x, y = np.ones((B, T, 8), "float32"), np.ones((B, S, 8), "float32")
    attention, decoder = layers.MultiHeadCoDA(N, 4), layers.TransformerDecoder(8, N)
    belongs = {"attention_mask": "`query_mask` and `value_mask`"}
    for layer, name in ((attention, "attention_mask"), (decoder, "encoder_attention_mask")):
        for shape in RIGHT_PAIRS:
            layer(x, y, **{name: np.ones(shape, "bool")})
        for shape in WRONG_PAIRS:
            where = belongs.get(name, "`encoder_mask`")
            message = rf"`{name}` must have .*\(5, 7\).*belongs in {where}.*Received"
            with pytest.raises(ValueError, match=message):
                layer(x, y, **{name: np.ones(shape, "bool")})
        with pytest.raises(ValueError, match=f"`{name}` must be boolean.*float32"):
            layer(x, y, **{name: np.ones((B, T, S), "float32")})
    with pytest.raises(ValueError, match="`key_mask` must have shape"):
        attention(x, y, key=y, key_mask=np.ones((N, B, S), "bool"))
    own = np.ones((B, T, S), "bool")
    encoder = layers.TransformerEncoder(8, N)
    with pytest.raises(ValueError, match="`attention_mask` must have .*belongs in `mask`"):
        encoder(x, attention_mask=own)
    with pytest.raises(ValueError, match="`decoder_attention_mask` .*belongs in `decoder_mask`"):
        decoder(x, y, decoder_attention_mask=own)
    with pytest.raises(ValueError, match="`decoder_attention_mask` must be boolean.*float32"):
        decoder(x, y, decoder_attention_mask=np.ones((B, T, T), "float32"))


@pytest.mark.parametrize("name", ["query_mask", "value_mask", "key_mask"])
@pytest.mark.parametrize("kind", [layers.MultiHeadSoftmax, layers.MultiHeadCoDA])
def test_over_several_axes_one_axis_of_length_1_was_an_error(kind, name):
    options = {"gate_range": "centered"} if kind is layers.MultiHeadCoDA else {}
    layer, random = kind(N, 4, **options), np.random.default_rng(0)
    x = random.normal(size=(B, 3, 4, 8)).astype("float32")
    for shape in ((B, 1, 4), (B, 3, 1)):
        mask = random.random(shape) < 0.6
        expected = layer(x, x, **{name: np.broadcast_to(mask, (B, 3, 4))})
        found = layer(x, x, **{name: mask})
        np.testing.assert_allclose(to_numpy(found), to_numpy(expected), rtol=1e-5, atol=1e-6)


def test_over_several_axes_the_axes_of_the_input_count():
    layer, x = layers.MultiHeadSoftmax(N, 4, attention_axes=(1,)), np.ones((B, 4, 3, 8), "float32")
    layer(x, x, query_mask=np.ones((B, 4, 3), "bool"))
    for right in ((B, 3, 4, 4), (B, 3, N, 4, 4), (4, 4)):
        layer(x, x, attention_mask=np.ones(right, "bool"))
    for name, wrong in (("query_mask", (B, 4)), ("attention_mask", (B, 4, 4, 3))):
        with pytest.raises(ValueError, match=f"`{name}` must have shape"):
            layer(x, x, **{name: np.ones(wrong, "bool")})


@pytest.mark.parametrize("case", PAIR_CASES, ids=str)
def test_a_built_pair_layer_took_one_tensor_for_two_sequences(case):
    layer, (x, y) = shared_layer(case), map(as_tensor, case.sequences())
    one = keras.ops.concatenate([x[:1], x[:1]])
    for inputs, received in (
        (one, r"one .* of shape \(2, 5, 11\)"),
        ([x], r"\[\(3, 5, 11\)\]"),
        ([x, y, x], r"\[.*, .*, \(3, 5, 11\)\]"),
        ([x, y[0]], r"\[\(3, 5, 11\), \(7, 11\)\]"),
    ):
        with pytest.raises(ValueError, match=rf"`inputs` must be a list \[a, b\].*{received}"):
            layer(inputs)
    for inputs in (keras.Input((5, 11), batch_size=2), [keras.Input((5, 11))] * 3):
        with pytest.raises(ValueError, match=r"`inputs` must be a list \[a, b\]"):
            layer(inputs)
    with pytest.raises(ValueError, match="`mask` must be a list.*3 masks"):
        layer([x, y], mask=[None] * 3)
