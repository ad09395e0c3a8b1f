"""Run a layer case: as arrays, as a pure function of inputs and weights, and as a model."""

import functools

import keras
import numpy as np
from tools import run_with_gradients, to_numpy


def outputs(case, layer, sequences, masks=None, **options):
    """Return the outputs as arrays."""
    return to_numpy(case.run(layer, list(map(as_tensor, sequences)), masks, **options))


@functools.cache
def shared_layer(case, **overrides):
    """Return the built layer of a case, shared by all laws that only read it."""
    return case.make(**overrides)


@functools.cache
def masked_outputs(case):
    """Return the shared layer's outputs for its case's sequences and masks; read-only."""
    return outputs(case, shared_layer(case), case.sequences(), case.masks())


@functools.cache
def plain_outputs(case):
    """Return its outputs for the same sequences without masks; read-only."""
    return outputs(case, shared_layer(case), case.sequences())


def as_tensor(x):
    return keras.ops.convert_to_tensor(x)


def pure(case, layer, masks=None, **options):
    """Return a function of (sequences..., weights...) to the outputs of `layer`."""
    count = len(case.style.lengths)

    def function(*tensors):
        mapping = list(zip(layer.weights, tensors[count:], strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return case.run(layer, tensors[:count], masks, **options)

    return function


def weights(layer):
    """Return the values of all weights."""
    return [weight.value for weight in layer.weights]


def gradients(case, layer, sequences, masks, cotangents):
    """Return gradients of Σ output·cotangent for every sequence, then for every weight."""
    function = pure(case, layer, masks)
    return run_with_gradients(function, [*sequences, *to_numpy(weights(layer))], cotangents)[1]


def model_of(case, layer, batch=None, **options):
    """Return a functional model from sequences and their masks to the outputs."""
    sequences = [
        keras.Input(shape=(None, array.shape[-1]), batch_size=batch, name=f"sequence_{index}")
        for index, array in enumerate(case.sequences())
    ]
    masks = [
        keras.Input(shape=(None,), batch_size=batch, dtype="bool", name=f"mask_{index}")
        for index in range(len(sequences))
    ]
    return keras.Model([*sequences, *masks], case.run(layer, sequences, masks, **options))


def assert_close(got, expected, tolerance=2e-5):
    """Assert equality up to rounding, relative to the largest expected number."""
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
        assert one.shape == other.shape
        assert np.isfinite(one).all()
        scale = max(1.0, np.abs(other).max(initial=0.0))
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)
