"""The definition of the CoDA weight matrix, computed as one matrix."""

import dataclasses
from typing import Any

from keras import ops

from keras_quasiattn.attention.coda.calibration import observed
from keras_quasiattn.attention.coda.composition import Composition
from keras_quasiattn.core import recording
from keras_quasiattn.core.l1 import pairwise_l1
from keras_quasiattn.core.masks import (
    causal_mask,
    combine_masks,
    masked_mean,
    pair_mask,
    zero_masked,
)
from keras_quasiattn.core.score_bias import add_score_bias
from keras_quasiattn.core.tensors import as_dtype, dot_products

Tensor = Any


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Two sequences, and the options by which each pair of positions gets its weight.

    The options are as for `ops.coda_attention`. `query` and `key` are what E compares, F_E in the
    paper, `distance_query` (..., T, F) and `distance_key` (..., S, F) what the distance compares,
    F_N. `mask` broadcasts to (..., T, S); `row_mask` (..., T) and `key_mask` (..., S) hide
    positions. With `mean_per_query`, means are over the keys of each query.
    """

    query: Tensor
    key: Tensor
    distance_query: Tensor
    distance_key: Tensor
    composition: Composition
    alpha: float | Tensor = 1.0
    beta: float | Tensor = 1.0
    bias: Tensor | None = None
    mask: Tensor | None = None
    row_mask: Tensor | None = None
    key_mask: Tensor | None = None
    is_causal: bool = False
    mean_per_query: bool = False
    dropout: float = 0.0
    dropout_seed: Tensor | None = None

    def weights(self, distances: str = "reference") -> Tensor:
        """Return M = similarity(E) ⊙ gate(N), (..., T, S), 0 where masked, before dropout.

        `distances` is the `implementation` of `pairwise_l1`. M is float64 if all inputs are,
        otherwise float32.
        """
        products = dot_products(self.query, self.key)  # (..., T, S)
        # (..., T, S)
        distance = pairwise_l1(self.distance_query, self.distance_key, implementation=distances)
        seen = causal_mask(*ops.shape(products)[-2:]) if self.is_causal else None
        mask = combine_masks(self.mask, pair_mask(self.row_mask, self.key_mask), seen)
        alpha, beta = observed(self.alpha, self.beta, products, distance, mask)
        negative_distance = as_dtype(beta, products.dtype) * -distance  # N
        similarity = as_dtype(alpha, products.dtype) * products
        if self.bias is not None:
            similarity = add_score_bias(similarity, self.bias, mask)  # E
        # Means are (..., T, 1) per query, or (..., 1, 1).
        mean_axis = -1 if self.mean_per_query else (-2, -1)
        if self.composition.center_similarity:
            similarity = similarity - masked_mean(similarity, mask, mean_axis)
        if self.composition.center_gate:
            negative_distance = negative_distance - masked_mean(negative_distance, mask, mean_axis)

        similarity, gate = self.composition.factors(similarity, negative_distance)
        weights = zero_masked(similarity * gate, mask)
        if recording.active.get() is not None:
            similarity_label, gate_label = self.composition.labels
            recording.record("similarity", similarity, mask, similarity_label)
            recording.record("gate", gate, mask, gate_label)
            recording.record("weights", weights, mask, "M")
        return recording.edited(weights, mask)
