"""Sparse weights and weighted distances in compiled loops, compared with tensors."""

import functools
import importlib.util
import itertools

import keras
import numpy as np
import pytest
import warm
from checks import recorded_passes
from tools import CODA_IMPLEMENTATIONS, normals, only_on, run_with_gradients, sampled, to_numpy

from keras_quasiattn import layers, ops
from keras_quasiattn.attention import sparsemax
from keras_quasiattn.core import l1

if "compiled" not in CODA_IMPLEMENTATIONS:
    pytest.skip("needs the extra `compiled`", allow_module_level=True)

BACKEND = keras.backend.backend()
SIZES = [(5, 7), (9, 9), (64, 64), (3, 300), (1, 1), (1, 5), (5, 1), (0, 3), (3, 0)]
ALPHAS = [2.0, 1.5, 1.25, 1.7, 1.01, 2.5, 4.0]


@pytest.fixture
def both(monkeypatch):
    """Return a function that calls another with tensors and with loops."""

    def run(function, *arguments):
        results = []
        for few in (2**40, -1):
            monkeypatch.setattr(sparsemax, "_FEW_SCORES", few)
            monkeypatch.setattr(l1, "_FEW_DIFFERENCES", few)
            results.append(function(*arguments))
        return results

    return run


@pytest.fixture
def calls(monkeypatch):
    """Record the passes of the loops, in the order in which they run."""
    from keras_quasiattn.attention.sparsemax import SparseCall
    from keras_quasiattn.core.l1_loops import DistanceCall

    return recorded_passes(monkeypatch, SparseCall, DistanceCall)


def near(found, expected, limit=1e-9):
    np.testing.assert_allclose(found, expected, rtol=limit, atol=limit)


def masks(lead, target, source):
    """Return masks of every shape that broadcasts to (*lead, T, S), with empty rows."""
    random = np.random.default_rng(1)
    shapes = [(source,), (target, source), (target, 1), (*lead, 1, source), (*lead, target, source)]
    found = [random.random(shape) < 0.6 for shape in shapes]
    found += [found[-1][:, :1], np.tri(target, source, dtype=bool)]
    for mask in found[4:6]:
        mask[..., :1, :] = False
    return [None, np.zeros((target, source), bool), *found]


@pytest.mark.parametrize("alpha,size", sampled(itertools.product(ALPHAS, SIZES), 12))
def test_sparse_weights(alpha, size, both, calls):
    target, source = size
    limit = 1e-9 if alpha <= 2 else 1e-6  # above, the root is steep at the edge
    shape = (2, 3, target, source)
    for number, mask in enumerate(masks(shape[:2], target, source)):
        scores = (0.2, 1.0, 20.0)[number % 3] * normals(*shape)
        expected, found = both(
            run_with_gradients,
            lambda x, mask=mask: [ops.entmax(x, mask, alpha)],
            [scores],
            [normals(*shape, seed=1)],
        )
        near(found[0][0], expected[0][0], limit)
        near(found[1][0], expected[1][0], limit)
    # XLA omits calls without elements.
    assert calls == ["forward", "backward"] * (number + 1) or not target * source


@pytest.mark.parametrize("alpha", ALPHAS)
def test_sparse_weights_in_float32(alpha, both):
    scores = 3 * normals(2, 5, 200, dtype="float32")
    function = functools.partial(run_with_gradients, lambda x: [ops.entmax(x, alpha=alpha)])
    (exact,), (slopes,) = function([scores.astype("float64")], [normals(*scores.shape, seed=1)])
    limit = 1e-5 if alpha <= 2 else 1e-3
    for (weights,), (gradient,) in both(function, [scores], [normals(*scores.shape, seed=1)]):
        assert weights.dtype == gradient.dtype == "float32"
        near(weights, exact, limit)
        np.testing.assert_allclose(gradient, slopes, rtol=limit, atol=10 * limit)


@pytest.mark.parametrize("alpha", [2.0, 1.5, 1.25, 3.0])
def test_nan_infinity_and_the_ends_of_float32(alpha, both):
    rows = [
        [np.nan, 0, 1],
        [np.inf, 0, 1],
        [-np.inf, 0, 1],
        [3e38, 2e38, -3e38],
        [-3e38, -3e38, -3e38],
        [1e4, 1e4 + 0.125, 1e4 - 1],
        [0, -1e30, 5],
    ]
    scores = np.array([rows], "float32")
    for mask in (None, np.array([True, True, True]), np.array([False, True, True])):
        expected, found = both(lambda mask=mask: to_numpy(ops.entmax(scores, mask, alpha)))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_hidden_score_and_its_upstream_have_no_effect(both):
    scores, upstream, mask = normals(4, 9), normals(4, 9, seed=1), normals(4, 9, seed=2) > 0
    results = []
    for hidden in (0.0, np.nan):
        x, g = (np.where(mask, one, hidden) for one in (scores, upstream))
        results += both(run_with_gradients, lambda x: [ops.sparsemax(x, mask)], [x], [g])
    for found in results[1:]:
        near(found[0][0], results[0][0][0])
        near(np.where(mask, found[1][0], 0), np.where(mask, results[0][1][0], 0))


LEADS = [((2,), (2,)), ((), ()), ((2, 1), (3,))]


@pytest.mark.parametrize(
    "size,features,lead", sampled(itertools.product(SIZES, [1, 6, 33], LEADS), 12)
)
def test_distances(size, features, lead, both, calls):
    target, source = size
    x, y = (
        normals(*first, length, features, seed=seed)
        for seed, (first, length) in enumerate(zip(lead, (target, source), strict=True))
    )
    x[..., :1, :] = 0.5  # a tie
    y[..., :1, :] = 0.5
    weights = normals(features, seed=2)
    if features > 1:
        weights[1] = 0
    upstream = normals(*np.broadcast_shapes(*lead), target, source, seed=3)
    for given in ([x, y, weights], [x, y]):
        expected, found = both(
            run_with_gradients, lambda *given: [ops.pairwise_l1(*given)], given, [upstream]
        )
        for one, right in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
            near(one, right)
    assert calls == ["forward", "backward"] * 2 or not target * source


def test_a_common_offset_of_both_sides_does_not_cost_precision(both):
    x, y = normals(2, 5, 8), normals(2, 9, 8, seed=1)
    weights = normals(8, seed=2).astype("float32")
    low = [(side + 1000).astype("float32") for side in (x, y)]
    exact = to_numpy(ops.pairwise_l1(*(side.astype("float64") for side in low), weights))
    for found in both(lambda: to_numpy(ops.pairwise_l1(*low, weights))):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


def test_nan_in_a_position_stays_there(both):
    x, y = normals(2, 5, 8), normals(2, 9, 8, seed=1)
    y[0, 3, 2] = x[1, 2, 5] = np.nan
    weights = normals(8, seed=2)
    expected = to_numpy(ops.pairwise_l1(x, y, weights, implementation="reference"))
    for found in both(lambda: to_numpy(ops.pairwise_l1(x, y, weights))):
        near(found, expected)


def test_a_gradient_depended_on_which_thread_ended_first():
    from keras_quasiattn.core.l1_loops import DistanceCall

    x, y, upstream = normals(1, 24, 8), normals(1, 9, 8, seed=1), normals(1, 24, 9, seed=2)
    scales = np.exp(10 * normals(1, 24, 1, seed=3))  # so that the order of a sum changes it
    found = []
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        given = [x, y, np.ones((1, 1, 8))], [upstream * scales]
        gradients = DistanceCall().run(
            *given, spread=lambda share, most, order=order: [share(n, 3) for n in order]
        )
        found.append(gradients[1])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize("kind", [layers.MultiHeadEntmax, layers.MultiHeadConflict])
def test_fit_and_predict_use_the_loops(kind, calls, tmp_path):
    inputs = keras.Input((70, 8))
    model = keras.Model(inputs, kind(2, 8)(inputs, inputs))
    data = normals(8, 70, 8, dtype="float32")
    model.compile("sgd", "mse")
    model.fit(data, data, verbose=0)
    assert calls == ["forward", "backward"]
    model.predict(data, verbose=0)
    assert calls[2:] == ["forward"]
    if BACKEND == "tensorflow":
        model.export(tmp_path / "served", verbose=False)
        assert b"PyFunc" not in (tmp_path / "served" / "saved_model.pb").read_bytes()


@pytest.mark.parametrize("shape", [(3, 40), (7, 40), (2, 3, 40), (5, 39), (5, 41), (3, 1, 40)])
def test_a_mask_of_other_lengths_is_an_error(shape, both):
    """The loops do not check the sizes of masks: with another T they read past the end."""
    with pytest.raises(Exception, match="(?i)broadcast|size|shape"):
        both(lambda: to_numpy(ops.sparsemax(normals(2, 5, 40), np.ones(shape, bool))))[1]


def test_a_forked_process_starts_threads_of_its_own():
    """The pool of its parent would make it wait forever."""
    script = """
import os, runpy, sys
over_cores = runpy.run_path(sys.argv[1])["over_cores"]
for _ in range(20):
    over_cores(lambda number, count: None, 2)
if not os.fork():
    over_cores(lambda number, count: None, 2)
    os._exit(0)
os.wait()
"""
    file = importlib.util.find_spec("keras_quasiattn.core.compiled.threads").origin
    warm.printed(["-c", script, file], warm.fresh, timeout=60)


@only_on("torch", "transformations of PyTorch")
def test_transformations_of_torch(both):
    """`torch.func` cannot transform the operators, so it gets tensors."""
    import torch

    scores, mask = (torch.tensor(x) for x in (normals(3, 4, 9), normals(4, 9, seed=1) > -0.5))

    def total(x):
        return (ops.entmax(x, mask) ** 3).sum()

    expected, *_ = both(lambda: torch.func.grad(total)(scores))
    for found in both(lambda: torch.func.vmap(torch.func.grad(total))(scores)):
        near(to_numpy(found), to_numpy(expected))


def test_few_scores_are_tensors(calls):
    ops.sparsemax(normals(3, 9))
    ops.pairwise_l1(normals(3, 9), normals(4, 9), normals(9))
    assert not calls


@only_on("tensorflow", "only TensorFlow's graphs may not know lengths")
@pytest.mark.parametrize("length", [3, 200])
def test_a_graph_that_does_not_know_the_lengths_chooses_when_it_runs(length, calls):
    import tensorflow as tf

    from keras_quasiattn.core.tensors import training_call

    shapes = [(None, None, None), (None, None, 4)]
    specs = [*map(tf.TensorSpec, shapes), tf.TensorSpec((None, 1, None), tf.bool)]

    @tf.function(input_signature=specs)
    def graph(scores, x, mask):
        with tf.GradientTape() as tape, training_call(True):
            tape.watch([scores, x])
            weights = ops.sparsemax(scores, mask)
            distances = ops.pairwise_l1(x, x + 1)
            total = tf.reduce_sum(weights**2) + tf.reduce_sum(distances**2)
        return weights, distances, *tape.gradient(total, [scores, x])

    scores, mask = normals(3, length, length, dtype="float32"), np.ones((3, 1, length), bool)
    x = normals(3, length, 4, dtype="float32")
    weights, distances, *_ = graph(scores, x, mask)
    assert (calls == []) is (length == 3)
    near(weights, ops.sparsemax(scores))
    near(distances, ops.pairwise_l1(x, x + 1, implementation="reference"), 1e-4)


@pytest.mark.parametrize("alpha", [2.0, 1.5, 3.0])
def test_a_row_of_infinitely_low_scores_is_nan_as_without_its_masked_keys(alpha, both):
    scores = np.full((1, 3, 4), -np.inf)
    scores[0, 1, :2] = scores[0, 1:, 3] = 0.0
    mask = np.array([[[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]], bool)
    alone = ops.entmax(scores[:, :1, :3], alpha=alpha)
    for found in both(lambda x: ops.entmax(x, mask, alpha=alpha), scores):
        np.testing.assert_array_equal(found[0, 0, :3], alone[0, 0])
        np.testing.assert_allclose(found[0], [[np.nan] * 3 + [0], [0.5, 0.5, 0, 0], [0] * 4])


@only_on("torch", "of PyTorch")
def test_torch_compile_keeps_the_operators_in_one_graph(calls):
    import torch

    def weights(x):
        return ops.sparsemax(x, x > -1)

    x = torch.from_numpy(normals(4, 70, 70, dtype="float32")).requires_grad_()
    run = torch.compile(weights, backend="aot_eager", fullgraph=True)
    got, right = ((y, *torch.autograd.grad((y**2).sum(), x)) for y in (run(x), weights(x)))
    assert calls.count("forward") == 2
    torch._dynamo.reset()
    for one, expected in zip(got, right, strict=True):
        torch.testing.assert_close(one, expected)


@only_on("jax", "transformations of JAX")
def test_transformations_of_jax(both):
    import jax
    from jax import export

    scores, x = normals(3, 2, 9, 13), normals(3, 2, 9, 5)
    weights, mask = normals(3, 5), normals(3, 9, 13) > -0.5

    def total(scores, x, weights, mask):
        found = ops.entmax(scores, mask), ops.pairwise_l1(x, x + 1, weights)
        return sum((one**2).sum() for one in found)

    def run():
        given = (scores, x, weights, mask)
        slopes = jax.grad(total, (0, 1, 2))
        one = [array[0] for array in given]
        again = jax.grad(lambda *given: sum((s**2).sum() for s in slopes(*given)), (0, 1))
        program = jax.jit(slopes)
        exported = export.export(program, platforms=("cpu", "cuda"))(*one)
        assert "keras_quasiattn_compiled" not in str(exported.mlir_module())
        return [jax.jit(jax.vmap(slopes))(*given), again(*one), program(*one), exported.call(*one)]

    for found, expected in zip(*map(jax.tree.leaves, both(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
