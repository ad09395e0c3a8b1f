"""Attention by tiles of queries equals attention by the whole matrix, gradients included."""

import keras
import numpy as np
import pytest
from tools import only_on, run_with_gradients, to_numpy

from keras_quasiattn.attention import ATTENTIONS, by_rows
from keras_quasiattn.attention.base import for_any_length
from keras_quasiattn.attention.softmax import Softmax

NAMES = sorted(ATTENTIONS.keys() - {"coda"})  # CoDA has its own tiles
RANDOM = np.random.default_rng(0)
QUERY, VALUE = (RANDOM.normal(size=(2, n, 6)).astype("float32") for n in (13, 9))
MASK = RANDOM.random((2, 13, 9)) > 0.3
MASK[0, 4] = False  # an empty row
BIAS = RANDOM.normal(size=(3, 13, 9)).astype("float32")
CALLS = {
    "plain": {},
    "pairs": {"attention_mask": MASK},
    "keys": {"value_mask": np.arange(9) < [[9], [4]]},
    "causal": {"use_causal_mask": True},
    "bias": {"attention_bias": BIAS},
    "bias of keys": {"attention_bias": BIAS[:1, :1]},
    "all": {"attention_mask": MASK, "use_causal_mask": True, "attention_bias": BIAS},
}


@pytest.fixture
def tiles(monkeypatch):
    """Return a function that sets the rows per tile, and a list of what was tiled."""

    def of(rows):
        monkeypatch.setattr(by_rows, "LARGE", 0)
        monkeypatch.setattr(by_rows, "TILE", 2 * 3 * rows * 9)
        seen = []
        original = by_rows.map_tiles
        monkeypatch.setattr(
            by_rows,
            "map_tiles",
            lambda function, count, *more: (seen.append(count), original(function, count, *more))[
                1
            ],
        )
        return seen

    return of


def made(name, **options):
    keras.utils.set_random_seed(3)
    layer = ATTENTIONS[name](3, 4, **options)
    layer.build(QUERY.shape, VALUE.shape)
    return layer


def with_gradients(layer, call, training=None):
    """Return the output, and the gradients of the query, the value and every weight."""

    def run(query, value, *weights):
        with keras.StatelessScope(list(zip(layer.trainable_variables, weights, strict=True))):
            return [layer(query, value, training=training, **call)]

    cotangent = np.random.default_rng(1).normal(size=QUERY.shape).astype("float32")
    given = [QUERY, VALUE, *(to_numpy(one.value) for one in layer.trainable_variables)]
    outputs, gradients = run_with_gradients(run, given, [cotangent])
    return [*outputs, *gradients]


LEARNED = {"entmax": {"alpha": "learned"}, "null_softmax": {"null_score": "learned"}}


@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_gradients_are_those_of_the_whole_matrix(name, tiles):
    layer = made(name, **LEARNED.get(name, {}))
    calls = CALLS if name == "softmax" else {"all": CALLS["all"]}
    expected = {key: with_gradients(layer, call) for key, call in calls.items()}
    counted = tiles(rows=4)
    for key, call in calls.items():
        for got, want in zip(with_gradients(layer, call), expected[key], strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=5e-5, err_msg=key)
    assert set(counted) == {4}


@pytest.mark.parametrize("name", ["softmax", "differential", "relu"])
def test_dropout_drops_the_same_weights(name, tiles):
    expected = with_gradients(made(name, dropout=0.4, seed=1), {}, True)
    counted = tiles(rows=4)
    got = with_gradients(made(name, dropout=0.4, seed=1), {}, True)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
    assert counted


def test_only_large_matrices_are_tiled(monkeypatch):
    monkeypatch.setattr(by_rows, "LARGE", 100)
    short, long = keras.KerasTensor((2, 2, 3, 4)), keras.KerasTensor((2, 2, 9, 4))

    def is_tiled(query, key, return_scores=False):
        return for_any_length(abs, query, key, return_scores=return_scores) is not abs

    assert is_tiled(short, long) and is_tiled(long, short)
    assert not is_tiled(short, short) and not is_tiled(long, long, return_scores=True)


@only_on("tensorflow", "has graphs of unknown sizes")
def test_a_graph_of_unknown_lengths_finds_out(tiles):
    import tensorflow as tf

    layer = made("softmax")
    expected = with_gradients(layer, {})[:3]
    tiles(rows=4)

    @tf.function(input_signature=[tf.TensorSpec((None, None, 6))] * 2)
    def run(query, value):
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            output = layer(query, value, training=True)
        cotangent = np.random.default_rng(1).normal(size=QUERY.shape).astype("float32")
        return output, *tape.gradient(output, [query, value], output_gradients=cotangent)

    for one, other in zip(run(QUERY, VALUE), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@only_on("tensorflow", "has graphs of unknown sizes")
@pytest.mark.parametrize("name,given", [("attention_mask", MASK[:, :1]), ("attention_bias", BIAS)])
def test_one_row_for_all_queries_in_a_graph_of_unknown_lengths_was_that_of_the_first(
    name, given, tiles
):
    import tensorflow as tf

    layer, given = made("softmax"), given[:, :1]
    expected = to_numpy(layer(QUERY, VALUE, **{name: given}))
    tiles(rows=4)
    unknown = [tf.TensorSpec((None, None, 6))] * 2
    unknown.append(tf.TensorSpec((None, None, None), given.dtype))

    @tf.function(input_signature=unknown)
    def run(query, value, pairs):
        return layer(query, value, training=True, **{name: pairs})

    np.testing.assert_allclose(run(QUERY, VALUE, given), expected, rtol=2e-4, atol=2e-5)


def test_gradients_of_16_bits_were_summed_in_16_bits(monkeypatch):
    monkeypatch.setattr(by_rows, "LARGE", 0)
    monkeypatch.setattr(by_rows, "TILE", 4)  # a tile for each of 512 queries
    arrays = [np.zeros((1, 1, n, 2), "float32") for n in (512, 4, 4)]

    def run(query, key, value):
        given = [keras.ops.cast(x, "bfloat16") for x in (query, key, value)]
        attend = for_any_length(Softmax().attend, *given[:2], return_scores=False)
        return [attend(*given, None, learned={})]

    _, gradients = run_with_gradients(run, arrays, [np.ones((1, 1, 512, 2))])
    np.testing.assert_array_equal(gradients[2], np.full((1, 1, 4, 2), 128.0))
