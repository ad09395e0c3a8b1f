"""Compositional de-attention (CoDA): weights that add, subtract and delete."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.checks import check_dropout, check_features, check_lengths
from keras_quasiattn.ops.coda.blockwise import blockwise_sums
from keras_quasiattn.ops.coda.choice import compute_by_choice
from keras_quasiattn.ops.coda.composition import Composition
from keras_quasiattn.ops.coda.pairs import Pairs
from keras_quasiattn.ops.masking import as_boolean_mask, causal_mask, combine_masks, sides
from keras_quasiattn.ops.precision import weighted_sum
from keras_quasiattn.ops.random import drop_weights
from keras_quasiattn.ops.recording import is_recording
from keras_quasiattn.ops.score_bias import as_score_bias, check_not_low, with_hidden_pairs
from keras_quasiattn.ops.training import training_step

Tensor = Any


def coda_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    alpha: float | Tensor = 1.0,
    beta: float | Tensor = 1.0,
    similarity: str = "tanh",
    gate: str = "sigmoid",
    gate_range: str = "scaled",
    center_similarity: bool = False,
    center_per_query: bool = False,
    is_causal: bool = False,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    bias: Tensor | None = None,
    return_scores: bool = False,
    implementation: str = "auto",
    training: bool | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention whose weights add (+), subtract (−) or delete (0) values instead of averaging them.

    E = α · query · keyᵀ + bias;  N = −β · ‖query[t] − key[s]‖₁;  M = tanh(E) ⊙ 2·sigmoid(N);
    output = M · value

    Nothing is divided by √d; include such a factor in `alpha` and `beta`. The mask multiplies M: a
    masked pair has weight exactly 0, and a query with no key to attend to gives all zeros and zero
    gradients. Masked pairs do not count in the means. M is computed in float32 for 16-bit inputs.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        alpha: factor of the similarity: a number, or a tensor that broadcasts to (..., T, S).
        beta: factor of the distance, like `alpha`.
        similarity: "tanh" or "sigmoid".
        gate: "sigmoid", "tanh", "arctan" or "algebraic" (x/√(1+x²)).
        gate_range: "scaled" doubles a sigmoid gate (eq. 5) and leaves other gates as they are;
            "centered" subtracts the mean of N (eq. 4); "raw" is eq. 3 unchanged.
        center_similarity: subtract the mean of E (eq. 6).
        center_per_query: take means over the keys of each query instead of over all pairs. Set it
            where queries must not see each other, as in a decoder's attention to its encoder.
        is_causal: query i attends to keys 0 … i only; means are then per query.
        dropout: fraction of the weights set to 0; the rest are divided by 1 − `dropout`.
        dropout_seed: two integers from `keras.random.SeedGenerator.next()`; needed for dropout.
        bias: floats that broadcast to (..., T, S), added to E before its mean is taken; None = no
            bias. −∞ hides the pair, as the mask does. A finite bias moves the sign and strength of
            a weight: a large negative one makes tanh(E) −1, so the key is subtracted, not ignored;
            below −1e4 it is an error, which graphs cannot find. N is unchanged, and the gate still
            deletes. What the bias holds at a masked pair does not matter.
        return_scores: also return M, before dropout; takes T·S memory per head with any
            implementation.
        implementation: "reference" computes M at once and makes a (..., T, S, D) tensor.
            "blockwise" computes M tile by tile, forward and backward, in memory linear in T and S;
            it compiles under XLA and can be saved in a SavedModel. "compiled" does the same in
            compiled CPU loops (TensorFlow on CPUs, with the `compiled` extra); compiling it with
            XLA or exporting it is an error. "auto" chooses "compiled" where it can: the extra is
            installed, there is no GPU or TPU, no factor varies along S, no bias is given, and the
            call is eager, a training step or a step of `fit`, `evaluate` or `predict`, on this
            machine and not compiled by XLA. Otherwise it chooses "blockwise". For few pairs it
            chooses "reference": if T or S is 1; instead of "compiled", if all batches and heads
            together have at most 8192 pairs; instead of "blockwise", if T·S is at most 1024. A
            TensorFlow graph with unknown sizes that XLA does not compile chooses when it runs. If
            scores are returned, "auto" and "blockwise" compute M whole, from blockwise distances
            ("auto" may still choose "reference"), and "compiled" is an error. All give the same
            output up to rounding.
        training: whether this is a training step; only "auto" uses it. Defaults to what the layer
            that calls this function says, and to False outside of layers.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, M) with M (..., T, S).

    Raises:
        ValueError: an unknown option, an implementation that is not available here or cannot return
            scores or add a bias, a float mask, a bias without floats, of another shape or too low,
            a rank below 2, lengths or feature counts that do not match, or dropout without a seed.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> output, weights = ops.coda_attention(x, x, x, is_causal=True, return_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 8), (2, 5, 5))

    Source: Tay et al. 2019, "Compositional De-Attention Networks", eqs. 1–7 and 10.
    """
    composition = Composition(similarity, gate, gate_range, center_similarity)
    query, key, value = (ops.convert_to_tensor(tensor) for tensor in (query, key, value))
    check_features(query, key, "query", "key")
    check_lengths(key, value)
    check_dropout(dropout, dropout_seed)
    leading = (None,) * (max(len(query.shape), len(key.shape)) - 2)
    bias = as_score_bias(bias, (*leading, query.shape[-2], key.shape[-2]))
    mask = as_boolean_mask(mask, "mask")
    seen = None
    if is_causal and bias is not None:
        seen = causal_mask(ops.shape(query)[-2], ops.shape(key)[-2])
    check_not_low(bias, combine_masks(mask, seen))

    def sums(mask: Tensor | None) -> tuple[Tensor, ...]:
        pairs = Pairs(
            query,
            key,
            distance_query=query,
            distance_key=key,
            composition=composition,
            alpha=alpha,
            beta=beta,
            bias=bias,
            mask=mask,
            is_causal=is_causal,
            mean_per_query=is_causal or center_per_query,
            dropout=dropout,
            dropout_seed=dropout_seed,
        )
        return _sums(pairs, value, return_scores=return_scores, implementation=implementation)

    with training_step(training):
        results = with_hidden_pairs(sums, mask, bias)
    return results if return_scores else results[0]


def coda_pair(
    a: Tensor,
    b: Tensor,
    mask_a: Tensor | None = None,
    mask_b: Tensor | None = None,
    *,
    distance_a: Tensor | None = None,
    distance_b: Tensor | None = None,
    value_a: Tensor | None = None,
    value_b: Tensor | None = None,
    alpha: float | Tensor = 1.0,
    beta: float | Tensor = 1.0,
    similarity: str = "tanh",
    gate: str = "sigmoid",
    gate_range: str = "scaled",
    center_similarity: bool = False,
    return_scores: bool = False,
    implementation: str = "auto",
    training: bool | None = None,
) -> tuple[Tensor, ...]:
    """CoDA between two sequences, with one weight matrix for both directions.

    E = α · a · bᵀ;  N = −β · ‖a[t] − b[s]‖₁;  M = tanh(E) ⊙ 2·sigmoid(N);  a' = M · b;  b' = Mᵀ · a

    A masked position has weight exactly 0 for the other sequence, its own row of the output is
    exactly 0, and its content has no effect.

    Args:
        a: (..., T, D), F_E(A) in the paper.
        b: (..., S, D), F_E(B).
        mask_a: boolean (or 0/1 integer) (..., T), True = real.
        mask_b: boolean (or 0/1 integer) (..., S), True = real.
        distance_a: (..., T, D'), F_N(A), what the distance compares; default: `a`.
        distance_b: (..., S, D'), F_N(B); default: `b`.
        value_a: (..., T, V), what b' pools; default: `a`.
        value_b: (..., S, V), what a' pools; default: `b`.
        alpha: factor of the similarity: a number, or a tensor that broadcasts to (..., T, S).
        beta: factor of the distance, like `alpha`.
        similarity: as in `coda_attention`.
        gate: as in `coda_attention`.
        gate_range: as in `coda_attention`.
        center_similarity: as in `coda_attention`.
        return_scores: also return M.
        implementation: as in `coda_attention`.
        training: as in `coda_attention`.

    Returns:
        (a', b') of shapes (..., T, V) and (..., S, V), or (a', b', M) with M (..., T, S).

    Raises:
        ValueError: an unknown option, an implementation that is not available here or cannot return
            scores, a float mask, a rank below 2, or lengths or feature counts that do not match.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> a_out, b_out = ops.coda_pair(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32"))
    >>> tuple(a_out.shape), tuple(b_out.shape)
    ((2, 3, 4), (2, 5, 4))

    Source: Tay et al. 2019, eqs. 1–7.
    """
    composition = Composition(similarity, gate, gate_range, center_similarity)
    mask_a, mask_b = as_boolean_mask(mask_a, "mask_a"), as_boolean_mask(mask_b, "mask_b")
    a, distance_a, value_a = sides("a", a, mask_a, distance_a=distance_a, value_a=value_a)
    b, distance_b, value_b = sides("b", b, mask_b, distance_b=distance_b, value_b=value_b)
    check_features(a, b, "a", "b")
    check_features(distance_a, distance_b, "distance_a", "distance_b")
    pairs = Pairs(
        a,
        b,
        distance_query=distance_a,
        distance_key=distance_b,
        composition=composition,
        alpha=alpha,
        beta=beta,
        row_mask=mask_a,
        key_mask=mask_b,
    )
    with training_step(training):
        return _sums(
            pairs, value_b, value_a, return_scores=return_scores, implementation=implementation
        )


def _sums(
    pairs: Pairs,
    value: Tensor,
    other_value: Tensor | None = None,
    *,
    return_scores: bool,
    implementation: str,
) -> tuple[Tensor, ...]:
    """M · value; then Mᵀ · other_value if it is given; then M if `return_scores`."""
    if return_scores and implementation == "compiled":
        raise ValueError(
            "`implementation='compiled'` cannot return scores. Use `implementation='auto'`, "
            "'blockwise' or 'reference' with `return_scores=True`."
        )

    def compute(implementation: str) -> tuple[Tensor, ...]:
        if implementation != "reference" and not return_scores and not is_recording():
            return blockwise_sums(pairs, value, other_value, compiled=implementation == "compiled")
        # The whole matrix (..., T, S), also for a recording.
        weights = pairs.weights("reference" if implementation == "reference" else "blockwise")
        kept = drop_weights(weights, pairs.dropout, pairs.dropout_seed)
        sums = [weighted_sum("...ts,...sv->...tv", kept, value)]  # (..., T, V)
        if other_value is not None:
            sums.append(weighted_sum("...ts,...tv->...sv", kept, other_value))  # (..., S, V)
        return (*sums, ops.cast(weights, value.dtype)) if return_scores else tuple(sums)

    return compute_by_choice(
        compute,
        implementation,
        pairs.query,
        pairs.key,
        alpha=pairs.alpha,
        beta=pairs.beta,
        has_bias=pairs.bias is not None,
    )
