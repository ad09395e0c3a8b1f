"""An embedding whose table also turns vectors into token logits."""

from typing import Any

import keras

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TokenEmbedding(keras.layers.ReversibleEmbedding):
    """Turn token ids into vectors and, with `reverse=True`, vectors into logits of the same table.

    vectors = √D·table[ids];  logits = vectors·tableᵀ in float32; table drawn from N(0, 1/D)

    The logits keep the mask of the vectors, so Keras losses and metrics leave padding out. With
    `mask_zero=True` id 0 is padding, as in `keras.layers.Embedding`, unless the ids carry a mask.

    Args:
        input_dim: positive integer, number of token ids.
        output_dim: positive integer, width D.
        **kwargs: `name`, `dtype`, `trainable`, `embeddings_regularizer` and the like of
            `keras.layers.Embedding`. `reverse_dtype` is always float32.

    Call arguments:
        inputs: integer ids (B, T), or vectors (B, T, D) with `reverse=True`.
        reverse: whether to turn vectors into logits.

    Returns:
        Vectors (B, T, D), or logits (B, T, input_dim) in float32.

    Example:
    >>> layer = TokenEmbedding(10, 4)
    >>> vectors = layer(keras.ops.ones((2, 3), dtype="int32"))
    >>> tuple(vectors.shape), tuple(layer(vectors, reverse=True).shape)
    ((2, 3, 4), (2, 3, 10))

    Source: Press and Wolf 2017, "Using the Output Embedding to Improve Language Models"; scale
    and initial values as in Tensor2Tensor.
    """

    def __init__(self, input_dim: int, output_dim: int, **kwargs: Any) -> None:
        initializer = keras.initializers.RandomNormal(stddev=output_dim**-0.5)
        options = {"embeddings_initializer": initializer, **kwargs, "reverse_dtype": "float32"}
        super().__init__(input_dim, output_dim, **options)
        self.supports_masking = True

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        """Embed ids, or turn vectors into logits; see the class."""
        return self._scaled(super().call(inputs, reverse=reverse), reverse)

    def quantized_call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        """Do what `call` does, which Keras does not call once the table is quantized."""
        return self._scaled(super().quantized_call(inputs, reverse=reverse), reverse)

    def _scaled(self, outputs: Tensor, reverse: bool) -> Tensor:
        return keras.ops.cast(outputs, "float32") if reverse else outputs * self.output_dim**0.5

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """Quantize like Keras' layer, which rejects subclasses unless `type_check=False`."""
        super().quantize(mode, type_check=False, config=config)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor | None:
        """Return the mask of the inputs, or of the ids that are not 0 with `mask_zero`."""
        if mask is None and self.mask_zero and keras.backend.is_int_dtype(inputs.dtype):
            return keras.ops.not_equal(inputs, 0)
        return mask

    def compute_output_spec(self, inputs: Tensor, reverse: bool = False) -> Any:
        """Return symbolic vectors in the compute dtype, or symbolic logits in float32."""
        spec = super().compute_output_spec(inputs, reverse=reverse)
        return keras.KerasTensor(spec.shape, dtype="float32") if reverse else spec
