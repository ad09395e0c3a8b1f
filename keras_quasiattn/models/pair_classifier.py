"""Decomposable attention for classifying two texts, with softmax or CoDA."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer
from keras_quasiattn.models.functional_model import FunctionalModel, arguments_of, policy_of
from keras_quasiattn.models.pair_network import PairNetwork, pair_inputs, pair_masks

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class PairClassifier(FunctionalModel):
    """Classifies two texts by decomposable attention: embed, attend, compare, aggregate.

    a, b = P·table[ids];  β, α = attend(a, b);  v1 = Σ_i G([a_i; β_i]);  v2 = Σ_j G([b_j; α_j]);
    logits = W·H([v1; v2]) + w

    With intra-attention, [a; a'] and [b; b'] replace a and b. Only the intra-attention's distances
    depend on word order. β and α are weighted sums of b and a themselves, not of their projections
    by F. F, G and H are ReLU networks. For ranking, use two classes and take the probability of the
    positive class as score.

    Padding is id 0 and changes nothing. A text that is all padding has the sum v = 0 and gives
    finite logits. The tokenizer may prepend a null token, to which words without a counterpart can
    align.

    Args:
        vocabulary_size: number of token ids, including 0 for padding.
        num_classes: number of classes.
        embedding_dim: width of the embedding. Defaults to 300.
        train_embedding: whether the embedding is trained. Defaults to True.
        units: width of every layer of F, G and H. Defaults to 200.
        num_layers: layers in each of F, G and H: a dropout, then a ReLU layer. Defaults to 2.
        projection_dim: width of the projection P, which has no bias; None (the default) for no P.
        intra_attention: whether each text first attends to itself, which doubles the width.
            Defaults to False.
        intra_options: dict of `IntraSentenceAttention` arguments that override those of this model.
        attention: name of a mechanism, such as "softmax" (the default) or "coda"; the error for an
            unknown name lists all.
        attention_options: dict of the mechanism's options, as for `layers.DecomposableAttention`:
            for "coda" on short vectors such as a new embedding's, {"scaling": "none"}.
        dropout: rate in [0, 1) before every layer of G and H. Defaults to 0.
        attention_dropout: rate in [0, 1) before every layer of F. Defaults to 0, which is usually
            best with "coda"; see `layers.DecomposableAttention`.
        kernel_initializer: initializer of every kernel except the embedding. Defaults to
            "glorot_uniform".
        comparison: what G reads: "concat" (the default), [a_i; β_i], or "difference", also
            |a_i − β_i| and a_i·β_i (Chen et al. 2017), which few training pairs teach faster.
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
    "Enhanced LSTM for Natural Language Inference", for the comparison by differences.
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
        **kwargs: Any,
    ) -> None:
        check_positive_integer(vocabulary_size, "vocabulary_size")
        check_positive_integer(embedding_dim, "embedding_dim")
        policy = policy_of(kwargs.pop("dtype", None))
        self._arguments = arguments_of(PairClassifier.__init__, locals())
        embedding = keras.layers.Embedding(
            vocabulary_size,
            embedding_dim,
            trainable=train_embedding,
            dtype=policy,
            name="embedding",
        )
        own = ("vocabulary_size", "embedding_dim", "train_embedding")
        of_network = {name: value for name, value in self._arguments.items() if name not in own}
        network = PairNetwork(**of_network, dtype=policy, name="network")
        self._arguments["kernel_initializer"] = keras.initializers.serialize(
            network.kernel_initializer
        )
        self._hold(_embedding=embedding, _network=network)
        inputs = pair_inputs()
        super().__init__(inputs=inputs, outputs=self._answer(**inputs), **kwargs)
        self.dtype_policy = policy

    @property
    def embedding(self) -> keras.layers.Embedding:
        """The embedding layer; its table can be set to pretrained word vectors."""
        return self._embedding

    def explain(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Returns the logits and the attention weights.

        Args:
            first: ids (B, T), integers.
            second: ids (B, S), integers.

        Returns:
            `logits` (B, num_classes). With softmax also `weights_first` (B, T, S) and
            `weights_second` (B, S, T), whose rows sum to 1; with CoDA `weights` (B, T, S), which
            serve both directions.
        """
        logits, *weights = self._answer(
            ops.cast(first, "int32"), ops.cast(second, "int32"), return_attention_scores=True
        )
        if len(weights) == 1:
            return {"logits": logits, "weights": weights[0]}
        return {
            "logits": logits,
            "weights_first": weights[0],
            "weights_second": ops.swapaxes(weights[1], -1, -2),
        }

    def _answer(self, first: Tensor, second: Tensor, **options: Any) -> Any:
        pair = [self._embedding(ids) for ids in (first, second)]
        return self._network(pair, mask=pair_masks(first, second), **options)
