"""Attend, compare, aggregate: two sequences of vectors to class logits."""

from typing import Any, cast

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer
from keras_quasiattn.core.quantized_parts import QuantizedParts
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers import DecomposableAttention, IntraSentenceAttention, MaskedPooling
from keras_quasiattn.layers.dense import Dense, DenseStack

Tensor = Any
Shape = tuple[int | None, ...]
COMPARISONS = ("concat", "difference")


class PairNetwork(QuantizedParts, keras.layers.Layer):
    """`PairClassifier` without its embedding, so that the components of a mixture can share one.

    a, b = P·a, P·b;  a, b = [a; a'], [b; b'];  β, α = attend(a, b);
    v1 = Σ_i G([a_i; β_i]);  v2 = Σ_j G([b_j; α_j]);  logits = W·H([v1; v2; context]) + w

    With `comparison="difference"` G reads [a_i; β_i; |a_i − β_i|; a_i·β_i].

    Padding changes nothing, and a sequence that is all padding has the sum v = 0.

    Its arguments are those of `PairClassifier` with the same names.

    Call arguments:
        inputs: [a, b], (B, T, features) and (B, S, features).
        context: None, or vectors (B, C) that H reads too.
        mask: [mask_a, mask_b], each None or boolean (B, T) and (B, S), True = real.
        training: whether dropout is on.
        return_attention_scores: whether to return the weights too.

    Returns:
        Logits (B, num_classes), or (logits, the weights of `DecomposableAttention`): one matrix
        (B, T, S) with "coda", two with "softmax".

    Raises:
        ValueError: if an argument is out of range.

    Source: Parikh et al. 2016, "A Decomposable Attention Model for Natural Language Inference".
    """

    def __init__(
        self,
        num_classes: int,
        units: int = 200,
        num_layers: int = 2,
        projection_dim: int | None = None,
        intra_attention: bool = False,
        intra_options: dict[str, Any] | None = None,
        attention: str = "softmax",
        attention_options: dict[str, Any] | None = None,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        comparison: str = "concat",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_classes = check_positive_integer(num_classes, "num_classes")
        self.units = check_positive_integer(units, "units")
        if projection_dim is not None:
            check_positive_integer(projection_dim, "projection_dim")
        if intra_options and not intra_attention:
            raise ValueError(
                "`intra_options` need `intra_attention=True`. "
                f"Received: intra_options={intra_options}, intra_attention={intra_attention}"
            )
        check_choice(comparison, COMPARISONS, "comparison")
        self.comparison = comparison
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        sizes: dict[str, Any] = {"units": units, "num_layers": num_layers, "dropout": dropout}
        self.projection = (
            Dense(projection_dim, use_bias=False, **self._common("projection"))
            if projection_dim
            else None
        )
        self.intra = (
            IntraSentenceAttention(**{**sizes, **self._common("intra"), **(intra_options or {})})
            if intra_attention
            else None
        )
        self.attend = DecomposableAttention(
            units=units,
            num_layers=num_layers,
            dropout=attention_dropout,
            attention=attention,
            attention_options=attention_options,
            **self._common("attend"),
        )
        self.compare = DenseStack(**sizes, **self._common("compare"))
        self.pooling = MaskedPooling("sum", dtype=self.dtype_policy, name="pooling")
        self.aggregate = DenseStack(**sizes, **self._common("aggregate"))
        self.output_layer = keras.layers.Dense(
            num_classes, **{**self._common("logits"), "dtype": "float32"}
        )

    def _common(self, name: str) -> dict[str, Any]:
        # Every layer gets a clone: a shared initializer without a seed repeats its numbers.
        initializer = self.kernel_initializer.clone()
        return {"kernel_initializer": initializer, "dtype": self.dtype_policy, "name": name}

    def build(self, inputs_shape: list[Shape], context_shape: Shape | None = None) -> None:
        """Creates the weights."""
        shapes = [tuple(shape) for shape in inputs_shape]
        for layer in (self.projection, self.intra):
            if layer:
                layer.build(shapes[0])
                shapes = [layer.compute_output_shape(shape) for shape in shapes]
        self.attend.build(shapes)
        batch, _, width = shapes[0]
        context = context_shape[-1] if context_shape else 0
        read = {"concat": 2, "difference": 4}[self.comparison]
        self.compare.build((batch, None, read * cast(int, width)))
        self.pooling.build((batch, None, self.units))
        self.aggregate.build((batch, 2 * self.units + cast(int, context)))
        self.output_layer.build((batch, self.units))

    def call(
        self,
        inputs: list[Tensor],
        context: Tensor | None = None,
        mask: list[Tensor | None] | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Returns the logits, or the logits and the weights; see the class."""
        pair = list(inputs)
        masks = list(mask or (None, None))
        if self.projection:
            pair = [self.projection(x) for x in pair]  # (B, T or S, projection_dim)
        if self.intra:
            pair = [
                self.intra(x, mask=m, training=training) for x, m in zip(pair, masks, strict=True)
            ]
        # (B, T, width) and (B, S, width), then any weights (B, T, S)
        outputs = self.attend(
            pair, mask=masks, training=training, return_attention_scores=return_attention_scores
        )
        sums = []
        for x, aligned, m in zip(pair, outputs[:2], masks, strict=True):
            read = [x, aligned]
            if self.comparison == "difference":
                read += [ops.abs(x - aligned), x * aligned]
            # (B, L, 2·width or 4·width) to (B, L, units), L = T or S; summed over L (B, units).
            compared = self.compare(ops.concatenate(read, axis=-1), training=training)
            sums.append(self.pooling(compared, mask=m))
        if context is not None:
            sums.append(ops.cast(context, self.compute_dtype))
        # (B, 2·units), or (B, 2·units + C) with a context.
        logits = self.output_layer(
            self.aggregate(ops.concatenate(sums, axis=-1), training=training)
        )
        return (logits, *outputs[2:]) if return_attention_scores else logits

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> None:
        """Returns None: the logits have no positions left to mask."""
        return None

    def compute_output_shape(
        self, inputs_shape: list[Shape], context_shape: Shape | None = None
    ) -> Shape:
        """Returns (B, num_classes)."""
        return (inputs_shape[0][0], self.num_classes)


def pair_inputs() -> dict[str, Tensor]:
    """Returns symbolic ids of the first and the second text."""
    return {name: keras.Input((None,), dtype="int32", name=name) for name in ("first", "second")}


def pair_masks(first: Tensor, second: Tensor) -> list[Tensor]:
    """Returns the masks of the words: True where the ids (B, T) and (B, S) are not 0."""
    return [ops.not_equal(ids, 0) for ids in (first, second)]
