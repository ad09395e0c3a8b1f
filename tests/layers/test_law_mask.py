"""Law 1: masks. True = attend, and what is masked is deleted.

Padding never matters, and empty rows are exact zeros.
"""

import keras
import numpy as np
import pytest
from cases import (
    CASES,
    every_case,
    one_of_each_by_default,
    one_of_each_call,
    one_of_each_first,
)
from layer_case import BATCH, FEATURES, randomize
from running import assert_close, gradients, masked_outputs, outputs, plain_outputs, shared_layer
from tools import long_except, only_on, to_numpy

from keras_quasiattn.layers import MaskedPooling

SEQUENCE_CASES = [case for case in CASES if case.stacks and None not in case.style.owners]
cases_with_sequences = pytest.mark.parametrize("case", SEQUENCE_CASES, ids=str)


def real_rows(case, results, masks):
    """Return the rows of real positions, or a whole pooled output, example by example."""
    return [
        output[b] if owner is None else output[b][masks[owner][b]]
        for output, owner in zip(results, case.style.owners, strict=True)
        for b in range(BATCH)
    ]


@every_case
def test_masked_is_deleted(case):
    layer, sequences, masks = shared_layer(case), case.sequences(), case.masks()
    masked = masked_outputs(case)
    deleted = [
        outputs(
            case, layer, [x[b, mask[b]][None] for x, mask in zip(sequences, masks, strict=True)]
        )
        for b in range(BATCH)
    ]
    expected = [deleted[b][i][0] for i in range(len(masked)) for b in range(BATCH)]
    assert_close(real_rows(case, masked, masks), expected)
    pairs = zip(masked, plain_outputs(case), strict=True)
    assert all(np.abs(one - other).max() > 1e-3 for one, other in pairs), "no mask is looked at"


@pytest.mark.parametrize(
    "padding",
    [
        pytest.param([np.nan], id="nan"),
        pytest.param([np.inf, -np.inf], id="inf", marks=pytest.mark.long),
        pytest.param([1e30, -1e4], id="large", marks=pytest.mark.long),
    ],
)
@one_of_each_by_default
def test_padding_content_never_matters(case, padding):
    layer, sequences, masks = shared_layer(case), case.sequences(), case.masks()
    spoiled = [x.copy() for x in sequences]
    for x, mask in zip(spoiled, masks, strict=True):
        x[~mask] = np.resize(padding, FEATURES)
    clean, result = masked_outputs(case), outputs(case, layer, spoiled, masks)
    if case.empty_rows_are_zero:
        for one, other in zip(result, clean, strict=True):
            np.testing.assert_array_equal(one, other)
    assert_close(real_rows(case, result, masks), real_rows(case, clean, masks), tolerance=1e-6)

    cotangents = [
        np.where(masks[owner][..., None], 1.0, 0.0) * np.ones(one.shape)
        if owner is not None
        else np.ones(one.shape)
        for one, owner in zip(clean, case.style.owners, strict=True)
    ]
    expected = gradients(case, layer, sequences, masks, cotangents)
    assert_close(gradients(case, layer, spoiled, masks, cotangents), expected, tolerance=1e-6)
    for gradient, mask in zip(expected[: len(masks)], masks, strict=True):
        assert not gradient[~mask].any()


@every_case
def test_a_row_with_nothing_to_attend_is_zero_and_has_no_gradient(case):
    layer, sequences, masks = shared_layer(case), case.sequences(), case.masks()
    result = masked_outputs(case)
    for output, owner in zip(result, case.style.owners, strict=True):
        assert np.isfinite(output).all()
        if case.empty_rows_are_zero:
            assert not output[-1].any()
            assert owner is None or not output[~masks[owner]].any()
    # A cotangent on the empty example alone.
    cotangents = [np.concatenate([0 * x[:-1], 1 + 0 * x[-1:]]) for x in result]
    for gradient in gradients(case, layer, sequences, masks, cotangents):
        assert np.isfinite(gradient).all()
        if case.empty_rows_are_zero:
            assert not gradient.any()


@only_on("jax", "a switch of JAX")
@one_of_each_by_default
def test_jax_debug_nans_stopped_at_a_nan_that_no_row_got(case):
    import jax

    layer, sequences, masks = shared_layer(case), case.sequences(), case.masks()
    cotangents = [np.ones(x.shape) for x in masked_outputs(case)]
    with jax.debug_nans(True):
        gradients(case, layer, sequences, masks, cotangents)


@pytest.mark.parametrize(
    ("length", "with_masks"),
    [
        (0, False),
        pytest.param(0, True, marks=pytest.mark.long),
        pytest.param(1, False, marks=pytest.mark.long),
        (1, True),
    ],
)
@one_of_each_by_default
def test_shortest_lengths(case, length, with_masks):
    layer = shared_layer(case)
    for shortened in range(len(case.style.lengths)):
        lengths = [length if i == shortened else n for i, n in enumerate(case.style.lengths)]
        sequences = case.sequences(lengths=lengths)
        masks = [np.ones(x.shape[:2], "bool") for x in sequences] if with_masks else None
        result = outputs(case, layer, sequences, masks)
        for output, owner in zip(result, case.style.owners, strict=True):
            assert np.isfinite(output).all()
            assert owner is None or output.shape[:2] == (BATCH, lengths[owner])
            if length == 0 and case.empty_rows_are_zero:
                assert not output.any()
        cotangents = [np.ones(x.shape) for x in result]
        for gradient in gradients(case, layer, sequences, masks, cotangents):
            assert np.isfinite(gradient).all()


@one_of_each_call
def test_an_empty_batch_has_answers_and_gradients_of_its_shape(case):
    layer, count = shared_layer(case), len(case.style.lengths)
    for lengths, is_masked in ((case.style.lengths, True), ((1, 0)[:count], False)):
        sequences = case.sequences(lengths=lengths, batch=0)
        masks = [np.ones(x.shape[:2], "bool") for x in sequences] if is_masked else None
        result = outputs(case, layer, sequences, masks)
        for output, full, owner in zip(result, plain_outputs(case), case.style.owners, strict=True):
            length = full.shape[1:2] if owner is None else (lengths[owner],)
            assert output.shape == (0, *length, *full.shape[2:])
        cotangents = [np.ones(x.shape) for x in result]
        for gradient in gradients(case, layer, sequences, masks, cotangents):
            assert not gradient.any()


@pytest.mark.parametrize("size", long_except([1, 2, 3], 2))
@one_of_each_by_default
def test_sizes_that_coincide_mean_nothing(case, size):
    """Heads, their size, batch and lengths may be equal without changing the result.

    Elsewhere these are unequal primes, so that a bias of one axis cannot fit another axis.
    """
    layer, lengths = shared_layer(case), [size] * len(case.style.lengths)
    sequences = case.sequences(lengths=lengths, batch=size)
    padded = [np.pad(x, ((0, 4), (0, 5 + place), (0, 0))) for place, x in enumerate(sequences)]
    masks = [np.tile(np.arange(x.shape[1]) < size, (len(x), 1)) for x in padded]
    expected = [
        x[:size] if owner is None else x[:size, :size]
        for x, owner in zip(outputs(case, layer, padded, masks), case.style.owners, strict=True)
    ]
    assert_close(outputs(case, layer, sequences), expected)


@pytest.mark.parametrize("spoilt", long_except([np.nan, np.inf, 1e30], np.nan))
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.options.get("use_causal_mask")], ids=str
)
def test_nan_ahead_of_a_causal_mask_reached_earlier_rows(case, spoilt):
    layer, (x,) = shared_layer(case), case.sequences()
    clean = plain_outputs(case)[0]
    x[1, 3] = spoilt
    (result,) = outputs(case, layer, [x])
    assert_close([result[1, :3], result[::2]], [clean[1, :3], clean[::2]])
    if not np.isfinite(spoilt):
        assert np.isnan(result[1, 3:]).all(), "a row that sees NaN says so"
    cotangents = [np.where(np.isfinite(result), 1.0, 0.0)]
    weights = gradients(case, layer, [case.sequences()[0]], None, cotangents)
    assert all(np.isfinite(gradient).all() for gradient in weights)


@one_of_each_call
def test_integer_masks_are_boolean_masks(case):
    # As in Keras, anything but 0 attends.
    masks = [mask * np.resize(np.int32([1, 2, -1]), mask.shape) for mask in case.masks()]
    result = outputs(case, shared_layer(case), case.sequences(), masks)
    for one, other in zip(result, masked_outputs(case), strict=True):
        np.testing.assert_array_equal(one, other)


@one_of_each_call
def test_a_float_mask_is_refused(case):
    layer, sequences = shared_layer(case), case.sequences()
    symbolic = [keras.Input((n, FEATURES)) for n in case.style.lengths]
    for index, name in enumerate(case.style.mask_names):
        masks = [None] * len(sequences)
        masks[index] = np.ones(sequences[index].shape[:2], "float32")
        message = rf"`{name}`.*float32".replace("[", r"\[").replace("]", r"\]")
        with pytest.raises(ValueError, match=message):
            outputs(case, layer, sequences, masks)
        masks[index] = keras.Input((case.style.lengths[index],))
        with pytest.raises(ValueError, match=message):
            case.run(layer, symbolic, masks)


@one_of_each_call
def test_implicit_masks_are_used_and_explicit_masks_win(case):
    layer, explicit = shared_layer(case), case.masks()
    implicit = [np.roll(mask[::-1], 1, axis=1) for mask in explicit]
    sequences = case.sequences()
    for x, mask in zip(sequences, implicit, strict=True):
        x[~mask] = 0.0
    carrying = [keras.layers.Masking()(x) for x in sequences]

    def run(masks):
        return to_numpy(case.run(layer, carrying, masks))

    expected = outputs(case, layer, sequences, implicit)
    assert_close(real_rows(case, run(None), implicit), real_rows(case, expected, implicit))
    expected = outputs(case, layer, sequences, explicit)
    assert_close(real_rows(case, run(explicit), explicit), real_rows(case, expected, explicit))


def two_layers_and_pooling(case, source):
    """Return a function of tokens, in which masks pass from embedding to pooling, and tokens.

    Token 0 is padding.
    """
    random = np.random.default_rng(3)
    tokens = [np.where(mask, random.integers(1, 13, mask.shape), 0) for mask in case.masks()]
    table = random.normal(size=(13, FEATURES)).astype("float32")
    table[0] = 0.0  # what `Masking` looks for
    embedding = keras.layers.Embedding(13, FEATURES, mask_zero=source == "embedding")
    embedding.build()
    embedding.set_weights([table])
    arguments = (
        {**case.arguments, "use_bias": True} if "use_bias" in case.parameters else case.arguments
    )
    layers = [case.layer(**arguments) for _ in range(2)]

    def function(tokens):
        sequences = [embedding(x) for x in tokens]
        if source == "masking":
            sequences = [keras.layers.Masking()(x) for x in sequences]
        for seed, layer in enumerate(layers):
            is_new = not layer.built
            results = case.run(layer, sequences)
            if is_new:
                randomize(layer, seed)
                results = case.run(layer, sequences)
            for result, owner in zip(results, case.style.owners, strict=True):
                sequences[owner] = result
        return [MaskedPooling()(sequences[owner]) for owner in case.style.owners]

    return function, tokens


@pytest.mark.parametrize("case", one_of_each_first(SEQUENCE_CASES, call_alone=True))
def test_two_layers_and_pooling_give_what_the_unpadded_input_gives(case):
    function, tokens = two_layers_and_pooling(case, "embedding")
    padded = to_numpy(function(tokens))
    for b in range(BATCH):
        short = [x[b, mask[b]][None] for x, mask in zip(tokens, case.masks(), strict=True)]
        assert_close([x[b : b + 1] for x in padded], to_numpy(function(short)))


@pytest.mark.parametrize(
    "source", ["masking", pytest.param("embedding", marks=pytest.mark.complete)]
)
@pytest.mark.long
@cases_with_sequences
def test_the_same_two_layers_in_a_model_give_the_same(case, source):
    function, tokens = two_layers_and_pooling(case, source)
    expected = to_numpy(function(tokens))
    inputs = [keras.Input((None,), dtype="int32") for _ in tokens]
    model = keras.Model(inputs, function(inputs))
    assert_close(keras.tree.flatten(model.predict(tokens, verbose=0)), expected)
