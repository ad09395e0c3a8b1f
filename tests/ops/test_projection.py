"""A product with weights: values, gradients at every rank and their memory, and LiteRT."""

import numpy as np
import pytest
from tools import only_on, run_with_gradients

from keras_quasiattn import layers
from keras_quasiattn.core.tensors import per_position, project

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("units", [(), (1,), (5,)], ids=str)
@pytest.mark.parametrize("rows", [(), (3,), (2, 3), (2, 0), (2, 1, 3)], ids=str)
def test_values_and_gradients(rows, units):
    x, kernel = RANDOM.normal(size=(*rows, 4)), RANDOM.normal(size=(4, *units))
    upstream = RANDOM.normal(size=(*rows, *units))
    outputs, (of_x, of_kernel) = run_with_gradients(
        lambda *pair: [project(*pair)], [x, kernel], [upstream]
    )
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(outputs[0], x @ kernel, **close)
    width = kernel.size // 4
    columns, flat = kernel.reshape(4, width), upstream.reshape(*rows, width)
    np.testing.assert_allclose(of_x, flat @ columns.T, **close)
    of_columns = x.reshape(flat.size // width, 4).T @ flat.reshape(flat.size // width, width)
    np.testing.assert_allclose(of_kernel, of_columns.reshape(kernel.shape), **close)


@only_on("tensorflow", "TensorFlow's gradient of an einsum")
@pytest.mark.parametrize(
    ("made", "inputs"),
    [
        (lambda: layers.FactorizationMachine(24), [(2, 30, 32)]),
        (lambda: layers.BidirectionalAttentionConnector(24), [(2, 30, 32), (2, 7, 32)]),
        (lambda: layers.AttentionFlow(), [(2, 30, 32), (2, 7, 32)]),
        (lambda: layers.AttentiveSpanPointer(24), [(2, 30, 32), (2, 7, 32)]),
    ],
    ids=["factorization_machine", "connector", "attention_flow", "attentive_span_pointer"],
)
def test_no_gradient_holds_an_outer_product_at_every_position(made, inputs):
    # The gradient of "...d,du->...u" did; DecaProp took 4 times as long for a step.
    import tensorflow as tf

    layer, x = made(), [tf.ones(shape) for shape in inputs]
    given = x if len(x) > 1 else x[0]
    layer(given)

    @tf.function
    def step(given):
        with tf.GradientTape() as tape:
            total = sum(tf.reduce_sum(one**2) for one in tf.nest.flatten(layer(given)))
        return tape.gradient(total, layer.trainable_variables)

    operations = step.get_concrete_function(given).graph.get_operations()
    shapes = [one.shape for operation in operations for one in operation.outputs]
    # For 2 texts of 30 positions, the widest tensor that is needed has 4·32 features. An outer
    # product has 24·32 or more.
    largest = max(shape.num_elements() for shape in shapes if shape.is_fully_defined())
    assert 2 * 30 * 32 <= largest <= 2 * 30 * 4 * 32
    assert all(shape.rank is None or shape.rank < 4 for shape in shapes)


@only_on("tensorflow", "the converter's fault")
@pytest.mark.parametrize(("heads", "kernel"), [((2,), (4, 2)), ((), (4,))], ids=["heads", "none"])
def test_litert_keeps_the_length_of_one_number_per_position(heads, kernel):
    # An einsum got the length 1: gated, forgetting and context-guided attention failed there.
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="extra litert")
    import tensorflow as tf

    weights = RANDOM.normal(size=kernel).astype("float32")
    spec = tf.TensorSpec((None, *heads, None, 4), "float32", name="x")
    graph = tf.function(lambda x: tf.sigmoid(per_position(x, weights)), input_signature=[spec])
    traced, owner = graph.get_concrete_function(), tf.Module()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced], owner)
    converted = interpreter.Interpreter(model_content=converter.convert())
    x = RANDOM.normal(size=(2, *heads, 5, 4)).astype("float32")
    (answer,) = converted.get_signature_runner()(x=x).values()
    np.testing.assert_allclose(answer, graph(x), rtol=1e-5)
