"""Attention in tiles equals the definition, without a large tensor.

The tests cover tile edges, ties, dropout and learned factors.
"""

import json

import keras
import numpy as np
import pytest
import warm
from tools import CODA_IMPLEMENTATIONS, normals, only_on, run_with_gradients, to_numpy

from keras_quasiattn import ops
from keras_quasiattn.attention.coda import blockwise
from keras_quasiattn.attention.coda.tiles import tiled_sums
from keras_quasiattn.core.tiling import KEYS_PER_TILE

FAST = [name for name in CODA_IMPLEMENTATIONS if name not in ("auto", "reference")]
EDGE = KEYS_PER_TILE


def both(inputs, implementation, **options):
    """Return the output of `coda_attention`, and gradients of query, key, value and factors."""

    def function(query, key, value, *factors):
        factors = dict(zip(("alpha", "beta"), factors, strict=False))
        return [
            ops.coda_attention(
                query, key, value, implementation=implementation, **factors, **options
            )
        ]

    shape = (*inputs[0].shape[:-1], inputs[2].shape[-1])
    return run_with_gradients(function, inputs, [normals(*shape, seed=9)])


def assert_same(inputs, implementation, rtol=1e-9, atol=1e-11, **options):
    expected, expected_gradients = both(inputs, "reference", **options)
    got, got_gradients = both(inputs, implementation, **options)
    for want, have in zip(expected + expected_gradients, got + got_gradients, strict=True):
        np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("implementation", FAST)
@pytest.mark.parametrize(
    "target,source",
    [
        (1, 1),
        (5, EDGE - 1),
        (EDGE + 1, EDGE),
        (7, EDGE + 1),
        (3, 4 * EDGE + 1),
        (17, 1),
        (0, 3),
        (3, 0),
        (150, 300),
    ],
)
def test_lengths_at_and_beside_tile_edges(target, source, implementation):
    inputs = [normals(2, target, 5), normals(2, source, 5, seed=1), normals(2, source, 3, seed=2)]
    assert_same(inputs, implementation, alpha=0.4, beta=0.1)


@pytest.mark.parametrize("implementation", FAST)
def test_gradients_at_ties_are_those_of_the_definition(implementation):
    x = np.round(normals(2, 39, 4))  # small integers: most features tie somewhere
    assert_same([x, x, normals(2, 39, 4, seed=2)], implementation, alpha=0.2, beta=0.1)


@pytest.mark.parametrize("implementation", FAST)
@pytest.mark.parametrize("per_query", [False, True])
def test_learned_factors_get_their_gradients(implementation, per_query):
    inputs = [normals(2, 3, 9, 5), normals(2, 3, 35, 5, seed=1), normals(2, 3, 35, 5, seed=2)]
    factors = [np.abs(normals(3, 1, 1, seed=4)), np.abs(normals(3, 1, 1, seed=5)) * 0.1]
    assert_same(inputs + factors, implementation, gate_range="centered", center_per_query=per_query)


def test_factors_that_vary_along_keys():
    inputs = [normals(2, 9, 5), normals(2, 35, 5, seed=1), normals(2, 35, 5, seed=2)]
    factors = [normals(1, 35, seed=4), np.abs(normals(9, 35, seed=5)) * 0.1]
    assert_same(inputs + factors, "blockwise")


@pytest.mark.parametrize("implementation", FAST)
def test_dropout_drops_the_same_weights(implementation):
    inputs = [normals(2, 3, 9, 5), normals(2, 3, 35, 5, seed=1), normals(2, 3, 35, 5, seed=2)]
    seed = np.array([3, -7], "int32")
    assert_same(inputs, implementation, dropout=0.4, dropout_seed=seed, beta=0.1)
    kept, _ = both(inputs, implementation, beta=0.1)
    dropped, _ = both(inputs, implementation, beta=0.1, dropout=0.4, dropout_seed=seed)
    assert np.abs(kept[0] - dropped[0]).max() > 0.1


def test_the_pass_for_a_mean_computed_the_pattern_of_a_dropout_that_it_does_not_have(monkeypatch):
    seen = []

    def recorded(weights, tensors):
        seen.append((weights.dropout, weights.dropout_keys is not None))
        return tiled_sums(weights, tensors)

    monkeypatch.setattr(blockwise, "tiled_sums", recorded)
    x, options = normals(2, 9, 5), {"dropout": 0.4, "dropout_seed": np.array([3, -7], "int32")}
    ops.coda_attention(x, x, x, gate_range="centered", implementation="blockwise", **options)
    assert seen == [(0.0, False), (0.4, True)]


@pytest.mark.parametrize("implementation", FAST)
def test_numbers_of_numpy_could_not_be_read_by_the_operators(implementation):
    inputs = [normals(2, 9, 5, seed=seed) for seed in range(3)]
    options = {"dropout": np.float64(0.4), "is_causal": np.True_}
    assert_same(inputs, implementation, dropout_seed=np.array([3, -7], "int32"), **options)


@pytest.mark.parametrize("implementation", FAST)
def test_dropout_of_values_with_more_leading_axes_was_that_of_the_pairs(implementation):
    inputs = [normals(5, 3), normals(7, 3, seed=1), normals(2, 7, 3, seed=2)]
    seed = np.array([3, -7], "int32")
    assert_same(inputs, implementation, dropout=0.4, dropout_seed=seed)


@pytest.mark.parametrize("weights", [None, np.arange(3.0)])
def test_nan_and_infinity_in_a_key_spread_to_the_distances_of_all_keys(weights):
    x, y = normals(5, 3), normals(35, 3, seed=1)
    right = ops.pairwise_l1(x, y, weights)
    for bad in (np.nan, np.inf):
        y[4, 1] = bad
        found = to_numpy(ops.pairwise_l1(x, y, weights, implementation="blockwise"))
        others = np.arange(35) != 4
        np.testing.assert_allclose(found[:, others], to_numpy(right)[:, others], rtol=1e-12)
        assert not (found[:, 4] < 1e3).any()


@pytest.mark.parametrize("implementation", FAST)
def test_a_distance_of_its_own_and_both_directions(implementation):
    shapes = [(9, 4), (35, 4), (9, 6), (35, 6), (9, 3), (35, 5)]
    arrays = [normals(2, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    masks = np.arange(9) < np.array([[9], [4]]), np.arange(35) < np.array([[33], [1]])
    options = {"gate_range": "centered", "center_similarity": True, "beta": 0.2}
    roles = ("distance_a", "distance_b", "value_a", "value_b")

    def function(name):
        def run(a, b, *more):
            given = {**dict(zip(roles, more, strict=True)), **options, "implementation": name}
            return list(ops.coda_pair(a, b, *masks, **given))

        return run

    cotangents = [normals(2, 9, 5, seed=6), normals(2, 35, 3, seed=7)]
    expected, got = (
        run_with_gradients(function(name), arrays, cotangents)
        for name in ("reference", implementation)
    )
    for want, have in zip(expected[0] + expected[1], got[0] + got[1], strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("implementation", FAST)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_error_is_no_larger_than_the_plain_low_precision_computations(dtype, implementation):
    low = [keras.ops.cast(normals(2, 40, 16, seed=seed), dtype) for seed in range(3)]
    exact = [
        keras.ops.convert_to_tensor(
            keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")).astype("float64")
        )
        for x in low
    ]

    def plain(query, key, value):
        distance = keras.ops.sum(keras.ops.abs(query[:, :, None] - key[:, None]), -1)
        similarity = keras.ops.einsum("btd,bsd->bts", query, key)
        weights = keras.ops.tanh(similarity / 4) * 2 * keras.ops.sigmoid(-distance / 4)
        return keras.ops.einsum("bts,bsd->btd", weights, value)

    want = keras.ops.convert_to_numpy(
        ops.coda_attention(*exact, alpha=0.25, beta=0.25, implementation="reference")
    )
    have = ops.coda_attention(*low, alpha=0.25, beta=0.25, implementation=implementation)
    assert keras.backend.standardize_dtype(have.dtype) == dtype
    errors = [
        np.abs(keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")) - want).max()
        for x in (have, plain(*low))
    ]
    assert errors[0] <= errors[1]


@pytest.mark.parametrize("implementation", CODA_IMPLEMENTATIONS)
@pytest.mark.parametrize("scores", [False, True])
def test_the_definition_failed_where_a_distance_has_a_dtype_of_its_own(implementation, scores):
    if scores and implementation == "compiled":
        pytest.skip("compiled loops do not return scores")
    a, b = normals(2, 9, 5), normals(2, 35, 5, seed=1)
    exact = ops.coda_pair(a, b, beta=0.1, return_scores=scores, implementation="blockwise")
    low = {"value_a": a, "value_b": b, "beta": 0.1, "implementation": implementation}
    for x, y in ((np.float64, np.float32), (np.float32, np.float64)):
        compared = {"distance_a": a.astype(y), "distance_b": b.astype(y)}
        found = ops.coda_pair(a.astype(x), b.astype(x), **compared, **low, return_scores=scores)
        for have, want in zip(to_numpy(found), to_numpy(exact), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_a_large_common_offset_cancels():
    x, y = normals(1, 9, 16, dtype="float32"), normals(1, 35, 16, dtype="float32", seed=1)
    near, far = (
        keras.ops.convert_to_numpy(
            ops.pairwise_l1(x + shift, y + shift, implementation="blockwise")
        )
        for shift in (np.float32(0), np.float32(1024))
    )
    np.testing.assert_allclose(far, near, rtol=1e-4)


@only_on("tensorflow", "TensorFlow graphs")
@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.long)])
def test_graphs_agree_and_hold_no_tensor_with_a_place_for_every_pair(jit):
    import tensorflow as tf

    # Many keys for few queries, so that even a tile with all its features is less than all pairs.
    lengths = (7, 10 * EDGE + 3, 10 * EDGE + 3)
    x = [
        tf.constant(normals(1, 2, length, 3, dtype="float32", seed=seed))
        for seed, length in enumerate(lengths)
    ]

    @tf.function(jit_compile=jit)
    def step(query, key, value):
        with tf.GradientTape() as tape:
            tape.watch((query, key, value))
            output = ops.coda_attention(query, key, value, beta=0.1, implementation="blockwise")
        return output, tape.gradient(output, (query, key, value))

    expected = ops.coda_attention(*x, beta=0.1, implementation="reference")
    np.testing.assert_allclose(step(*x)[0], expected, rtol=2e-4, atol=2e-5)
    definition = step.get_concrete_function(*x).graph
    graphs = (
        [definition, *definition._functions.values()]
        if hasattr(definition, "_functions")
        else [definition]
    )
    shapes = [
        tensor.shape
        for graph in graphs
        for op in getattr(getattr(graph, "graph", graph), "get_operations", list)()
        for tensor in op.outputs
    ]
    assert len(shapes) > 50
    for shape in shapes:
        assert shape.rank is None or shape.rank < 5
        assert not shape.is_fully_defined() or shape.num_elements() < 2 * lengths[0] * lengths[1]


@only_on("tensorflow", "TensorFlow graphs")
@pytest.mark.parametrize("implementation", FAST)
@pytest.mark.parametrize("centered", [True, pytest.param(False, marks=pytest.mark.long)])
def test_lengths_unknown_before_run_time(implementation, centered):
    import tensorflow as tf

    x = tf.TensorSpec((None, None, None, 3), tf.float64)
    mask = tf.TensorSpec((None, 1, 1, None), tf.bool)
    bias = tf.TensorSpec((1, None, None, None), tf.float64)
    has_bias = implementation != "compiled"  # which adds none
    options = {
        "beta": 0.1,
        "center_similarity": centered,
        "gate_range": "centered" if centered else "scaled",
    }

    def attend(query, key, value, bias=None, **more):
        return ops.coda_attention(query, key, value, bias=bias, **more, **options)

    @tf.function(input_signature=[x, x, x, bias, mask])
    def step(query, key, value, bias, mask):
        given = (query, key, value, bias) if has_bias else (query, key, value)
        with tf.GradientTape() as tape:
            tape.watch(given)
            output = attend(*given, mask=mask, implementation=implementation)
        return [output, *tape.gradient(output, given)]

    for batch, target, source in ((2, 5, 7), (1, 33, 129), (3, 1, 1)):
        given = [
            normals(batch, 2, target, 3),
            *(normals(batch, 2, source, 3, seed=seed) for seed in range(2)),
            normals(1, 2, target, source),
        ]
        real = (np.arange(source) < max(1, source - 2))[None, None, None].repeat(batch, 0)
        outputs, gradients = run_with_gradients(
            lambda *tensors, real=real: [attend(*tensors, mask=real, implementation="reference")],
            given if has_bias else given[:3],
            [np.ones((batch, 2, target, 3))],
        )
        for have, want in zip(step(*given, real), outputs + gradients, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-11)


@pytest.mark.complete  # one process each; the tests above check what a graph holds
@only_on("tensorflow", "measures the TensorFlow backend")
@pytest.mark.parametrize(
    "heads,length,features,limit",
    [
        (1, 8192, 4, 256),  # one (T, S) matrix
        (8, 2048, 64, 512),  # many features: steps of a loop that overlap took 4 GiB here
    ],
)
def test_memory_of_both_passes_is_linear(heads, length, features, limit):
    options = {"implementation": "blockwise", "mode": "graph", "passes": "both", "heads": heads}
    options |= {"length": length, "features": features}
    words = ["-m", "benchmarks.memory", *(f"--{name}={value}" for name, value in options.items())]
    *_, last = warm.printed(words, warm.fresh).splitlines()
    assert json.loads(last)["above_base_mib"] < limit


@pytest.mark.parametrize("implementation", FAST)
@pytest.mark.parametrize("hidden", ["rows", "keys", "pairs"])
def test_long_causal_problems_with_masks_on_rows_keys_and_pairs(hidden, implementation):
    # Compiled loops cut 150 rows into chunks, and 300 keys into blocks.
    inputs = [normals(2, 150, 5), normals(2, 300, 5, seed=1), normals(2, 300, 3, seed=2)]
    lengths = np.array([130, 40])[:, None, None]
    mask = {
        "rows": np.arange(150)[:, None] < lengths,
        "keys": np.arange(300)[None] < lengths,
        "pairs": np.random.default_rng(3).random((2, 150, 300)) < 0.5,
    }[hidden]
    options = {"mask": mask, "is_causal": True, "gate_range": "centered", "beta": 0.1}
    assert_same(inputs, implementation, **options)


@pytest.mark.parametrize("implementation", FAST)
def test_a_single_problem_needs_no_batch_axis(implementation):
    inputs = [normals(9, 5), normals(35, 5, seed=1), normals(35, 3, seed=2)]
    mask = np.random.default_rng(3).random((9, 35)) < 0.6
    assert_same(inputs, implementation, mask=mask, beta=0.1)
    assert ops.coda_attention(*inputs, implementation=implementation).shape == (9, 3)
    a, b = ops.coda_pair(inputs[0], inputs[1], implementation=implementation)
    assert (a.shape, b.shape) == ((9, 5), (35, 5))


@pytest.mark.parametrize("implementation", FAST)
def test_compiled_loops_left_out_the_sum_of_other_values_without_features(implementation):
    a, b = normals(2, 9, 5), normals(2, 7, 5, seed=1)
    outputs = ops.coda_pair(a, b, value_a=a[..., :0], implementation=implementation)
    assert [tuple(output.shape) for output in outputs] == [(2, 9, 5), (2, 7, 0)]
