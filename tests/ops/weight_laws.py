"""Tests of every attention over scores, given its weights in a few lines of NumPy.

An attention's test file subclasses `WeightLaws` and adds its own tests.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest
from checks import arrays, central_difference, close, every_size, some_mask
from reference import full_mask
from tools import run_with_gradients, to_numpy

LEADING = (2, 3)
MORE_SIZES = [(5, 7, 11), (1, 7, 3), (5, 1, 3)]


def products(query, key, scale=1.0):
    """Return the scores of most attentions."""
    return scale * query @ np.swapaxes(key, -1, -2)


def softmax(e, seen):
    """Apply a softmax over the visible keys; rows without any are 0."""
    weights = np.where(seen, np.exp(e - e.max(-1, keepdims=True, initial=-np.inf)), 0)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def counted(seen):
    """Return the number of visible keys, at least 1."""
    return np.maximum(seen.sum(-1, keepdims=True), 1)


class WeightLaws:
    """The op returns the defined weights, the weighted sums of the values, and gradients.

    Attributes:
        op: the function, as a staticmethod.
        layer: the multi-head layer that it is for.
        options: further arguments that are not tensors; each set is tested.
        fewest_features: the smallest D that it accepts.
    """

    op: Callable[..., Any]
    layer: type
    options: tuple[Mapping[str, Any], ...] = ({"scale": 0.3},)
    fewest_features = 1

    def tensors(self, size: tuple[int, int, int]) -> dict[str, np.ndarray]:
        """Return further arguments that are tensors, for T, S and D."""
        return {}

    def weights(self, query, key, seen, bias, **arguments):
        """Compute the definition in float64: W (..., T, S), from the mask of visible pairs."""
        raise NotImplementedError

    def expected(self, inputs, mask, is_causal, **options):
        """Return weights and output for inputs by name."""
        more = {name: x for name, x in inputs.items() if name not in ("query", "key", "value")}
        shape = (*inputs["query"].shape[:-1], inputs["key"].shape[-2])
        seen, bias = full_mask(mask, shape, is_causal), more.pop("bias", np.zeros(shape))
        bias = np.broadcast_to(bias, shape)
        weights = self.weights(inputs["query"], inputs["key"], seen, bias, **more, **options)
        return weights, self.output(weights, inputs["value"], **options)

    def output(self, weights, value, **options):
        return weights @ value

    def inputs(self, size, *bias_shape):
        query, key, value = arrays(size, LEADING)
        found = {"query": query, "key": key, "value": value, **self.tensors(size)}
        if bias_shape:
            found["bias"] = np.random.default_rng(6).normal(size=bias_shape)
        return found

    @every_size
    def test_weights_and_output_are_those_of_the_definition(self, size):
        if size[-1] < self.fewest_features:
            pytest.skip("has too few features")
        inputs = self.inputs(size)
        for options in self.options:
            for mask, is_causal in ((None, False), (some_mask(size), True)):
                weights, output = self.expected(inputs, mask, is_causal, **options)
                given = {**options, "mask": mask, "is_causal": is_causal}
                got = to_numpy(self.op(**inputs, **given, return_scores=True))
                close(got[0], output)
                close(got[1], weights)
                assert not got[1][~full_mask(mask, weights.shape, is_causal)].any()
                close(to_numpy(self.op(**inputs, **given)), output)

    @pytest.mark.parametrize("size", MORE_SIZES, ids=str)
    def test_a_bias_is_added_and_what_it_holds_at_masked_pairs_is_not_read(self, size):
        for shape in ((3, 1, 1), (2, 3, 1, size[1])):
            inputs, mask = self.inputs(size, *shape), some_mask(size)
            for options in self.options:
                weights, output = self.expected(inputs, mask, False, **options)
                got = to_numpy(self.op(**inputs, **options, mask=mask, return_scores=True))
                close(got[0], output)
                close(got[1], weights)
        full = (*LEADING, *size[:2])
        clean = self.inputs(size, *full)
        seen = full_mask(some_mask(size), full, True)
        spoiled = np.where(seen, clean["bias"], np.resize([np.nan, np.inf], full))
        options = {**self.options[0], "mask": some_mask(size), "is_causal": True}
        runs = [
            run_with_gradients(
                lambda *x: [self.op(**dict(zip(clean, x, strict=True)), **options)],
                list({**clean, "bias": bias}.values()),
                [np.ones((*full[:-1], clean["value"].shape[-1]))],
            )
            for bias in (clean["bias"], spoiled)
        ]
        for want, have in zip(*([*run[0], *run[1]] for run in runs), strict=True):
            np.testing.assert_array_equal(have, want)

    def test_gradients_are_those_of_the_definition(self):
        inputs, mask = self.inputs((2, 3, 2), 3, 1, 3), some_mask((2, 3, 2))
        cotangent = np.random.default_rng(4).normal(size=(*LEADING, 2, 4))
        for options in self.options:

            def truth(*x, options=options):
                return self.expected(dict(zip(inputs, x, strict=True)), mask, False, **options)[1]

            def op(*x, options=options):
                return [self.op(**dict(zip(inputs, x, strict=True)), mask=mask, **options)]

            _, gradients = run_with_gradients(op, list(inputs.values()), [cotangent])
            expected = central_difference(truth, list(inputs.values()), cotangent)
            for got, want in zip(gradients, expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8)

    def arguments_of(self, layer, query, key):
        """Return the op's arguments in a built layer, for heads of queries and keys."""
        return {"scale": layer.key_dim**-0.5, **dataclasses.asdict(layer.options)}

    def test_the_layer_computes_what_the_op_does(self):
        layer = self.layer(num_heads=3, key_dim=4, value_dim=5, dtype="float64")
        layer.build((2, 7, 6), (2, 9, 6))
        query, key, value = map(keras.ops.convert_to_tensor, arrays((7, 9, 4), LEADING))
        options = {"is_causal": False, "dropout": 0.0, "dropout_seed": None, "return_scores": True}
        options["bias"] = np.random.default_rng(6).normal(size=(3, 7, 9))
        got = layer.attend(query, key, value, None, **options)
        expected = self.op(query, key, value, **self.arguments_of(layer, query, key), **options)
        for one, other in zip(got, expected, strict=True):
            close(to_numpy(one), to_numpy(other))

    @pytest.mark.parametrize("dtype", ["float16", "float32"])
    def test_low_precision_rounds_only_the_inputs(self, dtype):
        inputs = {name: x.astype(dtype) for name, x in self.inputs((17, 33, 13)).items()}
        exact = {name: x.astype("float64") for name, x in inputs.items()}
        mask = some_mask((17, 33, 13))
        for options in self.options:
            _, output = self.expected(exact, mask, False, **options)
            got = to_numpy(self.op(**inputs, mask=mask, **options))
            assert got.dtype == dtype
            tolerance = {"float16": 1e-3, "float32": 1e-5}[dtype]
            np.testing.assert_allclose(got, output, rtol=tolerance, atol=tolerance)

    def test_wrong_arguments_are_named(self):
        inputs = self.inputs((5, 7, 3))
        more = self.options[0]
        for wrong, message in (
            (
                {"value": inputs["value"][..., :4, :]},
                r"`value` must have .*length as `key`.*4, 4\).*3, 7, ",
            ),
            ({"mask": np.ones((5, 7))}, "`mask` must be boolean.*float64"),
            ({"mask": np.ones((7, 5), "bool")}, r"`mask` must broadcast to .*mask.shape=\(7, 5\)"),
            ({"bias": np.ones((5, 7), "bool")}, "`bias` must hold floats"),
            ({"bias": np.ones((7, 5))}, r"`bias` must broadcast to .*bias.shape=\(7, 5\)"),
            ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\).*dropout=1.0"),
            ({"dropout": -0.1}, r"`dropout` must be in \[0, 1\).*dropout=-0.1"),
            ({"dropout": 0.5}, "`dropout` above 0 needs `dropout_seed`.*=0.5, dropout_seed=None"),
        ):
            with pytest.raises(ValueError, match=message):
                self.op(**{**inputs, **more, **wrong})

    def test_dropout_leaves_the_mean_and_the_scores(self):
        inputs, options = self.inputs((17, 33, 13)), self.options[0]
        seed = np.array([3, -7], "int32")
        both = [
            to_numpy(self.op(**inputs, **options, return_scores=True, **more))
            for more in ({}, {"dropout": 0.5, "dropout_seed": seed})
        ]
        np.testing.assert_array_equal(both[0][1], both[1][1])
        assert np.abs(both[0][0] - both[1][0]).max() > 1e-3
