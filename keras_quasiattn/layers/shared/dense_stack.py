"""The small feed-forward networks of decomposable attention."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.arguments import check_positive_integer, check_rate
from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.layers.shared.quantized_parts import QuantizedParts

Tensor = Any
Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class DenseStack(QuantizedParts, keras.layers.Layer):
    """Repeats dropout and a dense layer with ReLU `num_layers` times.

    Args:
        units: size of every dense layer.
        num_layers: number of dense layers.
        dropout: rate in [0, 1) of the dropout before each dense layer.
        kernel_initializer: initializer of every kernel.
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: (..., features).
        training: whether to apply dropout.

    Returns:
        (..., units).

    Raises:
        ValueError: an argument is out of range.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self.num_layers = check_positive_integer(num_layers, "num_layers")
        self.dropout = check_rate(dropout, "dropout")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        """Creates the dropouts and dense layers."""
        self.dropouts, self.denses = [], []
        for index in range(self.num_layers):
            options = {"dtype": self.dtype_policy, "name": f"dropout_{index}"}
            self.dropouts.append(keras.layers.Dropout(self.dropout, **options))
            options["name"] = f"dense_{index}"
            initializer = self.kernel_initializer.clone()
            self.denses.append(
                Dense(self.units, activation="relu", kernel_initializer=initializer, **options)
            )
            self.denses[-1].build(inputs_shape)
            inputs_shape = self.denses[-1].compute_output_shape(inputs_shape)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Applies the network; see the class."""
        for dropout, dense in zip(self.dropouts, self.denses, strict=True):
            inputs = dense(dropout(inputs, training=training))
        return inputs

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        names = ("units", "num_layers", "dropout")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
