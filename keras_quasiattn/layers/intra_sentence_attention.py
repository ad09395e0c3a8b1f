"""Self-attention with a bias for the distance between positions."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.softmax import attend
from keras_quasiattn.core.arguments import check, check_sequence
from keras_quasiattn.core.masks import for_all_positions, pair_mask, sides
from keras_quasiattn.core.tensors import as_dtype, check_choice, dot_products
from keras_quasiattn.layers.base import SequenceLayer, Shape
from keras_quasiattn.layers.dense import DenseStack

Tensor = Any


def intra_attention(
    features: Tensor,
    values: Tensor,
    distance_bias: Tensor,
    mask: Tensor | None = None,
    *,
    signed: bool = True,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Apply softmax self-attention with a bias for the distance between two positions.

    f[i, j] = features_i · features_j + d[i − j];
    w = softmax(f) over the positions that `mask` shows;  output = w · values

    Distances beyond a maximum m share one bias, or one per direction if `signed`, and count real
    positions only, so padding has no effect. A masked position has weight exactly 0 and its row of
    the output is 0. Weights are float32 for 16-bit inputs.

    Args:
        features: (..., T, D), F_intra in the paper.
        values: (..., T, V).
        distance_bias: d. Signed: (2·m + 3,), for i − j < −m, then −m … m, then i − j > m. Unsigned:
            (m + 2,), for 0 … m, then |i − j| > m.
        mask: boolean (or 0/1 integer) (..., T), True = real.
        signed: whether i − j and j − i have separate biases. Defaults to True.
        return_scores: also return w.

    Returns:
        output (..., T, V) in the dtype of `values`, or (output, w) with w (..., T, T).

    Raises:
        ValueError: a float mask, a rank below 2, lengths that do not match, or a `distance_bias` of
            another shape.

    Example:
    >>> x, only_itself = np.eye(3), np.array([9.0, 0.0])
    >>> output = intra_attention(np.zeros((3, 1)), x, only_itself, signed=False)
    >>> np.asarray(output).round(2).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Source: Parikh et al. 2016, "A Decomposable Attention Model", §3.4.
    """
    mask, features, values = sides("features", features, "mask", mask, values=values)
    bias = ops.convert_to_tensor(distance_bias)
    size = bias.shape[0] if len(bias.shape) == 1 else 0
    if size < 2 or (signed and (size < 3 or size % 2 == 0)):
        length = "a length of at least 2 (m + 2"
        if signed:
            length = "an odd length of at least 3 (2·m + 3"
        raise ValueError(
            f"`distance_bias` must be a vector with {length}, m the largest distance). "
            f"Received distance_bias.shape={tuple(bias.shape)}, signed={signed}."
        )
    scores = dot_products(features, features)  # (..., T, T)
    # (T,), or (..., T) with a mask: the number of real positions so far.
    position = ops.arange(ops.shape(features)[-2], dtype="int32")
    if mask is not None:
        real = for_all_positions(mask, features)
        position = ops.cumsum(ops.cast(real, "int32"), axis=-1)
    distance = ops.expand_dims(position, -1) - ops.expand_dims(position, -2)  # i − j
    beyond = size // 2 if signed else size - 1  # m + 1
    distance = ops.clip(distance, -beyond, beyond)
    bucket = distance + beyond if signed else ops.abs(distance)
    # In TensorFlow the gradient of `take` is a list with one entry per pair of positions; the
    # reshape sums it to (size,).
    bias = ops.reshape(as_dtype(bias, scores.dtype), (size,))
    scores = scores + ops.take(bias, bucket, axis=0)
    return attend(scores, values, pair_mask(mask, mask), return_scores=return_scores)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class IntraSentenceAttention(SequenceLayer):
    """Append to every word of a sentence a weighted sum of related words: [x; x'].

    f[i, j] = F(x_i)·F(x_j) + d[i − j];  x' = softmax(f)·x

    d is learned, one number per distance. Distances beyond `max_distance` share one number, or one
    on each side if `signed`, and count real positions only. Masked positions, NaN included, have no
    effect and get weight exactly 0; their own output rows are 0. The output keeps the mask.

    Args:
        units: size of the layers of F. Defaults to 200.
        num_layers: number of layers of F. Each consists of dropout, a dense layer and ReLU.
            Defaults to 2.
        dropout: dropout rate in F, in [0, 1). Defaults to 0.
        kernel_initializer: initializer of the kernels of F. Defaults to "glorot_uniform".
        max_distance: largest distance, in positions, that has its own bias. Defaults to 10.
        signed: whether preceding and following words have separate biases. Defaults to True.

    Call arguments:
        inputs: (B, T, D), x.
        mask: boolean (B, T), True = real. Defaults to Keras' mask.
        training: whether to apply dropout.
        return_attention_scores: also return softmax(f).

    Returns:
        (B, T, 2·D), or that and the weights (B, T, T).

    Raises:
        ValueError: an argument out of range, a float mask, or inputs that are not (B, T, D).

    Example:
    >>> tuple(IntraSentenceAttention(units=16)(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 16)

    Source: Parikh et al. 2016, "A Decomposable Attention Model", §3.4, which does not say whether d
    is signed.
    """

    def __init__(
        self,
        units: int = 200,
        *,
        num_layers: int = 2,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        max_distance: int = 10,
        signed: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units, self.num_layers, self.dropout = units, num_layers, dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        fits = isinstance(max_distance, int) and max_distance >= 0
        self.max_distance = check(fits, max_distance, "max_distance", "an integer ≥ 0")
        self.signed = check_choice(signed, (False, True), "signed")
        self.network = DenseStack(
            units, num_layers, dropout, kernel_initializer, dtype=self.dtype_policy, name="network"
        )

    def build(self, inputs_shape: Shape) -> None:
        """Build F and create d."""
        check_sequence(inputs_shape, "inputs")
        self.network.build(inputs_shape)
        size = 2 * self.max_distance + 3 if self.signed else self.max_distance + 2
        # No autocast: scores are computed in float32 or higher precision under every policy.
        self.distance_bias = self.add_weight((size,), "zeros", autocast=False, name="distance_bias")

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend within `inputs`; see the class."""
        x, mask = self.masked(inputs, mask)
        attended, scores = intra_attention(
            self.network(x, training=training),  # (B, T, units)
            x,
            self.distance_bias,
            mask,
            signed=self.signed,
            return_scores=True,
        )
        output = ops.concatenate([x, attended], axis=-1)  # (B, T, 2·D)
        return (output, scores) if return_attention_scores else output

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, T, 2·D)."""
        return (*inputs_shape[:-1], 2 * check_sequence(inputs_shape, "inputs"))

    def weights_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, T, T)."""
        return (*inputs_shape[:2], inputs_shape[1])
