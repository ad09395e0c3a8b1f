"""Attention over the open positions only: the same numbers, from fewer rows if possible."""

import gating
import keras
import numpy as np
import pytest
from tools import only_on, run_with_gradients, to_numpy

from keras_quasiattn import ops

SIZES = [(3, 7, 5), (1, 1, 1), (3, 0, 2), (0, 4, 2), (5, 1, 3), (2, 13, 11)]
every_size = pytest.mark.parametrize("size", SIZES, ids=str)
every_implementation = pytest.mark.parametrize("implementation", ["auto", "reference", "gathered"])


def skip_where_jax_traces(implementation):
    if keras.backend.backend() == "jax" and implementation == "gathered":
        pytest.skip("JAX traces for gradients, where nothing can be gathered")


def examples(size, dtype="float64"):
    """Return states, kernel, and gates that are all closed in the first and last row."""
    random = np.random.default_rng(0)
    gates = random.random(size[:2]) > 0.5
    gates[:1] = gates[-1:] = False
    return random.normal(size=size).astype(dtype), random.normal(size=size[-1]).astype(dtype), gates


def convolution(kernels):
    """Return h[b, t] = relu(Σ_k x[b, t + k] · kernels[k]) for positions with all their inputs."""

    def encode(x):
        length = x.shape[1] - len(kernels) + 1
        parts = [
            keras.ops.einsum("nle,ed->nld", x[:, k : k + length], keras.ops.convert_to_tensor(one))
            for k, one in enumerate(kernels)
        ]
        return keras.ops.relu(sum(parts))

    return encode


def states_of(window, width):
    """Return the arguments for a convolution over `window` inputs, and how to compute its states.

    Without a window, the inputs are the states.
    """
    if window is None:
        return {}, lambda x: x
    encode = convolution(np.random.default_rng(2).normal(size=(window, width, width)))
    padding = ((0, 0), (window // 2, window // 2), (0, 0))
    return {"encode": encode, "window": window}, lambda x: encode(keras.ops.pad(x, padding))


@every_size
@pytest.mark.parametrize("window", [None, 1, 3, 5])
@every_implementation
def test_numbers(size, window, implementation):
    inputs, kernel, gates = examples(size)
    options, encoded = states_of(window, size[2])
    expected = gating.soft_attention(to_numpy(encoded(inputs)), kernel, gates)
    options["implementation"] = implementation
    got = ops.open_positions_attention(inputs, kernel, gates, return_scores=True, **options)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(to_numpy(one), other, rtol=1e-9, atol=1e-11)
    alone = ops.open_positions_attention(inputs, kernel, gates, **options)
    np.testing.assert_array_equal(to_numpy(alone), to_numpy(got[0]))


@every_size
@pytest.mark.parametrize("window", [None, 3])
@every_implementation
def test_gradients(size, window, implementation):
    skip_where_jax_traces(implementation)
    inputs, kernel, gates = examples(size)
    options, encoded = states_of(window, size[2])
    options |= {"return_scores": True, "implementation": implementation}
    cotangents = [
        np.random.default_rng(1).normal(size=shape) for shape in ((size[0], size[2]), size[:2])
    ]
    _, got = run_with_gradients(
        lambda x, w: ops.open_positions_attention(x, w, gates, **options),
        [inputs, kernel],
        cotangents,
    )
    _, expected = run_with_gradients(
        lambda x, w: ops.soft_attention(encoded(x), w, gates, return_scores=True),
        [inputs, kernel],
        cotangents,
    )
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    assert window or not got[0][~gates].any()


@every_implementation
def test_closed_positions_do_not_matter(implementation):
    skip_where_jax_traces(implementation)
    states, kernel, gates = examples((3, 7, 5), "float32")
    spoiled = states.copy()
    spoiled[~gates] = np.nan
    run = [
        run_with_gradients(
            lambda h, w: [ops.open_positions_attention(h, w, gates, implementation=implementation)],
            [h, kernel],
            [np.ones((3, 5))],
        )
        for h in (states, spoiled)
    ]
    for one, other in zip(keras.tree.flatten(run[0]), keras.tree.flatten(run[1]), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@every_implementation
def test_large_scores(implementation, dtype):
    states, kernel, gates = examples((3, 7, 5), dtype)
    kernel = (300 * kernel).astype(dtype)
    got = to_numpy(
        ops.open_positions_attention(states, kernel, gates, implementation=implementation)
    )
    assert got.dtype == dtype
    # With scores this large, one position per row remains.
    best = np.argmax(
        np.where(gates, gating.scores(states.astype("float64"), kernel.astype("float64")), -1e9), 1
    )
    expected = np.where(gates.any(1)[:, None], states[np.arange(3), best], 0)
    np.testing.assert_allclose(got, expected, atol=1e-2)


def test_gathered_computes_the_open_rows_alone(monkeypatch):
    from keras_quasiattn.layers import gated_attention

    states, kernel, gates = examples((3, 7, 5), "float32")
    seen = []
    original = gated_attention.position_scores
    monkeypatch.setattr(
        gated_attention,
        "position_scores",
        lambda h, w: (seen.append(tuple(h.shape)), original(h, w))[1],
    )
    ops.open_positions_attention(states, kernel, gates)
    assert seen == [(gates.sum(), 5)]


def test_graph_of_unknown_batch_and_length(tensorflow_only):
    import tensorflow as tf

    signature = [
        tf.TensorSpec((None, None, 5)),
        tf.TensorSpec((5,)),
        tf.TensorSpec((None, None), tf.bool),
    ]
    function = tf.function(
        lambda h, w, g: ops.open_positions_attention(
            h, w, g, return_scores=True, implementation="gathered"
        ),
        input_signature=signature,
    )
    for size in ((3, 7, 5), (2, 4, 5), (1, 0, 5), (0, 3, 5)):
        states, kernel, gates = examples(size, "float32")
        for one, other in zip(
            function(states, kernel, gates),
            gating.soft_attention(states, kernel, gates),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert function.experimental_get_tracing_count() == 1
    kinds = {node.op for node in function.get_concrete_function().graph.as_graph_def().node}
    assert not kinds & {"While", "StatelessWhile"}


def test_static_shapes_take_the_reference_and_refuse_gathered(jitted):
    states, kernel, gates = examples((3, 7, 5), "float32")

    def run(implementation):
        def function(h, w, g):
            return ops.open_positions_attention(h, w, g, implementation=implementation)

        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            # One function in another, as Keras compiles a model.
            return tf.function(lambda *x: tf.function(function, jit_compile=True)(*x))(
                states, kernel, gates
            )
        import jax

        return jax.jit(function)(states, kernel, gates)

    if keras.backend.backend() == "torch":
        pytest.skip("PyTorch has no such place")
    expected, _ = gating.soft_attention(states, kernel, gates)
    for implementation in ("auto", "reference"):
        np.testing.assert_allclose(to_numpy(run(implementation)), expected, atol=1e-5)
    with pytest.raises(ValueError, match="implementation='gathered'"):
        run("gathered")


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"open_positions": np.ones((3, 7))}, "`open_positions` must be boolean.*float64"),
        ({"implementation": "fast"}, "`implementation` must be one of .*implementation='fast'"),
        ({"window": 2}, "`window` must be odd.*window=2"),
        (
            {"encode": abs, "states": np.ones((7, 5))},
            r"`states` must have shape \(B, T, E\) with `encode`.*\(7, 5\)",
        ),
        ({"kernel": np.ones(4)}, r"`states` must have shape \(B, T, D\).*\(3, 7, 5\).*\(4,\)"),
        ({"states": np.ones((7, 5))}, r"`states` must have shape \(B, T, D\).*\(7, 5\)"),
    ],
)
def test_errors(arguments, message):
    states, kernel, gates = examples((3, 7, 5))
    with pytest.raises(ValueError, match=message):
        ops.open_positions_attention(
            **{"states": states, "kernel": kernel, "open_positions": gates, **arguments}
        )


@only_on("torch", "a transform of PyTorch")
def test_vmap_of_torch_could_not_gather_a_number_of_rows_that_differs():
    import torch

    states, kernel, gates = map(torch.as_tensor, examples((4, 7, 5)))

    def attend(states, gates):
        return ops.open_positions_attention(states[None], kernel, gates[None])[0]

    expected = ops.open_positions_attention(states, kernel, gates)
    torch.testing.assert_close(torch.func.vmap(attend)(states, gates), expected)
