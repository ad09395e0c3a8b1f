"""Factorization machines: a linear score plus weighted products of all pairs of features."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer, check_sequence
from keras_quasiattn.core.masks import zero_padding
from keras_quasiattn.core.tensors import as_floats, compute_dtype, project
from keras_quasiattn.layers.base import SequenceLayer, Shape

Tensor = Any


def factorization_machine(z: Tensor, bias: Tensor, weights: Tensor, factors: Tensor) -> Tensor:
    """Return one score per feature vector: a linear term plus a term for every pair of features.

    y = w₀ + Σ_j w_j·z_j + Σ_{i<j} ⟨V_i, V_j⟩·z_i·z_j

    It is computed as w₀ + w·z + ½·Σ_f [(Σ_j V_jf·z_j)² − Σ_j V_jf²·z_j²], in D·K steps instead of
    D²·K, and in float32 for 16-bit inputs, because the squares soon overflow float16.

    Args:
        z: (..., D).
        bias: w₀, a scalar.
        weights: w, (D,).
        factors: V, (D, K).

    Returns:
        (...) in the dtype of `z`.

    Raises:
        ValueError: `weights` or `factors` do not match the number of features of `z`.

    Example:
    >>> z, factors = np.array([[2.0, 3.0]]), np.array([[1.0], [5.0]])
    >>> np.asarray(factorization_machine(z, 0.5, np.array([1.0, 10.0]), factors)).tolist()
    [62.5]

    Source: Rendle 2010, "Factorization Machines", eq. 1 and lemma 3.1.
    """
    z = as_floats(z)
    dtype = compute_dtype(z)
    given = map(ops.convert_to_tensor, (bias, weights, factors))
    bias, weights, factors = (ops.cast(x, dtype) for x in given)
    features = z.shape[-1]
    fits = len(factors.shape) == 2 and factors.shape[0] == features
    if tuple(weights.shape) != (features,) or not fits:
        raise ValueError(
            f"`weights` must have shape ({features},) and `factors` ({features}, K), because "
            f"`z` has {features} features. Received: weights.shape={tuple(weights.shape)}, "
            f"factors.shape={tuple(factors.shape)}"
        )
    result_dtype, z = z.dtype, ops.cast(z, dtype)
    sums = project(z, factors)  # (..., K)
    squares = project(ops.square(z), ops.square(factors))
    # (...): the square of a sum counts every pair twice.
    pairs = ops.sum(ops.square(sums) - squares, axis=-1) * ops.cast(0.5, dtype)
    return ops.cast(bias + project(z, weights) + pairs, result_dtype)


class FactorizationWeights(NamedTuple):
    """Weights of one factorization machine: w₀ (), w (D,) and V (D, K)."""

    bias: Any
    weights: Any
    factors: Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class FactorizationMachine(SequenceLayer):
    """Map the features of every position to one number: a linear score plus pairwise products.

    y = w₀ + w·z + Σ_{i<j} ⟨V_i, V_j⟩·z_i·z_j

    w₀ and w start at 0. The output is 0 at masked positions, where values, NaN included, have no
    effect. It keeps the mask. Under 16-bit policies the weights and the sums stay float32.

    Args:
        factors: length K of each feature's factor vector V_i. Defaults to 32.
        factors_initializer: initializer of V. Defaults to normal with standard deviation 0.1.

    Call arguments:
        inputs: (B, T, features).
        mask: boolean (B, T), True = real. Defaults to Keras' mask.

    Returns:
        (B, T, 1).

    Raises:
        ValueError: `factors` below 1, inputs that are not (B, T, features), or a float mask.

    Example:
    >>> tuple(FactorizationMachine(factors=4)(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 1)

    Source: Rendle 2010, "Factorization Machines", eq. 1; 32 factors as in Tay et al. 2018, "Densely
    Connected Attention Propagation for Reading Comprehension".
    """

    def __init__(
        self, factors: int = 32, *, factors_initializer: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.factors = check_positive_integer(factors, "factors")
        self.factors_initializer = factors_initializer_of(factors_initializer)

    def build(self, inputs_shape: Shape) -> None:
        """Create w₀, w and V."""
        width = check_sequence(inputs_shape, "inputs")
        initializer = self.factors_initializer
        self._weights = add_factorization_weights(self, width, self.factors, initializer)

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute y at every position; see the class."""
        z, mask = self.masked(inputs, mask)
        # (B, T, features) to (B, T), then (B, T, 1)
        numbers = ops.expand_dims(factorization_machine(z, *self._weights), -1)
        return zero_padding(numbers, mask)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, T, 1)."""
        return (*inputs_shape[:-1], 1)


def factors_initializer_of(given: Any) -> keras.initializers.Initializer:
    """Return the given initializer of V, or the default if it is None."""
    if given is None:
        return keras.initializers.RandomNormal(stddev=0.1)
    return keras.initializers.get(given)


def add_factorization_weights(
    layer: keras.layers.Layer, width: int, factors: int, initializer: Any, prefix: str = ""
) -> FactorizationWeights:
    """Add the weights of a factorization machine over `width` features to `layer`."""

    def add(name: str, shape: tuple[int, ...], initializer: Any = "zeros") -> Any:
        return layer.add_weight(shape, initializer, autocast=False, name=f"{prefix}{name}")

    return FactorizationWeights(
        bias=add("bias", ()),
        weights=add("weights", (width,)),
        factors=add("factors", (width, factors), initializer),
    )
