"""Calls run in turn have the outputs and gradients of the same calls at once."""

import keras
import numpy as np
import pytest
from tools import only_on, run_with_gradients

from keras_quasiattn import layers
from keras_quasiattn.core.tiling import rematerialize_in_turn

RANDOM = np.random.default_rng(0)
INPUTS = [RANDOM.normal(size=shape) for shape in ((2, 5, 6), (2, 0, 6), (2, 1, 6))]


tensorflow_alone = only_on("tensorflow", "other backends keep an order of themselves")


def made(count):
    connectors = [layers.BidirectionalAttentionConnector(2, dtype="float64") for _ in range(count)]
    for connector in connectors:
        connector.build([(2, None, 6)] * 2)
    return connectors, [lambda *pair, one=one: tuple(one(list(pair))) for one in connectors]


@pytest.mark.parametrize("count", [1, 3])
def test_calls_in_turn_are_those_calls(count):
    _, calls = made(count)

    def pairs(x, y, z):
        return [(x, y), (z, x), (x, x)][:count]

    def together(*texts):
        return [one for call, pair in zip(calls, pairs(*texts), strict=True) for one in call(*pair)]

    def in_turn(*texts):
        return [one for found in rematerialize_in_turn(calls, pairs(*texts)) for one in found]

    upstreams = [RANDOM.normal(size=one.shape) for one in together(*map(keras.ops.array, INPUTS))]
    expected, found = (
        run_with_gradients(function, INPUTS, upstreams) for function in (together, in_turn)
    )
    for one, other in zip([*expected[0], *expected[1]], [*found[0], *found[1]], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
    assert rematerialize_in_turn([], []) == []


@tensorflow_alone
def test_weights_learn_in_a_graph_what_they_learn_together():
    import tensorflow as tf

    connectors, calls = made(3)
    weights = [weight.value for connector in connectors for weight in connector.trainable_weights]
    x, y = (tf.constant(RANDOM.normal(size=(2, length, 6))) for length in (5, 3))

    def gradients(in_turn):
        with tf.GradientTape() as tape:
            found = (
                rematerialize_in_turn(calls, [(x, y)] * 3)
                if in_turn
                else [call(x, y) for call in calls]
            )
            total = tf.add_n([tf.reduce_sum(one**2) for both in found for one in both])
        return tape.gradient(total, weights)

    for one, other in zip(tf.function(gradients)(True), gradients(False), strict=True):
        assert np.abs(other).max() > 0
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@tensorflow_alone
def test_in_a_graph_a_call_begins_when_the_one_before_has_ended():
    import tensorflow as tf

    events = []

    def call_of(number):
        def log(x, what):
            def note(value):
                events.append((number, what))
                return value

            return x + tf.stop_gradient(tf.numpy_function(note, [x], x.dtype)) * 0

        # A square, whose gradient needs the call's input.
        return lambda x: (log(log(x, "begins") ** 2, "ends"),)

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            results = rematerialize_in_turn([call_of(number) for number in range(4)], [(x,)] * 4)
            total = tf.add_n([result for (result,) in results])
        return tape.gradient(total, x)

    np.testing.assert_allclose(gradient(tf.constant(3.0)), 4 * 2 * 3.0)
    forward = [(number, what) for number in range(4) for what in ("begins", "ends")]
    backward = [(number, what) for number in (3, 2, 1, 0) for what in ("begins", "ends")]
    assert events[:8] == forward
    # What the square's gradient does not need may be omitted or computed late.
    assert [event for event in events[8:] if event[1] == "begins"] == backward[::2]
