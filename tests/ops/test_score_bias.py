"""A bias on the scores: its definition, its gradient in its own shape, and masked pairs."""

import keras
import numpy as np
import pytest
import reference
from checks import arrays, check_gradients, close, some_mask
from tools import CODA_IMPLEMENTATIONS, run_with_gradients, to_numpy
from weight_laws import WeightLaws

from keras_quasiattn import ops
from keras_quasiattn.attention.coda import choice
from keras_quasiattn.core.tensors import training_call
from keras_quasiattn.core.tiling import KEYS_PER_TILE

IMPLEMENTATIONS = [name for name in CODA_IMPLEMENTATIONS if name != "compiled"]
CENTERED = {"gate_range": "centered", "center_similarity": True}


class TestCoDA(WeightLaws):
    op = staticmethod(ops.coda_attention)
    options = ({"alpha": 0.5, "beta": 0.1}, {"similarity": "sigmoid", "gate": "arctan"})
    test_the_layer_computes_what_the_op_does = None  # test_multi_head_coda.py shows its scaling

    def weights(self, query, key, seen, bias, **options):
        return reference.coda_weights(query, key, seen, bias=bias, **options)


def bias_of(*shape):
    return np.random.default_rng(6).normal(size=shape)


@pytest.mark.parametrize("shape", [(3, 4), (2, 1, 3, 1)], ids=str)
def test_gradients_have_the_shape_of_the_bias(shape):
    mask = some_mask((3, 4))
    check_gradients(
        lambda q, k, v, b: ops.coda_attention(q, k, v, mask, bias=b),
        lambda q, k, v, b: reference.coda_weights(q, k, mask, bias=b) @ v,
        [*arrays((3, 4, 2), value_features=3), bias_of(*shape)],
    )


def coda(inputs, implementation, mask=None, **options):
    def function(query, key, value, bias, *alpha):
        given = {**options, "bias": bias, "implementation": implementation}
        given |= {"alpha": alpha[0]} if alpha else {}
        return [ops.coda_attention(query, key, value, mask, **given)]

    shape = (*inputs[0].shape[:-1], inputs[2].shape[-1])
    return run_with_gradients(function, inputs, [np.random.default_rng(9).normal(size=shape)])


DROPOUT = {"dropout": 0.4, "dropout_seed": np.array([3, -7], "int32")}


EVERYTHING = {**CENTERED, "is_causal": True, **DROPOUT}


@pytest.mark.parametrize(
    "target,source,shape,options",
    [
        (9, KEYS_PER_TILE + 3, (3, 9, KEYS_PER_TILE + 3), {}),
        (9, KEYS_PER_TILE + 3, (3, 9, KEYS_PER_TILE + 3), EVERYTHING),
        (5, KEYS_PER_TILE, (2, 1, 1, KEYS_PER_TILE), EVERYTHING),
        (5, 4 * KEYS_PER_TILE + 1, (3, 5, 1), EVERYTHING),
        (5, 4 * KEYS_PER_TILE + 1, (2, 3, 1, 1), CENTERED),
        (1, 7, (2, 3, 1, 7), CENTERED),
        (7, 1, (7, 1), EVERYTHING),
        (0, 7, (0, 7), CENTERED),
        (5, 0, (3, 5, 0), EVERYTHING),
    ],
    ids=lambda one: f"{len(one)}_options" if isinstance(one, dict) else str(one),
)
def test_tiles_give_what_the_definition_gives(target, source, shape, options):
    inputs = [*arrays((target, source, 5)), bias_of(*shape)]
    if options:
        inputs.append(np.abs(bias_of(1, source)))  # α that differs by key
    for mask in (None, some_mask((target, source))):
        expected, expected_gradients = coda(inputs, "reference", mask, beta=0.1, **options)
        got, gradients = coda(inputs, "blockwise", mask, beta=0.1, **options)
        for want, have in zip(expected + expected_gradients, got + gradients, strict=True):
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_the_mean_of_e_includes_it(implementation):
    query, key, value = arrays((5, 37, 3))
    mask, bias = some_mask((5, 37)), bias_of(3, 5, 37)
    for options in (CENTERED, {**CENTERED, "center_per_query": True}):
        weights = reference.coda_weights(query, key, mask, bias=bias, **options)
        got = ops.coda_attention(
            query, key, value, mask, bias=bias, implementation=implementation, **options
        )
        close(to_numpy(got), weights @ value)
    # A constant is its own mean.
    without, constant = (
        to_numpy(
            ops.coda_attention(
                query, key, value, mask, bias=one, implementation=implementation, **CENTERED
            )
        )
        for one in (None, np.full((5, 37), 3.0))
    )
    np.testing.assert_allclose(constant, without, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
def test_what_it_holds_at_masked_pairs_is_neither_used_nor_read(implementation):
    size = (5, 37)
    seen = reference.full_mask(some_mask(size), (2, 3, *size), True)
    inputs, clean = arrays((*size, 3)), bias_of(2, 3, *size)
    spoiled = np.where(seen, clean, np.resize([np.nan, np.inf, -np.inf], clean.shape))
    options = {"implementation": implementation, **CENTERED, "is_causal": True}

    def run(bias):
        return run_with_gradients(
            lambda *x: [ops.coda_attention(*x[:3], some_mask(size), bias=x[3], **options)],
            [*inputs, bias],
            [np.ones((2, 3, size[0], 4))],
        )

    (expected, wanted), ((output,), gradients) = run(clean), run(spoiled)
    for want, have in zip([*expected, *wanted], [output, *gradients], strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-15)  # −∞ makes another mask
    assert not output[1].any() and not gradients[3][~seen].any()


def test_coda_still_deletes_what_a_bias_makes_minus_one():
    near, far = np.zeros((1, 2)), np.full((1, 2), 100.0)
    weights = to_numpy(
        ops.coda_attention(
            near, np.concatenate([near, far]), np.eye(2), bias=np.array([-50.0, -250.0])
        )
    )
    np.testing.assert_allclose(weights, [[-1.0, 0.0]], atol=1e-12)


@pytest.mark.parametrize(
    "op,truth",
    [
        (ops.softmax_attention, reference.softmax_weights),
        (ops.coda_attention, reference.coda_weights),
    ],
)
def test_a_bias_of_half_precision_is_added_in_float32(op, truth):
    query, key, value = (np.zeros((1, 2, *n), "float16") for n in ((1, 2), (2, 2), (2, 1)))
    bias = np.array([[[[-7.0, 0.0009765]]]], "float16") + np.zeros((1, 2, 1, 1), "float16")
    got = to_numpy(op(query, key, value + 1, bias=bias))
    want = truth(query.astype("float64"), key, bias=bias.astype("float64"))
    np.testing.assert_allclose(got, want.sum(-1, keepdims=True), rtol=1e-3)


def test_auto_takes_another_implementation_than_compiled_loops():
    query = keras.KerasTensor((64, 70, 8))
    options = {"alpha": 1.0, "beta": 1.0, "has_bias": True}
    with training_call(True):
        taken = choice.compute_by_choice(lambda name: name, "auto", query, query, **options)
    assert taken == "blockwise"
    if "compiled" in CODA_IMPLEMENTATIONS:
        with pytest.raises(ValueError, match="implementation='compiled'` cannot add a `bias`"):
            choice.compute_by_choice(lambda name: name, "compiled", query, query, **options)


@pytest.mark.long
@pytest.mark.usefixtures("tensorflow_only")
def test_lengths_that_a_graph_does_not_know():
    import tensorflow as tf

    inputs = [x.astype("float32") for x in (*arrays((5, 37, 3)), bias_of(1, 3, 5, 37))]

    @tf.function(input_signature=[tf.TensorSpec((None, 3, None, n)) for n in (3, 3, 4, None)])
    def graph(query, key, value, bias):
        with tf.GradientTape() as tape:
            tape.watch(bias)
            output = ops.coda_attention(
                query, key, value, bias=bias, implementation="blockwise", **CENTERED
            )
        return output, tape.gradient(output, bias)

    output, gradient = graph(*inputs)
    (expected,), gradients = run_with_gradients(
        lambda *x: [ops.coda_attention(*x[:3], bias=x[3], implementation="reference", **CENTERED)],
        inputs,
        [np.ones(output.shape)],
    )
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient, gradients[3], rtol=1e-4, atol=1e-5)
