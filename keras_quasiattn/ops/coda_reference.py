"""The definition of a CoDA weight matrix, computed at once."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.composition import Composition
from keras_quasiattn.ops.distance import pairwise_l1
from keras_quasiattn.ops.masking import masked_mean, zero_masked
from keras_quasiattn.ops.precision import as_dtype, compute_dtype
from keras_quasiattn.ops.recording import record

Tensor = Any


def quasi_attention_weights(
    similarity_pair: tuple[Tensor, Tensor],
    distance_pair: tuple[Tensor, Tensor],
    mask: Tensor | None,
    *,
    alpha: float | Tensor,
    beta: float | Tensor,
    composition: Composition,
    mean_axis: int | tuple[int, ...],
    implementation: str = "reference",
) -> Tensor:
    """M = similarity(E) ⊙ gate(N), 0 where `mask` is False (CoDA paper, eqs. 1–6).

    Args:
        similarity_pair: F_E(A) (..., T, D) and F_E(B) (..., S, D).
        distance_pair: F_N(A) (..., T, D') and F_N(B) (..., S, D').
        mask: boolean, broadcasts to (..., T, S), or None.
        alpha: factor of E: a number, or a tensor that broadcasts to (..., T, S).
        beta: the same for the distance.
        composition: which functions, and what is centred.
        mean_axis: what a mean runs over: (-2, -1) for all pairs, -1 for the keys of each query.
        implementation: of `pairwise_l1`.

    Returns:
        (..., T, S), float64 if all inputs are and otherwise float32.
    """
    query, key = similarity_pair
    dtype = compute_dtype(query, key)
    # einsum, not matmul: on JAX and PyTorch `ops.matmul` rounds float64 to float32.
    dot_product = ops.einsum("...td,...sd->...ts", ops.cast(query, dtype), ops.cast(key, dtype))
    similarity = as_dtype(alpha, dtype) * dot_product
    negative_distance = as_dtype(beta, dtype) * -pairwise_l1(*distance_pair, implementation=implementation)
    if composition.center_similarity:
        similarity = similarity - masked_mean(similarity, mask, mean_axis)
    if composition.center_gate:
        negative_distance = negative_distance - masked_mean(negative_distance, mask, mean_axis)
    similarity, gate = composition.factors(similarity, negative_distance)
    weights = zero_masked(similarity * gate, mask)
    for name, values, label in zip(
        ("similarity", "gate", "weights"),
        (similarity, gate, weights),
        (*composition.labels, "M"),
        strict=True,
    ):
        record(name, values, mask, label)
    return weights
