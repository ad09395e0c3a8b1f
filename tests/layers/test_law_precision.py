"""Law 3: precision under the mixed policies."""

import functools

import keras
import numpy as np
import pytest
from cases import CASES, one_of_each_by_default, one_of_each_call, one_of_each_first
from keras import ops
from layer_case import FEATURES, LayerCase
from running import as_tensor, gradients, masked_outputs, outputs, pure, shared_layer, weights
from tools import only_on, run_with_gradients, to_numpy

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.layers import AdaptiveHalting, GatedAttention, MultiHeadGated

# The unit roundoff of each compute dtype.
POLICIES = {"mixed_float16": 2.0**-11, "mixed_bfloat16": 2.0**-8}
# A layer's largest error, as a multiple of the error of exact arithmetic on rounded inputs, weights
# and outputs: it also rounds at its projections.
FACTOR = 4


def rounded(array, policy):
    """Round `array` to the compute dtype; return it in float64."""
    low = ops.cast(ops.convert_to_tensor(array), policy.removeprefix("mixed_"))
    return to_numpy(ops.cast(low, "float64"))


@functools.cache
def exact(case: LayerCase, policy=None):
    """Compute the case in float64, on the inputs and weights of its shared layer.

    With a `policy`, these are rounded as the policy does.
    """
    reference = case.make(dtype="float64")
    for weight, source in zip(
        reference.weights, to_numpy(weights(shared_layer(case))), strict=True
    ):
        weight.assign(rounded(source, policy) if policy else source.astype("float64"))
    sequences = [rounded(x, policy) if policy else x.astype("float64") for x in case.sequences()]
    return outputs(case, reference, sequences, case.masks())


def sublayers(layer):
    found = []
    for child in layer._layers:
        found += [child, *sublayers(child)]
    return found


@pytest.mark.parametrize(
    ("policy", "case"),
    [
        pytest.param(
            f"mixed_{name}", *one.values, id=f"{name}-{one.id}", marks=[*one.marks, *marks]
        )
        for name, marks in (("float16", []), ("bfloat16", [pytest.mark.long]))
        for one in one_of_each_first(CASES)
    ],
)
def test_error_is_that_of_rounded_inputs(case, policy):
    results = outputs(case, shared_layer(case, dtype=policy), case.sequences(), case.masks())
    for result, truth, low in zip(results, exact(case), exact(case, policy), strict=True):
        assert keras.backend.standardize_dtype(result.dtype) == policy.removeprefix("mixed_")
        error = np.linalg.norm(result.astype("float64") - truth)
        floor = np.linalg.norm(low - truth) + POLICIES[policy] * np.linalg.norm(truth)
        assert error <= FACTOR * floor, (error, floor)


@one_of_each_by_default
def test_float64_is_computed_in_float64(case):
    layer = case.make(dtype="float64")
    recurrent = (keras.layers.LSTM, keras.layers.GRU, keras.layers.GRUCell)
    if keras.backend.backend() != "tensorflow" and any(
        isinstance(x, recurrent) for x in sublayers(layer)
    ):
        pytest.skip(
            "Keras' LSTM and GRU multiply by `keras.ops.matmul`, "
            "which rounds float64 on JAX and PyTorch"
        )
    arrays = [*(x.astype("float64") for x in case.sequences()), *to_numpy(weights(layer))]
    function = pure(case, layer, case.masks())
    random = np.random.default_rng(3)
    steps = [1e-6 * random.normal(size=x.shape) * (x.dtype == "float64") for x in arrays]

    def moved(sign):
        tensors = [
            as_tensor(np.asarray(x + sign * step, x.dtype))
            for x, step in zip(arrays, steps, strict=True)
        ]
        return to_numpy(list(function(*tensors)))

    for one, middle, other in zip(moved(-1), moved(0), moved(1), strict=True):
        assert one.dtype == "float64"
        # A smooth function bends by the square of a step. If something was rounded to float32, the
        # function jumps by 1e-7.
        scale = max(1.0, np.abs(middle).max(initial=0.0))
        np.testing.assert_allclose(one + other, 2 * middle, rtol=0, atol=2e-9 * scale)


@one_of_each_by_default
def test_pure_float16_is_finite(case):
    layer = case.make(dtype="float16")
    for result in outputs(
        case, layer, [x.astype("float16") for x in case.sequences()], case.masks()
    ):
        assert result.dtype == "float16" and np.isfinite(result).all()


@one_of_each_call
def test_sublayers_carry_the_policy(case):
    layer = shared_layer(case, dtype="mixed_float16")
    for child in sublayers(layer):
        assert child.dtype_policy.name == "mixed_float16", child.name
    assert all(weight.dtype == "float32" for weight in layer.weights)


@pytest.mark.parametrize(
    ("policy", "size"),
    [
        ("mixed_float16", "large"),
        pytest.param("mixed_float16", "small", marks=pytest.mark.long),
        # bfloat16 has the range of float32.
        pytest.param("mixed_bfloat16", "large", marks=pytest.mark.complete),
        pytest.param("mixed_bfloat16", "small", marks=pytest.mark.complete),
    ],
)
@one_of_each_by_default
def test_long_and_large_inputs_stay_finite(case, policy, size, jitted):
    scale = {"small": 1e-4, "large": case.largest_input}[size]
    lengths = [case.longest // 2 + 1] * (len(case.style.lengths) - 1) + [case.longest]
    layer = case.layer(**{**case.arguments, "dtype": policy})  # initial weights, as for a user
    sequences = case.sequences(lengths=lengths, batch=1, scale=scale)
    layer.build(*case.style.build_arguments([(None, None, FEATURES)] * len(lengths)))
    masks = [np.arange(x.shape[1])[None] % 3 > 0 for x in sequences]
    results = outputs(case, layer, sequences, masks)
    assert all(np.isfinite(x.astype("float32")).all() for x in results)
    cotangents = [np.full(x.shape, 1e-3) for x in results]
    for gradient in gradients(case, layer, sequences, masks, cotangents):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("attention", "option"), [("coda", "alpha"), ("coda", "beta"), ("softmax", "alpha")]
)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_gradient_of_a_learned_number_is_not_summed_in_16_bits(attention, option, policy):
    """It is off by less than half a rounding, so the sum was in float32, and so were its terms."""
    random = np.random.default_rng(0)
    *tensors, cotangent = (rounded(random.normal(size=(3, 2, 33, 8)), policy) for _ in range(4))

    def gradients_in(name):
        dtype = keras.DTypePolicy(name)
        layer = ATTENTIONS[attention](2, 8, **{option: "learned"}, dtype=dtype)
        layer.build(*[(None, 33, 16)] * 2)
        weight = next(x for x in layer.trainable_variables if x.name == option)

        def function(*values):
            qkv = [ops.cast(x, dtype.compute_dtype) for x in values[:3]]
            options = {"is_causal": False, "dropout": 0.0, "dropout_seed": None}
            with keras.StatelessScope(state_mapping=[(weight, values[3])]):
                return [layer.attend(*qkv, None, return_scores=False, **options)]

        start = (0.2 * to_numpy(weight.value)).astype(weight.dtype)
        return run_with_gradients(function, [*tensors, start], [cotangent])[1]

    low, exact = (np.ravel(gradients_in(name)[3]).astype("float64") for name in (policy, "float64"))
    assert np.linalg.norm(low - exact) <= POLICIES[policy] / 2 * np.linalg.norm(exact)


@only_on("torch", "of PyTorch")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@one_of_each_by_default
def test_autocast_of_torch(case, dtype):
    """The maximum over masked positions failed: its lowest number is beyond 16-bit types."""
    import torch

    with torch.autocast("cpu", dtype=getattr(torch, dtype)):
        found = outputs(case, shared_layer(case), case.sequences(), case.masks())
    for one, expected in zip(found, masked_outputs(case), strict=True):
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(one.astype("float32"), expected, rtol=0, atol=0.1 * scale)


@pytest.mark.parametrize("kind", ["multi_head", "pooled", "halting"])
@pytest.mark.parametrize("dtype", [None, "float64", "float32"])
def test_the_loss_of_a_layer_could_not_be_added_to_that_of_keras(kind, dtype, floatx):
    layer: keras.Layer
    x = ops.ones((2, 3, 4), dtype=dtype or floatx)
    if kind == "halting":
        layer = AdaptiveHalting(dtype=dtype)
        layer(x, x, is_last=True, training=True)
    else:
        pooled = GatedAttention("feed_forward", units=4, dtype=dtype)
        layer = MultiHeadGated(2, 2, dtype=dtype) if kind == "multi_head" else pooled
        layer(*((x, x) if kind == "multi_head" else (x,)), training=True)
    (loss,) = layer.losses
    assert keras.backend.standardize_dtype(loss.dtype) == floatx
