"""Gates of GA-Net, soft in training and binary at inference, and a softmax weighted by them."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, for_any_length, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.arguments import check, check_positive_integer, check_shape, is_number
from keras_quasiattn.core.backend import tanh
from keras_quasiattn.core.configured import QuantizedParts
from keras_quasiattn.core.masks import (
    Mask,
    as_boolean_mask,
    causal_mask,
    combine_masks,
    largest,
    masked_softmax,
    without_padded_rows,
    zero_masked,
)
from keras_quasiattn.core.randomness import gumbel_noise, uniform_noise
from keras_quasiattn.core.recording import record
from keras_quasiattn.core.score_bias import hide_where_infinite
from keras_quasiattn.core.tensors import (
    as_dtype,
    check_broadcast_together,
    check_choice,
    compute_dtype,
    holding,
    in_training_call,
    per_position,
)

Tensor = Any


def gumbel_gate(probability: Tensor, noise: Tensor, temperature: float | Tensor) -> Tensor:
    """Draw soft gates between 0 and 1, a differentiable approximation of Bernoulli(probability).

    g = second entry of the softmax over i in {0, 1} of (log p_i + ε_i)/τ, with p_0 = 1 − p, p_1 = p

    As τ falls, the gates approach 0 and 1. They are computed in float32 for 16-bit inputs and are
    never exactly 0, so a row whose gates are all nearly closed still has weights and gradients.
    Masks are applied by `ops.gated_softmax`, not here.

    Args:
        probability: (...), p in [0, 1].
        noise: (..., 2), draws from Gumbel(0, 1): ε_0 for closed, ε_1 for open.
        temperature: τ > 0, a number or a tensor that broadcasts to (...).

    Returns:
        gates (...), float64 if both inputs are, otherwise float32.

    Raises:
        ValueError: `noise` is not (..., 2).

    Example:
    >>> gate = gumbel_gate(np.array([0.8, 0.2]), np.zeros((2, 2)), temperature=1.0)
    >>> np.asarray(gate).round(6).tolist()
    [0.8, 0.2]

    Source: Xue et al. 2019, "Not All Attention Is Needed", eq. 8; Jang et al. 2017.
    """
    probability, noise = ops.convert_to_tensor(probability), ops.convert_to_tensor(noise)
    dtype = compute_dtype(probability, noise)
    least = 1e-7 if dtype == "float32" else 1e-15  # keeps both logarithms finite
    bounds = (as_dtype(bound, dtype) for bound in (least, 1 - least))
    probability = ops.clip(ops.cast(probability, dtype), *bounds)
    return gumbel_gate_of_logits(ops.log(probability) - ops.log1p(-probability), noise, temperature)


def gumbel_gate_of_logits(logits: Tensor, noise: Tensor, temperature: float | Tensor) -> Tensor:
    """Return `gumbel_gate` of sigmoid(logits), accurate even where the sigmoid rounds to 0 or 1."""
    noise = ops.convert_to_tensor(noise)
    expected = "shape (..., 2): one draw for the closed gate and one for the open gate"
    check_shape(noise.shape[-1] == 2, noise.shape, "noise", expected)
    dtype = compute_dtype(logits, noise)
    noise = ops.cast(noise, dtype)
    # A softmax over two entries is the sigmoid of their difference: (..., 2) → (...).
    balance = ops.cast(logits, dtype) + noise[..., 1] - noise[..., 0]
    return ops.sigmoid(ops.clip(balance / as_dtype(temperature, dtype), -80.0, 80.0))


def gated_softmax(scores: Tensor, gates: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute a softmax over the last axis in which gates weight the positions.

    α_t = g_t · exp(e_t) / Σ_t' g_t' · exp(e_t')

    Computed as a softmax of e + log g, in float32 for 16-bit inputs, so that no exponential
    overflows. A position that is masked or whose gate is exactly 0 has weight exactly 0 and no
    gradient. A row without an open, unmasked position gives all zeros and zero gradients.

    Args:
        scores: (..., T), e.
        gates: (..., T) in [0, 1], soft or binary, or boolean; broadcasts against `scores`.
        mask: boolean (or 0/1 integer) that broadcasts to (..., T); True = attend. Defaults to None.

    Returns:
        weights (..., T), float64 if both inputs are, otherwise float32.

    Raises:
        ValueError: a float mask, or gates or a mask of another shape.

    Example:
    >>> weights = gated_softmax(
    ...     np.zeros((1, 3), "float32"), np.array([[1.0, 0.0, 1.0]], "float32")
    ... )
    >>> np.asarray(weights).tolist()
    [[0.5, 0.0, 0.5]]

    Source: Xue et al. 2019, eqs. 2 and 9.
    """
    scores, gates = ops.convert_to_tensor(scores), ops.convert_to_tensor(gates)
    check_broadcast_together(gates, scores, "gates", "scores")
    dtype = compute_dtype(scores, gates)
    gates = ops.cast(gates, dtype)
    is_open = ops.logical_not(ops.less_equal(gates, 0))  # a gate of NaN stays
    # log g, or 0 for a closed gate, which the mask then removes.
    openness = ops.log(ops.where(is_open, gates, ops.ones_like(gates)))
    logits = ops.cast(scores, dtype) + openness
    mask = as_boolean_mask(mask, "mask", logits.shape)
    return masked_softmax(logits, combine_masks(mask, is_open))


def hard_gates(
    probability: Tensor, threshold: float | Tensor = 0.5, mask: Tensor | None = None
) -> Tensor:
    """Return binary gates, open where the probability reaches the threshold, at least one per row.

    g_t = [p_t ≥ threshold]

    If a row has no open gate after that, the gate of its valid position with the highest
    probability opens, the first one on ties. A row without valid positions has no open gate.

    Args:
        probability: (..., T), p in [0, 1].
        threshold: a number, or a tensor (..., T) of uniform draws, for gates from Bernoulli(p).
            Defaults to 0.5.
        mask: boolean (or 0/1 integer) that broadcasts against `probability`; True = valid.
            Defaults to None.

    Returns:
        boolean gates, in the shape to which `probability` and `mask` broadcast.

    Raises:
        ValueError: a float mask, or a mask or a threshold of another shape.

    Example:
    >>> np.asarray(hard_gates(np.array([[0.9, 0.6, 0.1], [0.1, 0.3, 0.2]]))).tolist()
    [[True, True, False], [False, True, False]]

    Source: Xue et al. 2019, eqs. 5 and 6. The rule for rows with all gates closed is ours: eq. 2 is
    undefined there.
    """
    probability = ops.convert_to_tensor(probability)
    dtype = compute_dtype(probability)
    probability, mask = ops.cast(probability, dtype), as_boolean_mask(mask, "mask")
    check_broadcast_together(threshold, probability, "threshold", "probability")
    if mask is not None:
        check_broadcast_together(mask, probability, "mask", "probability")
    # NaN opens its gate: the row must become NaN, not silently lose the key.
    gates = ops.logical_not(ops.less(probability, as_dtype(threshold, dtype)))
    if mask is not None:
        gates = ops.logical_and(gates, mask)
        probability = ops.where(mask, probability, ops.cast(-1, dtype))
    highest = ops.expand_dims(largest(probability, -1, -1.0), -1)
    best = ops.equal(probability, highest)
    best = ops.logical_and(best, ops.greater_equal(probability, 0))
    # (..., T), True at the first of the best positions.
    first = ops.logical_and(best, ops.equal(ops.cumsum(ops.cast(best, "int32"), axis=-1), 1))
    # Not `where`, which ONNX Runtime has for numbers only.
    is_closed = ops.logical_not(ops.any(gates, axis=-1, keepdims=True))
    gates = ops.logical_or(gates, ops.logical_and(is_closed, first))
    record("gates", gates, mask, "gates")
    return gates


def _number(value: Any, name: str, fits: Callable[[Any], bool], expected: str) -> float:
    """Return `value` as a float; raise a `ValueError` unless it is finite and `fits`."""
    good = is_number(value) and math.isfinite(value) and fits(value)
    return float(check(good, value, name, f"a number {expected}"))


@dataclasses.dataclass
class GateOptions:
    """The arguments of `layers.GatedAttention` that say how gates open; checked here."""

    temperature: float = 1.0
    final_temperature: float | None = None
    annealing_steps: int = 10_000
    open_gate_cost: float = 1e-4
    inference: str = "threshold"
    threshold: float = 0.5

    def __post_init__(self) -> None:
        self.temperature = _number(self.temperature, "temperature", lambda x: x > 0, "> 0")
        if self.final_temperature is not None:
            _number(self.final_temperature, "final_temperature", lambda x: x > 0, "> 0")
        check_positive_integer(self.annealing_steps, "annealing_steps")
        cost = self.open_gate_cost
        self.open_gate_cost = _number(cost, "open_gate_cost", lambda x: x >= 0, "≥ 0")
        check_choice(self.inference, ("threshold", "sample"), "inference")
        self.threshold = _number(self.threshold, "threshold", lambda x: 0 <= x <= 1, "≥ 0 and ≤ 1")


_is_counting: ContextVar[bool] = ContextVar("gates_are_counted", default=True)
# Part of a training call that one draw of gates is.
_part: ContextVar[float] = ContextVar("part_of_a_call", default=1.0)


def gates_uncounted() -> contextlib.AbstractContextManager[None]:
    """Leave calls in the `with` block out of the metrics and the cost of gates.

    An exported graph has no metrics. Calling a model without `training` is not enough: a layer
    such as Keras' Dropout sets it to False for the layers after it.
    """
    return holding(_is_counting, False)


class Gates(QuantizedParts, keras.layers.Layer):
    """Draw gates from logits: soft with Gumbel noise in training, binary otherwise.

    In calls with `training` that are not `gates_uncounted`, the layer adds the cost λ·Σ g/T to the
    loss, averaged over the rows that see T > 0 positions, and reports it and the density as metrics
    whose names begin with `metric_prefix`.

    Logits are (..., S), or (..., 1, S) with a mask of query-key pairs. With
    `queries` (..., Q, features), a row of logits and mask that is the same for all Q counts Q
    times. In training the gates are float32 in (0, 1), of the shape of the logits. Otherwise they
    are boolean, broadcast against the mask, and closed where it is False.
    """

    def __init__(
        self,
        options: GateOptions,
        *,
        seed: int | None = None,
        metric_prefix: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, name="gates", **kwargs)
        self.supports_masking = True
        self.options, self.seed = options, seed
        # On JAX, Keras does not carry layer metrics through a compiled update.
        if keras.backend.backend() != "jax":
            self.density = keras.metrics.Mean(name=f"{metric_prefix}density")
            self.cost = keras.metrics.Mean(name=f"{metric_prefix}open_gate_cost")

    def build(self, logits_shape: Any) -> None:
        """Create the seed generator, and a counter of training calls if τ is annealed."""
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        if self.options.final_temperature is not None:
            self.steps = self.add_weight(
                (),
                "zeros",
                trainable=False,
                autocast=False,
                aggregation="only_first_replica",
                name="steps",
            )

    def call(
        self,
        logits: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        queries: Tensor | None = None,
    ) -> Tensor:
        """Draw the gates."""
        logits = ops.cast(logits, "float64" if self.compute_dtype == "float64" else "float32")
        gates = self._soft(logits) if training else self._hard(logits, mask)
        if training is not None and _is_counting.get():
            self._update_cost_and_metrics(gates, mask, queries)
        return gates

    def _soft(self, logits: Tensor) -> Tensor:
        noise = gumbel_noise(self.seed_generator.next(), ops.shape(logits))  # (..., S, 2)
        gates = gumbel_gate_of_logits(logits, noise, self.current_temperature())  # (..., S)
        if self.options.final_temperature is not None:
            self.steps.assign_add(_part.get())
        return gates

    def current_temperature(self) -> float | Tensor:
        """Return τ for the next training call; it approaches its final value exponentially."""
        start, end = self.options.temperature, self.options.final_temperature
        if end is None:
            return start
        calls = ops.floor(ops.convert_to_tensor(self.steps))
        share = ops.minimum(calls / self.options.annealing_steps, 1.0)
        return start * ops.exp(share * math.log(end / start))

    def _hard(self, logits: Tensor, mask: Mask) -> Tensor:
        threshold: Any = self.options.threshold
        if self.options.inference == "sample":
            threshold = uniform_noise(self.seed_generator.next(), ops.shape(logits))[..., 0]
        return hard_gates(ops.sigmoid(logits), threshold, mask)

    def _update_cost_and_metrics(self, gates: Tensor, mask: Mask, queries: Tensor | None) -> None:
        """Add the cost to the loss and update the metrics."""
        visible = ops.ones_like(gates, dtype="bool")
        visible = combine_masks(visible, without_padded_rows(mask, gates))
        gates = zero_masked(ops.cast(gates, "float32"), visible)
        visible = ops.cast(visible, "float32")
        # (..., Q): repeats what is the same for all queries.
        each = 1.0 if queries is None else ops.ones_like(queries[..., 0], dtype="float32")
        lengths = each * ops.sum(visible, axis=-1)  # (...): T of each row
        shares = ops.sum(gates, axis=-1) / ops.maximum(lengths, 1.0)  # (...)
        rows = ops.sum(ops.cast(lengths > 0, "float32"))  # a scalar, as all below
        cost = self.options.open_gate_cost * ops.sum(shares) / ops.maximum(rows, 1.0)
        if self.options.open_gate_cost:
            self.add_loss(ops.cast(cost, keras.config.floatx()))  # as Keras' losses
        if keras.backend.backend() != "jax":
            total = ops.sum(lengths)
            opened = each * ops.sum(ops.cast(gates >= 0.5, "float32"), axis=-1)
            density = ops.sum(opened) / ops.maximum(total, 1.0)
            self.density.update_state(density, sample_weight=total)
            self.cost.update_state(cost, sample_weight=rows)


@dataclasses.dataclass
class Gated(GateOptions, ScoreAttention):
    """Weights are the softmax of dot products with the keys whose gates are open.

    Layers over two sequences have one gate for each position that is attended to, from one network
    for both. For `operations`, `keys` is the number of open keys; the network is not counted.
    """

    label = "softmax weights"
    # The gates are drawn once for all tiles of queries.
    rows_are_independent: ClassVar[bool] = False
    # Xue et al. 2019, "Text Classification".
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "temperature": (0.5, 1.0, 1.5, 2.0),
        "open_gate_cost": (0.4e-5, 0.5e-5, 1e-5, 0.4e-4, 0.5e-4, 1e-4, 1e-3),
    }

    def prepare(self, layer: Any, heads: int = 1) -> None:
        """Add the sublayer that draws the gates and tracks their cost to `layer`."""
        layer.gates = self.gates = Gates(
            self,
            seed=getattr(layer, "seed", None),
            metric_prefix=f"{layer.name}_",
            dtype=layer.dtype_policy,
        )

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add u and b to `layer`, for each of its heads."""
        of_heads = () if heads is None else (heads,)
        layer.gate_kernel = layer.add_score_kernel((features, *of_heads), "gate_kernel")
        shape = (*of_heads, 1)
        layer.gate_bias = layer.add_weight(shape, "zeros", autocast=False, name="gate_bias")
        self.gates.build(None)
        return {"kernel": layer.gate_kernel, "bias": layer.gate_bias}

    def pair(self, *args: Any, **options: Any) -> Any:
        """Attend in both directions at the same temperature, as one training call."""
        with holding(_part, 0.5):
            return super().pair(*args, **options)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, **options: Any) -> Any:
        """Draw the gates, and attend to the keys whose gates are open."""
        learned = options.pop("learned")
        is_causal = options.pop("is_causal", False)
        if options.get("bias") is not None:
            mask = hide_where_infinite(mask, options["bias"])
        if is_causal:
            mask = combine_masks(mask, causal_mask(ops.shape(query)[-2], ops.shape(key)[-2]))
        # (B, ..., N, S), or (B, S) without heads; the bias is (N, 1) or (1,).
        hidden = tanh(ops.cast(key, learned["kernel"].dtype))
        logits = per_position(hidden, learned["kernel"]) + learned["bias"]
        # Keras passes `training` on, but not in a `stateless_call`. None would overrule it.
        trains = {"training": True} if in_training_call() else {}
        # Soft gates: (B, ..., N, 1, S). Binary gates include the mask and replace it below.
        gates = self.gates(ops.expand_dims(logits, -2), mask=mask, queries=query, **trains)
        are_binary = keras.backend.standardize_dtype(gates.dtype) == "bool"
        scored = options.get("return_scores", False)
        attend = for_any_length(super().attend, query, key, return_scores=scored)
        options["learned"] = {"gates": None if are_binary else gates}
        return attend(query, key, value, gates if are_binary else mask, **options)

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the softmax of each row, weighted by soft gates if there are any."""
        gates = learned["gates"]
        return masked_softmax(scores, mask) if gates is None else gated_softmax(scores, gates, mask)


@register_attention("gated")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadGated(MultiHeadQuasiAttention):
    """Multi-head softmax attention in which each head opens or closes a gate for each key.

    p_s = sigmoid(uᵀ·tanh(k_s) + b);  A = g_s·exp(q·kᵀ/√H) / Σ g·exp(q·kᵀ/√H);  output = (A·v)·W_o

    The gates g depend only on the keys. They come from a feed-forward network whose hidden layer is
    the key projection, so a cache of projected keys is enough to compute them. In training, g are
    Gumbel-softmax draws at temperature τ. Otherwise they are binary, and a query whose visible keys
    are all closed opens the visible key with the highest p.

    Keys are hidden as in `layers.MultiHeadSoftmax`. When called with `training` given, as `fit` and
    `evaluate` do, the layer adds λ·Σ g/S to the loss, averaged over queries and heads, where S is
    the number of keys that a query sees. It tracks this cost and the density as the metrics
    "<name>_open_gate_cost" and "<name>_density", except on JAX, where Keras does not carry the
    metrics of layers.

    Args:
        temperature: τ > 0 at the start. Defaults to 1.
        final_temperature: τ after `annealing_steps`, approached exponentially; None: τ is constant.
        annealing_steps: training calls until τ is final, if it changes. Defaults to 10,000.
        open_gate_cost: λ ≥ 0. Defaults to 1e-4.
        inference: "threshold" or "sample". Defaults to "threshold".
        threshold: the lowest p that opens a gate under "threshold". Defaults to 0.5.
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Raises:
        ValueError: an option out of range.

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadGated(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Xue et al. 2019, eqs. 2–10, carried over to the attention of Vaswani et al. 2017, eq. 1.
    """

    options_class = Gated
