"""Compositional de-attention (CoDA): the function, its options and its multi-head layer."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import (
    Attention,
    Factor,
    check_factor,
    factor,
    factor_weights,
    register_attention,
)
from keras_quasiattn.attention.coda.blockwise import blockwise_sums
from keras_quasiattn.attention.coda.calibration import SCALES, calibrating
from keras_quasiattn.attention.coda.choice import CODA_IMPLEMENTATIONS, compute_by_choice
from keras_quasiattn.attention.coda.composition import Composition, Pairs
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core import recording
from keras_quasiattn.core.arguments import check
from keras_quasiattn.core.masks import Mask, as_boolean_mask, causal_mask, combine_masks, sides
from keras_quasiattn.core.randomness import drop_weights
from keras_quasiattn.core.score_bias import as_score_bias, check_not_low, with_hidden_pairs
from keras_quasiattn.core.tensors import (
    check_broadcast,
    check_choice,
    check_features,
    checked_inputs,
    training_call,
    weighted_sum,
)
from keras_quasiattn.core.tiling import broadcast_leading

Tensor = Any


def scaling_factor(scaling: str, features: int, paper: float) -> float:
    """Return the factor of the similarity E and of the distance N.

    "mean" is 1/features, with which neither tanh nor the gate starts saturated, whatever the number
    of features. "paper" is the factor in the paper's equation, "none" 1, and "calibrated" starts as
    "mean".
    """
    check_choice(scaling, ("mean", "paper", "none", "calibrated"), "scaling")
    return paper if scaling == "paper" else 1.0 if scaling == "none" else 1 / features


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
    """Attend with weights that add (+), subtract (−) or delete (0) values, instead of an average.

    E = α · query · keyᵀ + bias;  N = −β · ‖query[t] − key[s]‖₁;  M = tanh(E) ⊙ 2·sigmoid(N);
    output = M · value

    Nothing is divided by √d; include such a factor in `alpha` and `beta`. The mask multiplies M: a
    masked pair has weight exactly 0, and a query with no key to attend to gives all zeros and zero
    gradients. Masked pairs do not count in the means. M is computed in float32 for 16-bit inputs;
    integers become floats.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend. Defaults to
            None: all pairs.
        alpha: factor of the similarity: a number, or a tensor that broadcasts to (..., T, S).
            Defaults to 1.
        beta: factor of the distance, like `alpha`. Defaults to 1.
        similarity: "tanh" or "sigmoid". Defaults to "tanh".
        gate: "sigmoid", "tanh", "arctan" or "algebraic" (x/√(1+x²)). Defaults to "sigmoid".
        gate_range: "scaled" doubles a sigmoid gate (eq. 5) and leaves other gates as they are;
            "centered" subtracts the mean of N (eq. 4); "raw" is eq. 3 unchanged. Defaults to
            "scaled".
        center_similarity: subtract the mean of E (eq. 6). Defaults to False.
        center_per_query: take means over the keys of each query instead of over all pairs. Set it
            where queries must not see each other, as in a decoder's attention to its encoder.
            Defaults to False.
        is_causal: query i attends to keys 0 … i only; means are then per query. Defaults to False.
        dropout: fraction of the weights set to 0; the rest are divided by 1 − `dropout`. Defaults
            to 0.
        dropout_seed: two integers from `keras.random.SeedGenerator.next()`; needed for dropout.
            Defaults to None.
        bias: floats that broadcast to (..., T, S), added to E before its mean is taken; None = no
            bias. −∞ hides the pair, as the mask does. A finite bias moves the sign and strength of
            a weight: a large negative one makes tanh(E) −1, so the key is subtracted, not ignored;
            below −1e4 it is an error (not checked in graphs). N is unchanged, and the gate still
            deletes. What the bias holds at a masked pair does not matter. Defaults to None.
        return_scores: also return M, before dropout; takes T·S memory per head with any
            implementation. Defaults to False.
        implementation: "reference" computes M at once and makes a (..., T, S, D) tensor.
            "blockwise" computes M tile by tile, forward and backward, in memory linear in T and S.
            "compiled" does the same in compiled CPU loops, with the `compiled` extra, or on PyTorch
            with an NVIDIA GPU of compute capability 9 in Triton kernels, in float32. `jax.jit` and
            `torch.compile` keep both; XLA on TensorFlow and exports cannot. "auto" is "reference"
            for few pairs, "compiled" where it can run (no bias, no factor that varies along S, and
            a call that stays in this process), and "blockwise" otherwise. With scores, M is
            computed whole, and "compiled" is an error. All give the same output up to rounding.
            Defaults to "auto".
        training: whether this is a training call; only "auto" uses it. Defaults to what the layer
            that calls this function says, and to False outside of layers.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, M) with M (..., T, S).

    Raises:
        ValueError: an unknown option, an implementation that is not available here or cannot return
            scores or add a bias, a float mask, a bias without floats or too low, a mask, bias or
            factor of another shape, a rank below 2, lengths or feature counts that do not match, or
            dropout without a seed.

    Example:
    >>> x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> output, weights = coda_attention(x, x, x, is_causal=True, return_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 8), (2, 5, 5))

    Source: Tay et al. 2019, "Compositional De-Attention Networks", eqs. 1–7 and 10.
    """
    composition = Composition(similarity, gate, gate_range, center_similarity)
    query, key, value = checked_inputs(query, key, value, dropout, dropout_seed)
    shape = _scores_shape(query, key, alpha=alpha, beta=beta)
    mask = as_boolean_mask(mask, "mask", shape)
    if bias is not None:
        bias = as_score_bias(bias, shape)
        seen = causal_mask(ops.shape(query)[-2], ops.shape(key)[-2]) if is_causal else None
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

    with training_call(training):
        results = sums(mask) if bias is None else with_hidden_pairs(sums, mask, bias)
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
    """Align two sequences by CoDA, with one weight matrix for both directions.

    E = α · a · bᵀ;  N = −β · ‖a[t] − b[s]‖₁;  M = tanh(E) ⊙ 2·sigmoid(N);  a' = M · b;  b' = Mᵀ · a

    A masked position has weight exactly 0 for the other sequence, its own row of the output is
    exactly 0, and its content has no effect.

    Args:
        a: (..., T, D), F_E(A) in the paper.
        b: (..., S, D), F_E(B).
        mask_a: boolean (or 0/1 integer) (..., T), True = real. Defaults to None.
        mask_b: boolean (or 0/1 integer) (..., S), True = real. Defaults to None.
        distance_a: (..., T, D'), F_N(A), what the distance compares; default: `a`.
        distance_b: (..., S, D'), F_N(B); default: `b`.
        value_a: (..., T, V), what b' pools; default: `a`.
        value_b: (..., S, V), what a' pools; default: `b`.
        alpha: factor of the similarity: a number, or a tensor that broadcasts to (..., T, S).
            Defaults to 1.
        beta: factor of the distance, like `alpha`. Defaults to 1.
        similarity: as in `coda_attention`. Defaults to "tanh".
        gate: as in `coda_attention`. Defaults to "sigmoid".
        gate_range: as in `coda_attention`. Defaults to "scaled".
        center_similarity: as in `coda_attention`. Defaults to False.
        return_scores: also return M. Defaults to False.
        implementation: as in `coda_attention`. Defaults to "auto".
        training: as in `coda_attention`. Defaults to None.

    Returns:
        (a', b') of shapes (..., T, V) and (..., S, V), or (a', b', M) with M (..., T, S).

    Raises:
        ValueError: an unknown option, an implementation that is not available here or cannot return
            scores, a float mask, a mask or factor of another shape, a rank below 2, or lengths or
            feature counts that do not match.

    Example:
    >>> a_out, b_out = coda_pair(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32"))
    >>> tuple(a_out.shape), tuple(b_out.shape)
    ((2, 3, 4), (2, 5, 4))

    Source: Tay et al. 2019, eqs. 1–7.
    """
    composition = Composition(similarity, gate, gate_range, center_similarity)
    mask_a, a, distance_a, value_a = sides(
        "a", a, "mask_a", mask_a, distance_a=distance_a, value_a=value_a
    )
    mask_b, b, distance_b, value_b = sides(
        "b", b, "mask_b", mask_b, distance_b=distance_b, value_b=value_b
    )
    check_features(a, b, "a", "b")
    check_features(distance_a, distance_b, "distance_a", "distance_b")
    _scores_shape(a, b, alpha=alpha, beta=beta)
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
    with training_call(training):
        return _sums(
            pairs, value_b, value_a, return_scores=return_scores, implementation=implementation
        )


def _scores_shape(query: Tensor, key: Tensor, **factors: float | Tensor) -> tuple[Any, ...]:
    """Return the shape of the scores, None for leading axes; check that the factors fit it."""
    leading = (None,) * (max(len(query.shape), len(key.shape)) - 2)
    shape = (*leading, query.shape[-2], key.shape[-2])
    for name, value in factors.items():
        check_broadcast(value, shape, name, "the scores")
    return shape


def _sums(
    pairs: Pairs,
    value: Tensor,
    other_value: Tensor | None = None,
    *,
    return_scores: bool,
    implementation: str,
) -> tuple[Tensor, ...]:
    """Return M · value; then Mᵀ · other_value if it is given; then M if `return_scores`."""
    if return_scores and implementation == "compiled":
        raise ValueError(
            "`implementation='compiled'` cannot return scores. Use `implementation='auto'`, "
            "'blockwise' or 'reference' with `return_scores=True`."
        )

    def compute(chosen: str) -> tuple[Tensor, ...]:
        if chosen != "reference" and not return_scores and recording.active.get() is None:
            return blockwise_sums(
                pairs,
                value,
                other_value,
                compiled=chosen == "compiled",
                may_be_tensors=implementation == "auto",
            )
        # The whole matrix (..., T, S), also for a recording.
        weights = pairs.weights("reference" if chosen == "reference" else "blockwise")
        kept = weights
        if pairs.dropout:
            # As in tiles, each of the values' leading lengths has a pattern of its own.
            lead = broadcast_leading([weights, *values])
            kept = ops.broadcast_to(weights, (*lead, *ops.shape(weights)[-2:]))
            kept = drop_weights(kept, pairs.dropout, pairs.dropout_seed)
        sums = [weighted_sum("...ts,...sv->...tv", kept, value)]  # (..., T, V)
        if other_value is not None:
            sums.append(weighted_sum("...ts,...tv->...sv", kept, other_value))  # (..., S, V)
        return (*sums, ops.cast(weights, value.dtype)) if return_scores else tuple(sums)

    values = [x for x in (value, other_value) if x is not None]
    widths = [x.shape[-1] for x in values]
    features = sum(width for width in widths if isinstance(width, int))
    return compute_by_choice(compute, implementation, pairs, features)


@dataclasses.dataclass
class CoDAOptions(Attention):
    """The arguments of `layers.CoDA` from `alpha` on."""

    needs_one_projection: ClassVar[bool] = True
    rows_are_independent: ClassVar[bool] = False  # and it has tiles of its own
    # docs/mechanisms/coda.md has the figures.
    export_note: ClassVar[str] = (
        "CoDA's compiled loops stay here: on CPUs, the exported attention takes 2.4 to 8.4 times "
        "as long as Keras' own; with --compile, where XLA may compile it, 1.2 to 1.7 times"
    )
    pair_score_count: ClassVar[int] = 1
    pair_has_distance: ClassVar[bool] = True
    products_per_pair: ClassVar[int] = 2  # one for E, one for N
    further_per_pair: ClassVar[int] = 1
    # Means over all pairs would make each query depend on the others.
    cross_attention_options: ClassVar[Mapping[str, Any]] = {"center_per_query": True}
    # The compositions, ranges and centrings of Tay et al. 2019, sections 2.2 and 4.
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "alpha": (0.5, 1.0, 2.0),
        "beta": (0.5, 1.0, 2.0),
        "scaling": ("mean", "paper", "none"),
        "similarity": ("tanh", "sigmoid"),
        "gate": ("sigmoid", "tanh", "arctan", "algebraic"),
        "gate_range": ("scaled", "centered", "raw"),
        "center_similarity": (False, True),
    }

    alpha: Factor = 1.0
    beta: Factor = 1.0
    scaling: str = "mean"
    similarity: str = "tanh"
    gate: str = "sigmoid"
    gate_range: str = "scaled"
    center_similarity: bool = False
    center_per_query: bool = False
    implementation: str = "auto"

    def __post_init__(self) -> None:
        self.alpha = check_factor(self.alpha, "alpha")
        self.beta = check_factor(self.beta, "beta")
        scaling_factor(self.scaling, 1, paper=1.0)
        self.composition = Composition(
            self.similarity, self.gate, self.gate_range, self.center_similarity
        )
        check_choice(self.center_per_query, (False, True), "center_per_query")
        check_choice(self.implementation, CODA_IMPLEMENTATIONS, "implementation")

    @property
    def sees_all_pairs(self) -> bool:
        """Return whether a mean over all pairs is subtracted from E or N."""
        return self.composition.uses_means and not self.center_per_query

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add a weight for each of α and β that is "learned", one number per head."""
        shape = () if heads is None else (heads, 1, 1)
        # Eq. 10, of multi-head attention, has the factor 1/√H; eqs. 1 and 2 have none.
        paper = 1.0 if heads is None else features**-0.5
        start = scaling_factor(self.scaling, features, paper)
        scales = {"alpha": start, "beta": start}
        if self.scaling == "calibrated":
            initializer = keras.initializers.Constant(start)
            scales = {
                name: layer.add_weight(
                    shape, initializer, trainable=False, autocast=False, name=weight_name
                )
                for name, weight_name in SCALES.items()
            }
        learned = factor_weights(layer, shape, alpha=self.alpha, beta=self.beta)
        return {"scales": scales, **learned}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, **options: Any) -> Any:
        """Call `ops.coda_attention`; `scaling` takes the place of `scale`."""
        learned = options.pop("learned")
        options.pop("scale", None)
        options |= {"center_per_query": self.center_per_query, **self._matrix(learned)}
        with self._calibrating(learned):
            return coda_attention(query, key, value, mask, **options)

    def pair(self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any) -> Any:
        """Call `ops.coda_pair`: one weight matrix serves both directions."""
        expected = "False where one weight matrix serves both directions"
        check(not self.center_per_query, self.center_per_query, "center_per_query", expected)
        learned = options.pop("learned")
        with self._calibrating(learned):
            return coda_pair(a, b, mask_a, mask_b, **self._matrix(learned), **options)

    def _calibrating(self, learned: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
        if self.scaling != "calibrated":
            return contextlib.nullcontext()
        return calibrating(learned["scales"], lambda: self._factors(learned))

    def _factors(self, learned: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Return α and β times their scales."""
        scales = learned["scales"]
        alpha = factor(self.alpha, learned.get("alpha"), scales["alpha"])
        return alpha, factor(self.beta, learned.get("beta"), scales["beta"])

    def _matrix(self, learned: dict[str, Any]) -> dict[str, Any]:
        """Return the options that define M, with α and β times the scaling factor."""
        alpha, beta = self._factors(learned)
        names = ("similarity", "gate", "gate_range", "center_similarity", "implementation")
        return {"alpha": alpha, "beta": beta, **{name: getattr(self, name) for name in names}}


@register_attention("coda")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadCoDA(MultiHeadQuasiAttention):
    """Multi-head attention whose weights add, subtract or delete values instead of averaging them.

    For each head, with q = query·W_q and k = key·W_k of size H, and v = value·W_v:

    E = α·q·kᵀ/H + bias;  N = −β·‖q[t] − k[s]‖₁/H;  M = tanh(E) ⊙ 2·sigmoid(N);
    output = (M·v)·W_o

    `scaling` changes the factor 1/H. A weight near 1 adds a value, near 0 deletes it, below 0
    subtracts it; the weights of a row do not sum to 1. Since E and N compare the same q and k,
    vectors that point apart are also distant: with 1/H and up to 64 features no weight is below
    −.8.

    A drop-in for `keras.layers.MultiHeadAttention`: constructor, call arguments, scores, sublayer
    names, LoRA and quantization are the same. A float mask is an error, and explicit masks win over
    implicit ones. A masked pair has a weight of exactly 0. A row that is masked or has nothing to
    attend to gives exact zeros.

    Where the bias of `attention_bias` is large and negative, tanh(E) is −1 and the key is
    subtracted, not ignored; N is unchanged, and the gate still deletes. A bias of −∞ hides the
    pair; a finite one below −1e4 is an error (not checked in graphs). Under `rotary_base`, E
    depends on two positions by their difference alone. N does not: a rotation keeps Euclidean
    distances, not the L1 distance, so the gate of the same pair differs a little from place to
    place (of unit normals of 64 features, by 4% of the distance on average).

    Args:
        alpha: factor of E in addition to `scaling`: a number ≥ 0, or "learned" for one factor per
            head, starting at 1. Defaults to 1.
        beta: factor of N, like `alpha`. Defaults to 1.
        scaling: "mean" multiplies E and N by 1/H, so neither tanh nor the gates start saturated.
            "paper" multiplies both by 1/√H (eq. 10); gates then start nearly closed at usual head
            sizes. "none" leaves both unscaled. "calibrated" starts as "mean";
            `models.calibrate_attention` then sets a scale per head from the first batch, so that E
            has variance 1 and the mean of 2·sigmoid(N) is ½. Defaults to "mean".
        similarity: "tanh" or "sigmoid". Defaults to "tanh".
        gate: "sigmoid", "tanh", "arctan" or "algebraic" (x/√(1+x²)). Defaults to "sigmoid".
        gate_range: "scaled" doubles a sigmoid gate and leaves other gates unchanged; "centered"
            subtracts the mean of N; "raw" does neither. Defaults to "scaled".
        center_similarity: whether to subtract the mean of E. Defaults to False.
        center_per_query: whether to take means over each query's keys instead of over all pairs.
            Set it where queries must not see each other and the call is not causal, as in attention
            from a decoder to its encoder. Defaults to False.
        implementation: as for `ops.coda_attention`; it never changes the result. Defaults to
            "auto".
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Call arguments:
        query: (B, T, features), or with more axes between batch and features.
        value: (B, S, features).
        key: (B, S, features). Defaults to `value`.
        query_mask, value_mask, key_mask: boolean (B, T) or (B, S). Default to the masks of Keras.
        attention_mask: boolean (B, T, S), (T, S) or (B, N, T, S).
        return_attention_scores: whether to return M, (B, N, T, S), too; takes T·S memory per head.
        training: whether dropout applies.
        use_causal_mask: whether query i sees keys 0 … i only; means are then per query.
        attention_bias: floats that broadcast to (B, N, T, S), such as (T, S) or (N, T, S), added to
            E; −∞ hides a pair. What they hold at masked pairs does not matter.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and M before dropout.

    Raises:
        ValueError: an unknown option, a float mask, a bias without floats or too low, shapes that
            do not fit together, or `flash_attention=True`.

    Example:
    >>> x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
    >>> output, scores = MultiHeadCoDA(num_heads=2, key_dim=8)(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(scores.shape)
    ((2, 5, 16), (2, 2, 5, 5))

    Source: Tay et al. 2019, "Compositional De-Attention Networks", eq. 10.
    """

    options_class = CoDAOptions
