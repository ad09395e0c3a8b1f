"""Which implementation "auto" takes, and that compiled loops run only where they may."""

import functools

import keras
import numpy as np
import pytest
from checks import recorded_passes
from tools import CODA_IMPLEMENTATIONS, long_except, normal, only_on, reloaded

from keras_quasiattn import layers, ops
from keras_quasiattn.attention.coda import choice
from keras_quasiattn.attention.coda.composition import Composition, Pairs
from keras_quasiattn.core.tensors import training_call

compiled = pytest.mark.skipif(
    "compiled" not in CODA_IMPLEMENTATIONS, reason="needs the extra `compiled`"
)
tensorflow_loops = pytest.mark.skipif(
    "compiled" not in CODA_IMPLEMENTATIONS or keras.backend.backend() != "tensorflow",
    reason="needs TensorFlow and the extra `compiled`",
)
LENGTH = 70  # above the few pairs for which "auto" takes the definition


def chosen(target, source, *, training=True, alpha=1.0, beta=1.0):
    query, key = (keras.KerasTensor((64, length, 8)) for length in (target, source))
    with training_call(training):
        pairs = Pairs(query, key, query, key, Composition(), alpha, beta)
        return choice.compute_by_choice(lambda name: name, "auto", pairs)


def kinds(function):
    """Return the types of operation in the graph of a `tf.function`."""
    return {operation.type for operation in function.get_concrete_function().graph.get_operations()}


@pytest.mark.parametrize("lengths", [(1, 5000), (5000, 1), (8, 16), (None, 1), (0, 7)])
def test_few_pairs_take_the_definition(lengths):
    assert chosen(*lengths) == "reference"


def test_many_pairs_never_take_the_definition():
    assert chosen(33, 32) == ("compiled" if "compiled" in CODA_IMPLEMENTATIONS else "blockwise")


def test_compiled_loops_take_short_sequences_of_large_batches():
    expected = "compiled" if "compiled" in CODA_IMPLEMENTATIONS else "reference"
    assert chosen(9, 16) == chosen(32, 32) == expected


@only_on("jax", "only JAX compiles what it runs")
def test_on_a_gpu_xla_takes_the_definition_up_to_large_matrices(monkeypatch):
    monkeypatch.setattr(choice, "on_accelerator", lambda x: True)
    monkeypatch.setattr(
        choice, "obstacle_to_loops", lambda x, features: "runs only where JAX computes on CPUs"
    )
    assert chosen(2000, 2000) == "reference"  # 64 batches: 2.6e8 pairs
    assert chosen(2100, 2100) == "blockwise"


@only_on("torch", "Triton's kernels are for PyTorch")
def test_on_a_gpu_pytorch_takes_the_kernels_where_triton_is(monkeypatch):
    monkeypatch.setattr(choice, "on_accelerator", lambda x: True)
    monkeypatch.setattr(choice, "INSTALLED", {"triton"})
    assert (chosen(33, 32), chosen(9, 16, training=False)) == ("compiled", "compiled")
    monkeypatch.setattr(choice, "INSTALLED", {"numba"})
    assert chosen(33, 32) == "blockwise"
    x = normal(2, LENGTH, 5)
    with pytest.raises(ValueError, match="implementation='compiled'.* needs Triton on a GPU"):
        ops.coda_attention(x, x, x, implementation="compiled")


@functools.cache
def graph_of_unknown_lengths(implementation, training):
    """Return both ops and their gradients as one `tf.function`, and its types of operation."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((2, None, 3)), tf.TensorSpec((2, None, 3))])
    def graph(a, b):
        options = {"implementation": implementation, "training": training}
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            outputs = [ops.coda_attention(a, b, b, **options), *ops.coda_pair(a, b, **options)]
        return outputs, tape.gradient(outputs, [a, b])

    return graph, kinds(graph)


@only_on("tensorflow", "only TensorFlow's graphs may not know lengths")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("target,source", [(5, 7), (LENGTH, LENGTH), (0, 3), (3, 1)])
def test_a_graph_that_does_not_know_the_lengths_chooses_when_it_runs(target, source, training):
    graph, types = graph_of_unknown_lengths("auto", training)
    definition, other_types = graph_of_unknown_lengths("reference", False)
    assert types & {"If", "StatelessIf"} and not other_types & {"If", "StatelessIf"}
    (outputs, gradients), (expected, expected_gradients) = (
        run(normal(2, target, 3), normal(2, source, 3)) for run in (graph, definition)
    )
    for got, right in zip([*outputs, *gradients], [*expected, *expected_gradients], strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)
    # For few pairs the numbers equal the definition's bit for bit, so nothing else ran.
    if 2 * target * source <= min(choice._PAIRS_OF_ONE, choice._PAIRS_OF_ALL):
        np.testing.assert_array_equal(outputs[0], expected[0])


def test_factors_that_vary_along_keys_take_tiles():
    factor = np.ones((LENGTH, LENGTH))
    assert chosen(LENGTH, LENGTH, alpha=factor) == "blockwise"
    assert chosen(LENGTH, LENGTH, beta=factor) == "blockwise"
    # Tiles begin beyond one tile of keys for as many queries.
    assert chosen(32, 32, beta=np.ones((32, 32))) == "reference"
    assert chosen(33, 32, beta=np.ones((33, 32))) == "blockwise"
    if "compiled" in CODA_IMPLEMENTATIONS:
        x = normal(2, LENGTH, 5)
        with pytest.raises(ValueError, match="needs `alpha` and `beta` with last dimension 1"):
            ops.coda_attention(x, x, x, beta=factor, implementation="compiled")


@pytest.mark.skipif(
    "compiled" in CODA_IMPLEMENTATIONS, reason="only where there are no compiled loops"
)
def test_compiled_is_an_error_where_it_does_not_exist():
    x = normal(2, LENGTH, 5)
    with pytest.raises(ValueError, match="implementation='compiled'"):
        ops.coda_attention(x, x, x, implementation="compiled")


@compiled
def test_compiled_loops_have_no_scores_and_say_so():
    x = normal(2, LENGTH, 5)
    for run in (
        lambda **options: ops.coda_attention(x, x, x, **options),
        lambda **options: ops.coda_pair(x, x, **options),
    ):
        with pytest.raises(ValueError, match="cannot return scores"):
            run(implementation="compiled", return_scores=True)


@tensorflow_loops
@pytest.mark.parametrize(
    "training,jit,expected", [(True, False, True), (None, False, False), (True, True, False)]
)
def test_graphs_call_compiled_loops_in_plain_training_calls_only(training, jit, expected):
    import tensorflow as tf

    x = tf.constant(normal(2, LENGTH, 4))
    layer = layers.MultiHeadCoDA(2, 4)
    eager = layer(x, x)

    @tf.function(jit_compile=jit)
    def run():
        return layer(x, x, training=training)

    np.testing.assert_allclose(run(), eager, rtol=1e-4, atol=1e-5)
    assert ("PyFunc" in kinds(run)) is expected


@tensorflow_loops
def test_asking_for_compiled_loops_under_xla_is_an_error_that_says_so():
    import tensorflow as tf

    x = tf.constant(normal(2, LENGTH, 4))
    run = tf.function(
        lambda: ops.coda_attention(x, x, x, implementation="compiled"), jit_compile=True
    )
    with pytest.raises(ValueError, match="implementation='compiled'.*cannot be compiled by XLA"):
        run()


@tensorflow_loops
def test_graphs_that_other_machines_run_hold_no_compiled_loops(monkeypatch):
    import tensorflow as tf

    @tf.function
    def run():
        x = tf.zeros((2, LENGTH, 4))
        return ops.coda_attention(x, x, x, training=True)

    monkeypatch.setattr(tf.distribute, "has_strategy", lambda: True)
    assert "PyFunc" not in kinds(run)
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        again = tf.function(run.python_function)
        assert "PyFunc" in kinds(again)


@pytest.fixture
def passes(monkeypatch):
    """Record the passes of the compiled loops, in the order in which they run."""
    from keras_quasiattn.attention.coda.compiled.passes import Passes

    return recorded_passes(monkeypatch, Passes)


def model_with_long_inputs():
    inputs = keras.Input((None, 8))
    return keras.Model(inputs, layers.MultiHeadCoDA(2, 2)(inputs, inputs)), normal(4, LENGTH, 8)


@compiled
def test_fit_evaluate_and_predict_use_compiled_loops(passes, tmp_path):
    model, data = model_with_long_inputs()
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() == "jax")
    model.fit(data, data, validation_data=(data, data), verbose=0)
    assert passes == ["forward", "backward", "forward"]
    expected = model.predict(data, verbose=0)
    loaded = reloaded(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict(data, verbose=0), expected)
    assert passes[3:] == ["forward"] * 2


@tensorflow_loops
def test_several_steps_in_one_graph_use_compiled_loops_but_xla_does_not(passes):
    model, data = model_with_long_inputs()
    model.compile("sgd", "mse", steps_per_execution=2)
    model.predict(data, batch_size=2, verbose=0)
    assert passes == ["forward"] * 2
    model.compile("sgd", "mse", jit_compile=True)
    model.fit(data, data, verbose=0)
    expected = model.predict(data, verbose=0)
    assert len(passes) == 2
    np.testing.assert_allclose(model(data), expected, atol=1e-5)


def _export(model, data, folder):
    model.export(folder, verbose=False)


def _save(model, data, folder):
    import tensorflow as tf

    tf.saved_model.save(model, folder)


def _function(model, data, folder):
    import tensorflow as tf

    module = tf.Module()
    module.model = model
    module.run = tf.function(model.call, input_signature=[tf.TensorSpec((None, None, 8))])
    module.run(data)
    tf.saved_model.save(module, folder)


@tensorflow_loops
@pytest.mark.parametrize("export", long_except([_export, _save, _function], _export))
def test_no_export_holds_compiled_loops_though_predict_uses_them(export, passes, tmp_path):
    model, data = model_with_long_inputs()
    expected = model.predict(data, verbose=0)
    export(model, data, str(tmp_path / "served"))
    assert b"PyFunc" not in (tmp_path / "served" / "saved_model.pb").read_bytes()
    before = len(passes)
    np.testing.assert_array_equal(model.predict(data, verbose=0), expected)
    assert len(passes) == before + 1


@tensorflow_loops
def test_a_function_within_predict_holds_no_compiled_loops(passes, tmp_path):
    import tensorflow as tf

    class Inner(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.attention = layers.MultiHeadCoDA(2, 2)
            self.run = tf.function(lambda x: self.attention(x, x))

        def call(self, x):
            return self.run(x)

    data = normal(4, LENGTH, 8)
    model = keras.Sequential([Inner()])
    model(data[:, :1])
    passes.clear()
    model.predict(data, verbose=0)
    assert not passes
    model.export(tmp_path / "served", verbose=False)  # reuses what `predict` traced


@tensorflow_loops
def test_saving_compiled_loops_is_an_error_that_names_them(tmp_path):
    import tensorflow as tf

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((1, LENGTH, 3))])
        def run(self, x):
            return ops.coda_attention(x, x, x, implementation="compiled")

    with pytest.raises(AssertionError, match="compiled_loops_cannot_be_exported_use_auto"):
        tf.saved_model.save(Module(), str(tmp_path / "served"))
