"""Forward-mode and second derivatives in float64: right on every path, or an error."""

import keras
import numpy as np
import pytest
from tools import CODA_IMPLEMENTATIONS, normals, only_on, to_numpy

from keras_quasiattn import ops
from keras_quasiattn.attention import sparsemax
from keras_quasiattn.core import l1
from keras_quasiattn.layers import MultiHeadCoDA
from keras_quasiattn.models import SequenceCrossentropy

BACKEND = keras.backend.backend()
IDS = np.array([[0, 1, 2, 0], [2, 2, 1, 0]])


def tensor(x):
    return keras.ops.convert_to_tensor(x)


MASK, POINT, DIRECTION = normals(2, 1, 3, seed=1) > -1, normals(2, 4, 3), normals(2, 4, 3, seed=3)


def coda(implementation):
    def attend(x):
        key, value = tensor(normals(2, 6, 3, seed=1)), tensor(normals(2, 6, 2, seed=2))
        options = {"center_similarity": True, "implementation": implementation}
        return ops.coda_attention(x, key, value, **options)

    return attend


# Functions of a tensor (2, 4, 3). The first ones are computed in loops if there are many numbers.
SPARSE = {
    "sparsemax": lambda x: ops.sparsemax(x, MASK),
    "entmax 1.4": lambda x: ops.entmax(x, MASK, alpha=1.4),
    "entmax 3": lambda x: ops.entmax(x, MASK, alpha=3.0),
    "distances": lambda x: ops.pairwise_l1(x, tensor(normals(2, 6, 3, seed=1))),
    "weighted distances": lambda x: ops.pairwise_l1(x, 2 * x, normals(3, seed=2)),
}
LOOPS = {f"{name} in loops": function for name, function in SPARSE.items()}
FUNCTIONS = {
    **SPARSE,
    **(LOOPS if "compiled" in CODA_IMPLEMENTATIONS else {}),
    **{f"coda {name}": coda(name) for name in CODA_IMPLEMENTATIONS},
    "entmax learned": lambda x: ops.entmax(2 * x, MASK, alpha=1.3 + x[..., :1] ** 2),
    "loss": lambda x: SequenceCrossentropy(0.1).call(IDS, x),
}
NO_FORWARD_MODE = ("distances", "weighted distances", "coda blockwise", "loss")


@pytest.fixture
def function(request, monkeypatch):
    few = -1 if request.param.endswith("in loops") else 2**40
    monkeypatch.setattr(sparsemax, "_FEW_SCORES", few)
    monkeypatch.setattr(l1, "_FEW_DIFFERENCES", few)
    function = FUNCTIONS[request.param.removesuffix(" in loops")]
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    return function


def moved(function, x, direction):
    """Return the derivative of a function in a direction, in forward mode."""
    x, direction = tensor(x), tensor(direction)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.autodiff.ForwardAccumulator(x, direction) as forward:
            y = function(x)
        return forward.jvp(y)
    if BACKEND == "jax":
        import jax

        return jax.jvp(function, (x,), (direction,))[1]
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(x, direction))).tangent


def slope(function, x):
    """Return the gradient of Σ function(x)³, which can be differentiated."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(function(x) ** 3)
        return tape.gradient(total, x)
    if BACKEND == "jax":
        import jax

        return jax.jit(jax.grad(lambda x: (function(x) ** 3).sum()))(x)
    import torch

    return torch.autograd.grad((function(x) ** 3).sum(), x, create_graph=True)[0]


def second(function, x, direction):
    """Return the gradient of Σ slope · direction."""
    x, direction = tensor(x), tensor(direction)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(slope(function, x) * direction)
        return tape.gradient(total, x)
    if BACKEND == "jax":
        import jax

        return jax.jit(jax.grad(lambda x: (slope(function, x) * direction).sum()))(x)
    import torch

    x.requires_grad_()
    return torch.autograd.grad((slope(function, x) * direction).sum(), x)[0]


def difference(function, x, direction, step):
    """Return the derivative in a direction as a quotient of differences."""

    def values(x):
        x = tensor(x)
        x = x.requires_grad_() if BACKEND == "torch" else x
        return keras.ops.convert_to_numpy(function(x))

    return (values(x + step * direction) - values(x - step * direction)) / (2 * step)


def check(found, expected, limit):
    found, expected = map(keras.ops.convert_to_numpy, (found, expected))
    np.testing.assert_allclose(found, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("function", FUNCTIONS, indirect=True)
def test_forward_mode_is_right_and_not_zero(function, request):
    name = request.node.callspec.params["function"]
    if BACKEND == "jax" and name in NO_FORWARD_MODE:
        with pytest.raises(TypeError, match="custom_vjp"):
            moved(function, POINT, DIRECTION)
        return
    expected = difference(function, POINT, DIRECTION, 1e-5)
    assert np.abs(expected).max() > 1e-2
    check(moved(function, POINT, DIRECTION), expected, 1e-2 if name == "loss" else 1e-6)


@pytest.mark.parametrize("function", FUNCTIONS, indirect=True)
def test_second_derivatives_are_those_of_the_gradient(function, request):
    loss = request.node.callspec.params["function"] == "loss"  # on JAX partly in float32
    step, limit = (1e-3, 2e-2) if loss else (1e-5, 1e-5)
    expected = difference(lambda x: slope(function, x), POINT, DIRECTION, step)
    check(second(function, POINT, DIRECTION), expected, limit)


@only_on("tensorflow", "of TensorFlow")
@pytest.mark.skipif("compiled" not in CODA_IMPLEMENTATIONS, reason="needs the extra `compiled`")
def test_forward_mode_over_a_gradient_from_loops_is_not_zero():
    import tensorflow as tf

    x, factor = tensor(POINT), tf.ones((), "float64")
    with tf.autodiff.ForwardAccumulator(factor, tf.ones((), "float64")) as forward:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = factor * tf.reduce_sum(coda("compiled")(x))
        gradient = tape.gradient(total, x)
    check(forward.jvp(gradient), gradient, 1e-9)


@only_on("torch", "of PyTorch")
@pytest.mark.parametrize("implementation", ["auto", "blockwise"])
def test_transforms_of_torch_take_tiles(implementation):
    import torch

    x, attend, plain = tensor(POINT), coda(implementation), coda("reference")
    found = torch.func.jvp(attend, (x,), (tensor(DIRECTION),))[1]
    check(found, moved(plain, POINT, DIRECTION), 1e-9)
    found = torch.func.grad(lambda x: (attend(x) ** 3).sum())(x)
    check(found, slope(plain, tensor(POINT).requires_grad_()), 1e-9)


@only_on("torch", "of PyTorch")
@pytest.mark.parametrize("name", ["distances", "coda blockwise"])
def test_vmap_of_torch_could_not_map_tiles(name):
    import torch

    function = FUNCTIONS[name]
    points, directions = (torch.stack([tensor(x), tensor(2 * x)]) for x in (POINT, DIRECTION))
    slopes = torch.func.vmap(torch.func.grad(lambda x: (function(x) ** 3).sum()))(points)
    moves = torch.func.vmap(lambda x, to: torch.func.jvp(function, (x,), (to,))[1])
    found = zip(points, directions, slopes, moves(points, directions), strict=True)
    for point, direction, gradient, move in found:
        check(gradient, slope(function, point.requires_grad_()), 1e-9)
        check(move, moved(function, to_numpy(point), to_numpy(direction)), 1e-9)


@only_on("jax", "of JAX")
@pytest.mark.parametrize("center", [False, True])
def test_under_shard_map_tiles_started_as_the_same_on_all_devices(center):
    import jax

    def total(x, shared):
        distances = ops.pairwise_l1(x, x, weights=shared[0, 0], implementation="blockwise")
        options = {"center_similarity": center, "is_causal": center, "implementation": "blockwise"}
        return (distances**2).sum() + (ops.coda_attention(x, shared, shared, **options) ** 3).sum()

    kinds = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((1,), ("batch",), axis_types=kinds, devices=jax.devices()[:1])
    own, same = (jax.sharding.PartitionSpec(*axes) for axes in (["batch"], []))
    slopes = jax.grad(lambda x, shared: jax.lax.psum(total(x, shared), "batch"), (0, 1))
    specs = {"in_specs": (own, same), "out_specs": (own, same)}
    x, shared = tensor(POINT), tensor(normals(1, 6, 3, seed=1))
    with jax.disable_jit(False):
        found = jax.jit(jax.shard_map(slopes, mesh=mesh, **specs))(x, shared)
    for one, expected in zip(found, jax.grad(total, (0, 1))(x, shared), strict=True):
        check(one, expected, 1e-9)


def masked_coda(x):
    mask = (x[..., :1] < 9) & tensor(normals(4, 4) > -1)
    options = {"dropout": 0.5, "dropout_seed": tensor([1, 2]), "implementation": "blockwise"}
    return ops.coda_attention(x, x, x, mask, **options)


@only_on("jax", "of JAX")
@pytest.mark.parametrize(
    "function",
    [
        masked_coda,
        lambda x: SequenceCrossentropy(0.1).call(keras.ops.where(x[..., 0] < 9, IDS, 0), x),
    ],
    ids=["coda", "loss"],
)
def test_a_captured_mask_or_id_left_jax_without_gradients_of_compiled_functions(function):
    import jax

    def total(x):
        return (function(x) ** 2).sum()

    def scanned(x):
        return jax.lax.scan(lambda x, _: (x, total(x)), x, length=1)[1].sum()

    x = tensor(POINT)
    with jax.disable_jit(False):
        right = jax.grad(total)(x)
        for one in (jax.jit(total), jax.checkpoint(total), scanned):
            np.testing.assert_allclose(jax.grad(one)(x), right, rtol=1e-9)


@only_on("tensorflow", "of TensorFlow")
@pytest.mark.skipif("compiled" not in CODA_IMPLEMENTATIONS, reason="needs the extra `compiled`")
@pytest.mark.parametrize("masked", [False, True])
def test_second_derivatives_of_loops_in_a_graph_of_unknown_sizes(masked):
    import tensorflow as tf

    layers = [MultiHeadCoDA(2, 8, implementation=name) for name in ("compiled", "blockwise")]
    for layer in layers:
        layer.build((None, None, 6), (None, None, 6))
        layer.set_weights(layers[0].get_weights())
    x = np.random.default_rng(0).normal(size=(2, 70, 6)).astype("float32")
    mask = np.arange(70) < [[70], [31]] if masked else np.ones((2, 70), bool)

    def penalty(layer, x, mask):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                given = {"value_mask": mask} if masked else {}
                y = tf.reduce_sum(layer(x, x, training=True, **given) ** 2)
            slopes = tf.reduce_sum(inner.gradient(y, x) ** 2)
        return outer.gradient(slopes, x)

    specs = [tf.TensorSpec((None, None, 6)), tf.TensorSpec((None, None), tf.bool)]
    found = tf.function(lambda *given: penalty(layers[0], *given), input_signature=specs)(x, mask)
    expected = penalty(layers[1], tf.constant(x), tf.constant(mask))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
