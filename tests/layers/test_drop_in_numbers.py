"""With Keras' weights, `MultiHeadSoftmax` gives Keras' numbers, except for intended differences."""

import keras
import numpy as np
import pytest
from drop_in import (
    FEATURES,
    MASK,
    QUERY,
    SHAPES,
    VALUE,
    built,
    close,
    randomize,
    self_attention_model,
    twins,
)
from keras.layers import MultiHeadAttention
from tools import normal, run_with_gradients, to_numpy

from keras_quasiattn.layers import MultiHeadSoftmax

SAME_CALLS = [
    ({}, {}),
    ({}, {"attention_mask": MASK}),
    ({}, {"attention_mask": MASK[0]}),
    ({}, {"attention_mask": MASK.astype("int32")}),
    ({}, {"attention_mask": np.stack([MASK, ~MASK | MASK[..., ::-1]], 1)}),
    ({}, {"use_causal_mask": True}),
    ({}, {"use_causal_mask": True, "attention_mask": MASK}),
    ({}, {"value_mask": MASK[:, 1]}),
    ({}, {"key_mask": MASK[:, 1], "key": VALUE[..., ::-1]}),
    ({}, {"value_mask": MASK[:, 1], "key_mask": MASK[:, 2], "key": VALUE[..., ::-1]}),
    ({"value_dim": 5}, {}),
    ({"output_shape": 13}, {}),
    ({"output_shape": (2, 3)}, {}),
    ({"use_gate": True}, {"attention_mask": MASK}),
    ({"use_bias": False}, {}),
    ({"sliding_window": 4}, {}),
]
same_calls = pytest.mark.parametrize(
    "options,call", SAME_CALLS, ids=[f"{[*o]}-{[*c]}" for o, c in SAME_CALLS]
)


@same_calls
def test_softmax_gives_the_same_numbers(options, call):
    theirs, ours = twins(MultiHeadSoftmax, **options)
    # With scores, because without them Keras' layer does not accept another value_dim on JAX.
    expected = theirs(QUERY, VALUE, return_attention_scores=True, **call)
    close(ours(QUERY, VALUE, return_attention_scores=True, **call), expected)
    close(ours(QUERY, VALUE, **call), expected[0])


@pytest.mark.parametrize("axes", [None, 1, (2,), (1, 2)], ids=str)
def test_softmax_gives_the_same_numbers_over_any_axes(axes):
    free = {1: (2,), (2,): (1,)}.get(axes, ())
    query = np.random.default_rng(0).normal(size=(3, 2, 5, FEATURES)).astype("float32")
    value = query if free else query.reshape(3, 5, 2, FEATURES)[:, :, ::-1]
    shapes = query.shape, value.shape
    theirs, ours = twins(MultiHeadSoftmax, *shapes, attention_axes=axes)
    close(*(layer(query, value, return_attention_scores=True) for layer in (ours, theirs)))


@pytest.mark.parametrize("options,call", [SAME_CALLS[i] for i in (1, 6, 9, 10, 13)], ids=range(5))
def test_softmax_gives_the_same_gradients(options, call):
    results = []
    for layer in twins(MultiHeadSoftmax, **options):

        def output(query, value, *weights, layer=layer):
            with keras.StatelessScope(list(zip(layer.weights, weights, strict=True))):
                return [layer(query, value, return_attention_scores=True, **call)[0]]

        values = [to_numpy(w.value) for w in layer.weights]
        shape = (3, 5, *np.atleast_1d(options.get("output_shape", FEATURES)))
        toward = np.random.default_rng(4).normal(size=shape)
        results.append(run_with_gradients(output, [QUERY, VALUE, *values], [toward])[1])
    close(*results)


def test_softmax_gives_the_same_numbers_under_implicit_masks():
    theirs, ours = (self_attention_model(t) for t in (MultiHeadAttention, MultiHeadSoftmax))
    ours.set_weights(theirs.get_weights())
    randomize(ours)
    theirs.set_weights(ours.get_weights())
    tokens = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8], [9, 0, 0, 0, 0]])
    seen = tokens != 0
    close(to_numpy(ours(tokens))[seen], to_numpy(theirs(tokens))[seen])


# Intended differences: docs/guides/migration.md has the reasons.


def test_difference_a_negative_axis_is_one_of_the_inputs():
    x = normal(3, 2, 5, FEATURES)
    theirs, ours = (
        built(t, x.shape, x.shape, attention_axes=axis)
        for t, axis in ((MultiHeadAttention, 2), (MultiHeadSoftmax, -2))
    )
    close(ours(x, x), theirs(x, x))


def test_difference_a_bias_is_on_the_axis_of_heads(tensorflow_only):
    changes = []
    for layer in (MultiHeadAttention(4, 1), MultiHeadSoftmax(4, 1)):
        layer.build(*SHAPES)
        layer.value_dense.bias.assign([[0.0], [10.0], [20.0], [30.0]])
        # Identical positions give the same result, however many there are.
        four, five = (
            to_numpy(layer(x, x))[0, 0] for x in np.split(np.ones((1, 9, FEATURES)), [4], 1)
        )
        changes.append(np.abs(four - five).max())
    assert changes[1] < 1e-4 < changes[0]
