"""Decomposable attention for classifying two texts: attend, compare, aggregate."""

from typing import Any, cast

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer, check_rate
from keras_quasiattn.core.configured import QuantizedParts, clone_initializer
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers import DecomposableAttention, IntraSentenceAttention, MaskedPooling
from keras_quasiattn.layers.dense import Dense, DenseStack
from keras_quasiattn.models.functional_model import EmbeddingModel, id_inputs, is_real, layer_maker

Tensor = Any
Shape = tuple[int | None, ...]
COMPARISONS = ("concat", "difference")


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class PairClassifier(EmbeddingModel):
    """Classify two texts by decomposable attention: embed, attend, compare, aggregate.

    a, b = P·table[ids];  β, α = attend(a, b);  v1 = Σ_i G([a_i; β_i]);  v2 = Σ_j G([b_j; α_j]);
    logits = W·H([v1; v2]) + w

    With intra-attention, [a; a'] and [b; b'] replace a and b. Only the distances of the
    intra-attention depend on word order. β and α are weighted sums of b and a themselves, not of
    their projections by F. F, G and H are ReLU networks. For ranking, use two classes and take the
    probability of the positive class as score.

    Padding is id 0 and has no effect. A text of padding alone has the sum v = 0 and gives finite
    logits. Words without a counterpart can align to a null token, if the tokenizer prepends one.

    Args:
        vocabulary_size: number of token ids, including 0 for padding.
        num_classes: number of classes.
        embedding_dim: width of the embedding. Defaults to 300.
        train_embedding: whether the embedding is trained. Defaults to True.
        units: width of every layer of F, G and H. Defaults to 200.
        num_layers: layers in each of F, G and H: a dropout, then a ReLU layer. Defaults to 2.
        projection_dim: width of the projection P, which has no bias; None (the default) for no P.
        intra_attention: whether each text first attends to itself; this doubles the width. Defaults
            to False.
        intra_options: dict of `IntraSentenceAttention` arguments that override those of this model.
        attention: name of an attention, such as "softmax" (the default) or "coda"; an unknown name
            raises an error that lists them all.
        attention_options: dict of the attention's options, as for `layers.DecomposableAttention`.
            For "coda" on short vectors, such as those of a new embedding, use {"scaling": "none"}.
        dropout: rate in [0, 1) before every layer of G and H. Defaults to 0.
        attention_dropout: rate in [0, 1) before every layer of F. Defaults to 0, which is usually
            best with "coda"; see `layers.DecomposableAttention`.
        kernel_initializer: initializer of every kernel except the embedding. Defaults to
            "glorot_uniform".
        comparison: what G reads: "concat" (the default), [a_i; β_i], or "difference", also
            |a_i − β_i| and a_i·β_i (Chen et al. 2017), which learns faster from few pairs.
        exact_match: whether each word has one more feature, 1 if its id is in the other text and 0
            if not (Chen et al. 2017b); unknown words of one id count as equal. Defaults to False.
        last_activation: activation of the last layer of F; as for `layers.DecomposableAttention`.
            Defaults to "relu".
        share_networks: whether the distance of "coda" compares the outputs of F too; as for
            `layers.DecomposableAttention`. Defaults to True.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the logits are always float32).

    Call arguments:
        inputs: {"first": ids (B, T), "second": ids (B, S)}, integers.
        training: whether dropout is on.

    Returns:
        Logits (B, num_classes), float32.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = PairClassifier(vocabulary_size=20, num_classes=3, units=8, projection_dim=8)
    >>> ids = {"first": keras.ops.ones((2, 5), "int32"), "second": keras.ops.ones((2, 4), "int32")}
    >>> model(ids).shape == (2, 3)
    True

    Source: Parikh et al. 2016, "A Decomposable Attention Model for Natural Language Inference"; Tay
    et al. 2019, "Compositional De-Attention Networks", §3.2–3.3, for "coda"; Chen et al. 2017,
    "Enhanced LSTM for Natural Language Inference", for the comparison by differences; Chen et al.
    2017b, "Reading Wikipedia to Answer Open-Domain Questions", for the exact match.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        embedding_dim: int = 300,
        train_embedding: bool = True,
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
        exact_match: bool = False,
        last_activation: Any = "relu",
        share_networks: bool = True,
        **kwargs: Any,
    ) -> None:
        make = self._begin(locals())
        self._hold_embedding(make)
        check_choice(exact_match, (True, False), "exact_match")
        own = ("vocabulary_size", "embedding_dim", "train_embedding", "exact_match")
        of_network = {name: value for name, value in self._arguments.items() if name not in own}
        network = make(PairNetwork, "network", **of_network)
        self._arguments |= {
            "kernel_initializer": keras.initializers.serialize(network.kernel_initializer),
            "last_activation": keras.activations.serialize(network.attend.last_activation),
        }
        self._hold(_network=network)
        inputs = id_inputs("first", "second")
        self._end(inputs, self._answer(**inputs), kwargs)

    def explain(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Return the logits and the attention weights for ids (B, T) and (B, S).

        With softmax these are `weights_first` (B, T, S) and `weights_second` (B, S, T), whose rows
        sum to 1; with CoDA `weights` (B, T, S), which serve both directions.
        """
        logits, *weights = self._answer(
            ops.cast(first, "int32"), ops.cast(second, "int32"), return_attention_scores=True
        )
        if len(weights) == 1:
            return {"logits": logits, "weights": weights[0]}
        second = ops.swapaxes(weights[1], -1, -2)
        return {"logits": logits, "weights_first": weights[0], "weights_second": second}

    def _answer(self, first: Tensor, second: Tensor, **options: Any) -> Any:
        pair = [self._embedding(ids) for ids in (first, second)]
        if self._arguments["exact_match"]:
            # LiteRT cannot convert new axes by indices.
            same = ops.equal(ops.expand_dims(first, 2), ops.expand_dims(second, 1))  # (B, T, S)
            found = (ops.any(same, axis=2), ops.any(same, axis=1))
            pair = [  # (B, T or S, embedding_dim + 1)
                ops.concatenate([x, ops.expand_dims(ops.cast(one, x.dtype), -1)], -1)
                for x, one in zip(pair, found, strict=True)
            ]
        return self._network(pair, mask=[is_real(first), is_real(second)], **options)


class PairNetwork(QuantizedParts, keras.layers.Layer):
    """`PairClassifier` without its embedding, which the components of a mixture share.

    a, b = P·a, P·b;  a, b = [a; a'], [b; b'];  β, α = attend(a, b);
    v1 = Σ_i G([a_i; β_i]);  v2 = Σ_j G([b_j; α_j]);  logits = W·H([v1; v2; context]) + w

    With `comparison="difference"` G reads [a_i; β_i; |a_i − β_i|; a_i·β_i].

    Padding has no effect, and a sequence of padding alone has the sum v = 0. The arguments are
    those of `PairClassifier` from `units` on without `exact_match`, and `num_classes`. A call takes
    [a, b] and their masks, as `DecomposableAttention`, and optionally a `context` (B, C) that H
    reads too. It returns logits (B, num_classes), followed by the weights if they are requested.
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
        last_activation: Any = "relu",
        share_networks: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_classes = check_positive_integer(num_classes, "num_classes")
        self.units = check_positive_integer(units, "units")
        check_positive_integer(projection_dim, "projection_dim", optional=True)
        if intra_options and not intra_attention:
            raise ValueError(
                "`intra_options` need `intra_attention=True`. "
                f"Received: intra_options={intra_options}, intra_attention={intra_attention}"
            )
        check_rate(attention_dropout, "attention_dropout")
        self.comparison = check_choice(comparison, COMPARISONS, "comparison")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        sizes: dict[str, Any] = {"units": units, "num_layers": num_layers, "dropout": dropout}
        chosen = {
            "attention": attention,
            "attention_options": attention_options,
            "last_activation": last_activation,
            "share_networks": share_networks,
            "dropout": attention_dropout,
        }
        make = self._make
        self.projection = self.intra = None
        if projection_dim:
            self.projection = make(Dense, "projection", projection_dim, use_bias=False)
        if intra_attention:
            self.intra = make(IntraSentenceAttention, "intra", **sizes | (intra_options or {}))
        self.attend = make(DecomposableAttention, "attend", **sizes | chosen)
        self.compare = make(DenseStack, "compare", **sizes)
        self.pooling = MaskedPooling("sum", dtype=self.dtype_policy, name="pooling")
        self.aggregate = make(DenseStack, "aggregate", **sizes)
        self.output_layer = make(keras.layers.Dense, "logits", num_classes, dtype="float32")

    def _make(self, kind: Any, name: str, *arguments: Any, **options: Any) -> Any:
        # Every layer gets a clone, because a shared initializer without a seed repeats its numbers.
        options = {"kernel_initializer": clone_initializer(self.kernel_initializer), **options}
        return layer_maker(self.dtype_policy)(kind, name, *arguments, **options)

    def build(self, inputs_shape: list[Shape], context_shape: Shape | None = None) -> None:
        """Create the weights."""
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
        """Return the logits, or the logits and the weights; see the class."""
        pair = list(inputs)
        masks = list(mask or (None, None))
        if self.projection:
            pair = [self.projection(x) for x in pair]  # (B, T or S, projection_dim)
        if self.intra:
            given = zip(pair, masks, strict=True)
            pair = [self.intra(x, mask=m, training=training) for x, m in given]
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
        joined = ops.concatenate(sums, axis=-1)
        logits = self.output_layer(self.aggregate(joined, training=training))
        return (logits, *outputs[2:]) if return_attention_scores else logits

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> None:
        """Return None: the logits have no positions left to mask."""
        return None

    def compute_output_shape(
        self, inputs_shape: list[Shape], context_shape: Shape | None = None
    ) -> Shape:
        """Return (B, num_classes)."""
        return (inputs_shape[0][0], self.num_classes)
