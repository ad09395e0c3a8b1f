"""Keras' dense layer with a workaround for a precision fault."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_activation, check_positive_integer, check_rate
from keras_quasiattn.core.backend import tanh
from keras_quasiattn.core.configured import ConfiguredLayer, clone_initializer
from keras_quasiattn.core.tensors import project

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense` that keeps float64 precision.

    On JAX and PyTorch `keras.ops.matmul` (3.15.1) rounds float64 to float32; `keras.ops.tanh` does
    so on JAX.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Return activation(inputs·kernel + bias), (..., units)."""
        if self.compute_dtype != "float64":
            return super().call(inputs, training=training)
        x = project(inputs, self.kernel)
        if self.bias is not None:
            x = x + self.bias
        if self.activation is None:
            return x
        return tanh(x) if self.activation is keras.activations.tanh else self.activation(x)

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """Quantize like Keras' layer, which rejects subclasses unless `type_check=False`."""
        super().quantize(mode, type_check=False, config=config)


def make_dense(
    layer: keras.layers.Layer, name: str, units: int, shape: Any, **options: Any
) -> Dense:
    """Create and build a dense layer for inputs of `shape`, as a part of `layer`.

    It has the dtype of `layer`, and a clone of its initializer if there is one, because an
    initializer returns the same values at every call.
    """
    initializer = getattr(layer, "kernel_initializer", None)
    if initializer is not None and "kernel_initializer" not in options:
        options["kernel_initializer"] = clone_initializer(initializer)
    dense = Dense(units, **{"dtype": layer.dtype_policy, "name": name, **options})
    dense.build(shape)
    return dense


Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DenseStack(ConfiguredLayer):
    """Apply dropout and a dense layer with ReLU, `num_layers` times, to make (..., units).

    Args:
        units: size of every dense layer.
        num_layers: number of dense layers. Defaults to 2.
        dropout: rate in [0, 1) of the dropout before each dense layer. Defaults to 0.
        kernel_initializer: initializer of every kernel. Defaults to "glorot_uniform".
        last_activation: activation of the last dense layer. Defaults to "relu".

    Example:
    >>> DenseStack(7)(keras.ops.ones((2, 5, 3))).shape == (2, 5, 7)
    True

    Source: Parikh et al. 2016, "A Decomposable Attention Model": the networks F, G and H of §3.
    """

    def __init__(
        self,
        units: int,
        num_layers: int = 2,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        last_activation: Any = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.last_activation = check_activation(last_activation, "last_activation")
        self.units = check_positive_integer(units, "units")
        self.num_layers = check_positive_integer(num_layers, "num_layers")
        self.dropout = check_rate(dropout, "dropout")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: Shape) -> None:
        """Create the dropouts and dense layers."""
        self.dropouts, self.denses = [], []
        activations = ["relu"] * (self.num_layers - 1) + [self.last_activation]
        for index, activation in enumerate(activations):
            options = {"dtype": self.dtype_policy, "name": f"dropout_{index}"}
            self.dropouts.append(keras.layers.Dropout(self.dropout, **options))
            name = f"dense_{index}"
            dense = make_dense(self, name, self.units, inputs_shape, activation=activation)
            self.denses.append(dense)
            inputs_shape = dense.compute_output_shape(inputs_shape)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Apply the network; see the class."""
        for dropout, dense in zip(self.dropouts, self.denses, strict=True):
            inputs = dense(dropout(inputs, training=training))
        return inputs


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` that keeps float64, which Keras' ops (3.15.1) round."""

    def call(self, inputs: Tensor) -> Tensor:
        """Return γ·(inputs − mean) / √(variance + ε) + β, (..., features)."""
        if self.compute_dtype != "float64":
            return super().call(inputs)
        features = inputs.shape[-1]  # `ops.mean` also rounds on PyTorch
        difference = inputs - ops.sum(inputs, axis=-1, keepdims=True) / features
        variance = ops.sum(ops.square(difference), axis=-1, keepdims=True) / features
        return self.gamma * difference / ops.sqrt(variance + self.epsilon) + self.beta
