"""In every multi-head layer, separate keys have their own mask, which hides keys and values."""

import keras
import numpy as np
import pytest
from layer_case import randomize
from running import assert_close
from tools import to_numpy

from keras_quasiattn.layers import (
    MultiHeadCoDA,
    MultiHeadConflict,
    MultiHeadGated,
    MultiHeadSoftmax,
)

LAYERS = [MultiHeadCoDA, MultiHeadConflict, MultiHeadGated, MultiHeadSoftmax]
MASK = np.array(
    [[True] * 5 + [False] * 2, [False, True, False, True, True, True, True], [False] * 7]
)


def normal(*shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


QUERY, VALUE, KEY = normal(3, 5, 11, seed=0), normal(3, 7, 13, seed=1), normal(3, 7, 17, seed=2)


@pytest.fixture(params=LAYERS, ids=lambda layer_type: layer_type.__name__)
def layer(request):
    layer = request.param(2, 3)
    layer.build(QUERY.shape, VALUE.shape, KEY.shape)
    randomize(layer)
    return layer


def call(layer, *arguments, **options):
    results = layer(*arguments, return_attention_scores=True, **options)
    return to_numpy(list(results))


def test_a_key_that_its_mask_hides_is_as_if_deleted(layer):
    output, scores = call(layer, QUERY, VALUE, KEY, key_mask=MASK)
    for b, real in enumerate(MASK):
        alone, its_scores = call(
            layer, QUERY[b : b + 1], VALUE[b : b + 1, real], KEY[b : b + 1, real]
        )
        assert_close([output[b], scores[b][..., real]], [alone[0], its_scores[0]])
    assert not np.moveaxis(scores, -1, 1)[~MASK].any()


def test_masks_of_keys_and_of_values_hide_together(layer):
    of_values = np.roll(MASK[::-1], 2, axis=1)
    both = call(layer, QUERY, VALUE, KEY, value_mask=of_values, key_mask=MASK)
    assert_close(both, call(layer, QUERY, VALUE, KEY, value_mask=of_values & MASK))


def test_a_mask_that_keys_carry_is_used(layer):
    keys = keras.layers.Masking()(np.where(MASK[..., None], KEY, 0))
    assert_close(call(layer, QUERY, VALUE, keys), call(layer, QUERY, VALUE, KEY, key_mask=MASK))


def test_what_hidden_keys_hold_never_matters(layer):
    spoiled = np.where(MASK[..., None], KEY, np.nan)
    assert_close(
        call(layer, QUERY, VALUE, spoiled, key_mask=MASK),
        call(layer, QUERY, VALUE, KEY, key_mask=MASK),
    )
