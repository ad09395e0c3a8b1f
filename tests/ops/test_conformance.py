"""The ops against vectors that an independent reference computed in float64, gradients included."""

import itertools

import numpy as np
import pytest
from conformance import cases
from tools import CODA_IMPLEMENTATIONS, run_with_gradients, sampled, to_numpy

from keras_quasiattn import ops


def check(expected, got, names):
    for name, array in zip(names, got, strict=True):
        np.testing.assert_allclose(array, expected[name], rtol=1e-9, atol=1e-11, err_msg=name)


def parameters(prefix):
    rows = [pytest.param(*row, id=row[0]) for row in cases(prefix)]
    return rows or [
        pytest.param(*[None] * 5, marks=pytest.mark.skip(reason="no conformance vectors here"))
    ]


@pytest.mark.parametrize("implementation", ["reference", "blockwise"])
@pytest.mark.parametrize("name,config,inputs,outputs,gradients", parameters("pairwise_l1"))
def test_pairwise_l1(name, config, inputs, outputs, gradients, implementation):
    def function(x, y, weights):
        return [ops.pairwise_l1(x, y, weights, implementation=implementation)]

    got, got_gradients = run_with_gradients(
        function, [inputs["x"], inputs["y"], inputs["weights"]], [inputs["cotangent"]]
    )
    check(outputs, got, ["distance"])
    check(gradients, got_gradients, ["x", "y", "weights"])


# Compiled loops do not return scores.
WAYS = [
    (implementation, scores)
    for implementation, scores in itertools.product(CODA_IMPLEMENTATIONS, ["scores", "no_scores"])
    if (implementation, scores) != ("compiled", "scores")
]

CODA_PAIRS = {row[0]: row[1:] for row in cases("coda_pair")}
# 640 of them: the sample has each composition with each implementation and size.
CODA_PAIR_PRODUCT = sampled(
    (
        (*name.removeprefix("coda_pair/").split("-"), implementation, scores)
        for name, (implementation, scores) in itertools.product(CODA_PAIRS, WAYS)
    ),
    64,
)


@pytest.mark.parametrize("size,composition,masked,implementation,scores", CODA_PAIR_PRODUCT)
def test_coda_pair(size, composition, masked, implementation, scores):
    config, inputs, outputs, gradients = CODA_PAIRS[f"coda_pair/{size}-{composition}-{masked}"]
    scores = scores == "scores"

    def function(a, b):
        options = {**config, "return_scores": scores, "implementation": implementation}
        return ops.coda_pair(a, b, inputs.get("mask_a"), inputs.get("mask_b"), **options)

    cotangents = [inputs["cotangent_a"], inputs["cotangent_b"], None][: 2 + scores]
    got, got_gradients = run_with_gradients(function, [inputs["a"], inputs["b"]], cotangents)
    check(outputs, got, ["a_out", "b_out", "scores"][: 2 + scores])
    check(gradients, got_gradients, ["a", "b"])


@pytest.mark.parametrize("implementation,scores", WAYS)
@pytest.mark.parametrize("name,config,inputs,outputs,gradients", parameters("coda_attention"))
def test_coda_attention(name, config, inputs, outputs, gradients, implementation, scores):
    scores = scores == "scores"

    def function(query, key, value):
        options = {**config, "return_scores": scores, "implementation": implementation}
        result = ops.coda_attention(query, key, value, inputs["mask"], **options)
        return result if scores else [result]

    got, got_gradients = run_with_gradients(
        function,
        [inputs[name] for name in ("query", "key", "value")],
        [inputs["cotangent"], None][: 1 + scores],
    )
    check(outputs, got, ["output", "scores"][: 1 + scores])
    check(gradients, got_gradients, ["query", "key", "value"])


def tanh_projections(inputs):
    return [np.tanh(inputs[side] @ inputs[f"kernel_{side}"]) for side in ("u", "v")]


@pytest.mark.parametrize("name,config,inputs,outputs,gradients", parameters("alignment"))
def test_alignment(name, config, inputs, outputs, gradients):
    u, v = tanh_projections(inputs)
    got = ops.alignment_attention(u, v, inputs["v"], inputs["mask_v"], return_scores=True)
    check(outputs, to_numpy(list(got)), ["output", "weights"])


@pytest.mark.parametrize("name,config,inputs,outputs,gradients", parameters("conflict"))
def test_conflict(name, config, inputs, outputs, gradients):
    u, v = tanh_projections(inputs)
    got = ops.conflict_attention(
        u, v, inputs["kernel_score"], inputs["v"], inputs["mask_v"], return_scores=True, **config
    )
    check(outputs, to_numpy(list(got)), ["output", "weights"])


@pytest.mark.parametrize("name,config,inputs,outputs,gradients", parameters("decomposable"))
def test_decomposable(name, config, inputs, outputs, gradients):
    # The vectors also have values in padded rows, which are meaningless; ours are zeros.
    if "intra" in name:
        signed, beyond = config["signed"], config["max_distance"] + 1
        assert len(inputs["bias"]) == (2 * beyond + 1 if signed else beyond + 1)
        got = ops.intra_attention(
            inputs["f"], inputs["a"], inputs["bias"], inputs["mask"], signed=signed
        )
        check(
            {"output": outputs["output"] * inputs["mask"][..., None]}, to_numpy([got]), ["output"]
        )
        return
    a, b, mask_a, mask_b = (inputs[name] for name in ("a", "b", "mask_a", "mask_b"))
    got = ops.alignment_pair(inputs["fa"], inputs["fb"], mask_a, mask_b, value_a=a, value_b=b)
    real = {
        "beta": outputs["beta"] * mask_a[..., None],
        "alpha": outputs["alpha"] * mask_b[..., None],
    }
    check(real, to_numpy(list(got)), ["beta", "alpha"])
    got = [
        ops.alignment_attention(inputs["fa"], inputs["fb"], b, mask_b),
        ops.alignment_attention(inputs["fb"], inputs["fa"], a, mask_a),
    ]
    check(outputs, to_numpy(got), ["beta", "alpha"])
