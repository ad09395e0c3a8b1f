"""Helpers for tests on every backend: samples of options, saved models, arrays, gradients."""

import contextlib
import importlib.util
import itertools
import random

import keras
import numpy as np
import pytest
from keras import ops

from keras_quasiattn.attention.coda.choice import CODA_IMPLEMENTATIONS as ALL_IMPLEMENTATIONS

_COMPILED = importlib.util.find_spec("numba")
CODA_IMPLEMENTATIONS = tuple(
    name for name in ALL_IMPLEMENTATIONS if name != "compiled" or _COMPILED
)


def sampled(rows, count, seed=0):
    """Return parameters from `rows`, tuples of options; all but a sample are complete tests.

    The sample depends only on `rows` and `seed`. It has every value of every option, even if that
    takes more than `count` rows, and as many pairs of values as fit. The items of a dictionary
    count as options.
    """
    rows = list(rows)
    facts = [_facts(row) for row in rows]
    order = random.Random(seed).sample(range(len(rows)), len(rows))
    missing, chosen = set().union(*facts), set()
    while len(chosen) < min(count, len(rows)) or any(len(fact) == 1 for fact in missing):
        weights = {index: sum(3 - len(fact) for fact in facts[index] & missing) for index in order}
        best = max((index for index in order if index not in chosen), key=weights.get)
        chosen.add(best)
        missing -= facts[best]
    return [
        pytest.param(*row, marks=[] if index in chosen else pytest.mark.complete)
        for index, row in enumerate(rows)
    ]


def _facts(row):
    """Return the values in a row, and pairs of them, each with its position."""
    values = []
    for place, value in enumerate(row):
        items = value.items() if isinstance(value, dict) else [("", value)]
        values += [f"{place} {name} {item!r}" for name, item in items]
    return {fact for size in (1, 2) for fact in itertools.combinations(values, size)}


def long_except(values, *fast, others=pytest.mark.long):
    """Return parameters, of which those that are not `fast` are long tests, or of another mark."""
    return [pytest.param(value, marks=[] if value in fast else others) for value in values]


def only_on(backend, reason):
    """Return a mark that skips a test on other backends."""
    return pytest.mark.skipif(keras.backend.backend() != backend, reason=reason)


@contextlib.contextmanager
def eagerly(on=True):
    """Run TensorFlow's functions without tracing them, or within such a block, trace them."""
    import tensorflow as tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(on)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def reloaded(model, folder, **options):
    """Return what Keras loads of the file to which it saves the model."""
    model.save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras", **options)


def quantization_modes(model):
    return [one.quantization_mode for one in model._flatten_layers()]


def normals(*shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def normal(*shape, seed=0):
    return normals(*shape, dtype="float32", seed=seed)


def to_numpy(structure):
    return keras.tree.map_structure(lambda x: np.asarray(ops.convert_to_numpy(x)), structure)


def run_with_gradients(function, inputs, cotangents):
    """Return `function(*inputs)` and gradients of Σ output·cotangent for each input, as arrays.

    `function` returns a list; a cotangent of None leaves that output out of the sum.
    """
    tensors = [ops.convert_to_tensor(x) for x in inputs]

    def total(*arguments):
        outputs = list(function(*arguments))
        terms = [
            ops.sum(ops.cast(output, "float64") * ops.convert_to_tensor(cotangent, dtype="float64"))
            for output, cotangent in zip(outputs, cotangents, strict=True)
            if cotangent is not None
        ]
        return sum(terms), outputs

    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value, outputs = total(*tensors)
        gradients = tape.gradient(value, tensors, unconnected_gradients="zero")
    elif backend == "jax":
        import jax

        gradient_function = jax.grad(total, argnums=tuple(range(len(tensors))), has_aux=True)
        gradients, outputs = gradient_function(*tensors)
    else:
        import torch

        tensors = [tensor.detach().clone().requires_grad_(True) for tensor in tensors]
        value, outputs = total(*tensors)
        gradients = torch.autograd.grad(value, tensors, allow_unused=True)
        gradients = [
            torch.zeros_like(tensor) if gradient is None else gradient
            for tensor, gradient in zip(tensors, gradients, strict=True)
        ]
        outputs = [output.detach() for output in outputs]
    return to_numpy(list(outputs)), to_numpy(list(gradients))
