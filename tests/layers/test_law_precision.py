"""Law 3: precision under the mixed policies."""

import keras
import numpy as np
import pytest
from cases import CASES
from keras import ops
from layer_case import FEATURES, LayerCase
from running import gradients, outputs, weights
from tools import to_numpy

every_case = pytest.mark.parametrize("case", CASES, ids=str)
# The unit roundoff of each compute dtype.
POLICIES = {"mixed_float16": 2.0**-11, "mixed_bfloat16": 2.0**-8}
every_policy = pytest.mark.parametrize("policy", POLICIES)
# How much worse than exact arithmetic on rounded inputs, weights and outputs a layer may be: it rounds at its
# projections too.
FACTOR = 4


def rounded(array, policy):
    """`array` as the nearest numbers of the compute dtype, in float64."""
    low = ops.cast(ops.convert_to_tensor(array), policy.removeprefix("mixed_"))
    return to_numpy(ops.cast(low, "float64"))


def exact(case: LayerCase, layer, sequences, masks, transform):
    """The case in float64, with inputs and weights of `layer` passed through `transform`."""
    reference = case.make(dtype="float64")
    for weight, source in zip(reference.weights, to_numpy(weights(layer)), strict=True):
        weight.assign(transform(source))
    return outputs(case, reference, [transform(x) for x in sequences], masks)


def sublayers(layer):
    found = []
    for child in layer._layers:
        found += [child, *sublayers(child)]
    return found


@every_policy
@every_case
def test_error_is_that_of_rounded_inputs(case, policy):
    layer, sequences, masks = case.make(dtype=policy), case.sequences(), case.masks()
    results = outputs(case, layer, sequences, masks)
    double = exact(case, layer, sequences, masks, lambda x: x.astype("float64"))
    plain = exact(case, layer, sequences, masks, lambda x: rounded(x, policy))
    for result, truth, low in zip(results, double, plain, strict=True):
        assert keras.backend.standardize_dtype(result.dtype) == policy.removeprefix("mixed_")
        error = np.linalg.norm(result.astype("float64") - truth)
        floor = np.linalg.norm(low - truth) + POLICIES[policy] * np.linalg.norm(truth)
        assert error <= FACTOR * floor, (error, floor)


@every_policy
@every_case
def test_sublayers_carry_the_policy(case, policy):
    layer = case.make(dtype=policy)
    for child in sublayers(layer):
        assert child.dtype_policy.name == policy, child.name
    assert all(weight.dtype == "float32" for weight in layer.weights)


@pytest.mark.parametrize("size", ["small", "large"])
@every_policy
@every_case
def test_long_and_large_inputs_stay_finite(case, policy, size):
    scale = {"small": 1e-4, "large": case.largest_input}[size]
    lengths = [case.longest // 2 + 1] * (len(case.style.lengths) - 1) + [case.longest]
    layer = case.layer(**{**case.arguments, "dtype": policy})  # weights as a user starts with
    sequences = case.sequences(lengths=lengths, batch=1, scale=scale)
    layer.build(*case.style.build_arguments([(None, None, FEATURES)] * len(lengths)))
    masks = [np.arange(x.shape[1])[None] % 3 > 0 for x in sequences]
    results = outputs(case, layer, sequences, masks)
    assert all(np.isfinite(x.astype("float32")).all() for x in results)
    cotangents = [np.full(x.shape, 1e-3) for x in results]
    for gradient in gradients(case, layer, sequences, masks, cotangents):
        assert np.isfinite(gradient).all()
