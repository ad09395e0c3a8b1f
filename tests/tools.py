"""What tests on every backend share: arrays in and out, and gradients."""

import importlib.util

import keras
import numpy as np
from keras import ops

from keras_quasiattn.ops.choice import IMPLEMENTATIONS

_COMPILED = keras.backend.backend() == "tensorflow" and importlib.util.find_spec("numba")
CODA_IMPLEMENTATIONS = tuple(name for name in IMPLEMENTATIONS if name != "compiled" or _COMPILED)


def to_numpy(structure):
    return keras.tree.map_structure(lambda x: np.asarray(ops.convert_to_numpy(x)), structure)


def run_with_gradients(function, inputs, cotangents):
    """Outputs of `function(*inputs)` and the gradients of Σ output·cotangent for every input, as arrays.

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
