"""A mixture of K pair networks, one of which explains each pair of texts."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.core.arguments import check, check_positive_integer
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.models.functional_model import EmbeddingModel, id_inputs, is_real
from keras_quasiattn.models.pair_classifier import PairNetwork

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MixtureClassifier(EmbeddingModel):
    """Classify two texts with a mixture of K pair networks that share one embedding.

    log p(y | a, b) = logsumexp_c log p(y | a, b; θ_c) − log K

    A component is a `PairClassifier` without its embedding. The outputs are log-probabilities,
    which are also valid logits: a cross-entropy from logits is the exact objective, the negative
    log marginal likelihood. With `objective="elbo"` training maximizes the evidence lower bound
    instead and ignores the compiled loss; label smoothing must then be in the labels themselves:

    E_q[log p(y | a, b; θ_c)] − kl_weight·KL(q(c | y, a, b) ‖ uniform)

    where q is another pair network, which takes the label as its `context`. `evaluate` and
    validation report the compiled loss of the mixture for both objectives.

    Padding is id 0 and has no effect. A text of padding alone gives finite outputs.

    Args:
        vocabulary_size: number of token ids, including 0 for padding.
        num_classes: number of classes, at least 2.
        components: K dicts, one per component, of `PairClassifier` arguments from `units` on.
        common: dict of such arguments for all components and for q, overridden by the dict of a
            component and by `inference`.
        embedding_dim: width of the embedding. Defaults to 300.
        train_embedding: whether the embedding is trained. Defaults to True.
        objective: "exact" (the default) or "elbo".
        estimator: how the bound is computed: "enumeration" (the default) sums over all components,
            "reinforce" draws one component from q for each pair.
        inference: dict of such arguments for q.
        kl_weight: factor of the divergence. With 1, the default, the objective is a lower bound.
        seed: seed for drawing components; None draws different ones in every run.
        **kwargs: `name`, `trainable` and `dtype` (a policy; the outputs are always float32).

    Call arguments:
        inputs: {"first": ids (B, T), "second": ids (B, S)}, integers.
        training: whether dropout is on.

    Returns:
        Log-probabilities (B, num_classes), float32. With "elbo" in training, a dict: "mixture", the
        log-probabilities, and "components", the log-probabilities of each component (B, K,
        num_classes), which the bound needs.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    >>> model = MixtureClassifier(
    ...     20, 3, components=[{}, {"intra_attention": True}], common={"units": 8}
    ... )
    >>> first, second = keras.ops.ones((2, 5), "int32"), keras.ops.ones((2, 4), "int32")
    >>> model({"first": first, "second": second}).shape == (2, 3)
    True
    >>> model.posterior(first, second, labels=[0, 2]).shape == (2, 2)
    True

    Source: Parikh et al. 2016 for the components; Kingma and Welling 2014 for the bound.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        components: Sequence[dict[str, Any]],
        common: dict[str, Any] | None = None,
        embedding_dim: int = 300,
        train_embedding: bool = True,
        objective: str = "exact",
        estimator: str = "enumeration",
        inference: dict[str, Any] | None = None,
        kl_weight: float = 1.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        make = self._begin(locals())
        check_positive_integer(num_classes, "num_classes")
        check(num_classes > 1, num_classes, "num_classes", "at least 2")
        if not components:
            raise ValueError(
                f"`components` must have at least one entry. Received: components={components!r}"
            )
        check_choice(objective, ("exact", "elbo"), "objective")
        check_choice(estimator, ("enumeration", "reinforce"), "estimator")
        if inference and objective == "exact":
            raise ValueError(
                "`inference` needs `objective='elbo'`. "
                f"Received: inference={inference}, objective='exact'"
            )
        if kl_weight < 0:
            raise ValueError(f"`kl_weight` must not be negative. Received: kl_weight={kl_weight}")
        self._arguments["components"] = list(components)
        common = common or {}
        self._hold_embedding(make)
        networks = [
            make(PairNetwork, f"component_{number}", num_classes, **{**common, **component})
            for number, component in enumerate(components)
        ]
        self._hold(_components=networks)
        inputs = id_inputs("first", "second")
        self._end(inputs, _mixture(self.component_log_probabilities(**inputs)), kwargs)
        if objective == "elbo":
            options = {**common, **(inference or {})}
            self._inference = make(PairNetwork, "inference", len(networks), **options)
            self._inference.build([(None, None, embedding_dim)] * 2, (None, num_classes))
            self._seed_generator = keras.random.SeedGenerator(seed)

    def component_log_probabilities(
        self, first: Tensor, second: Tensor, training: bool | None = None
    ) -> Tensor:
        """Return log p(y | a, b; θ_c), (B, K, num_classes), for ids (B, T) and (B, S)."""
        pair, masks = self._embedded(first, second)
        logits = [network(pair, mask=masks, training=training) for network in self._components]
        return ops.log_softmax(ops.stack(logits, axis=1), axis=-1)  # (B, K, num_classes)

    def posterior(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        """Return p(c | y, a, b) ∝ p(y | a, b; θ_c), (B, K): how well components explain labels.

        Texts are ids (B, T) and (B, S), labels integers (B,) or probabilities (B, num_classes).
        """
        components = self.component_log_probabilities(first, second)
        return ops.softmax(_log_likelihood(components, self._rows(labels)), axis=-1)

    def explain(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Return the mixture's log-probabilities, and how much each component explains the answer.

        `logits` are (B, num_classes), and `posterior` is (B, K), given the most probable class.
        """
        components = self.component_log_probabilities(first, second)
        logits = _mixture(components)
        chosen = self._rows(ops.argmax(logits, axis=-1))
        posterior = ops.softmax(_log_likelihood(components, chosen), axis=-1)
        return {"logits": logits, "posterior": posterior}

    def call(
        self,
        inputs: dict[str, Tensor] | Sequence[Tensor],
        training: bool | None = None,
        mask: Any = None,
    ) -> Any:
        """Return the mixture's log-probabilities; see the class."""
        if not training or self._arguments["objective"] == "exact":
            return super().call(inputs, training=training, mask=mask)
        components = self.component_log_probabilities(*_pair(inputs), training=training)
        return {"mixture": _mixture(components), "components": components}

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """Return the compiled loss or, in training with "elbo", the mean of the negative bound."""
        if not training or self._arguments["objective"] == "exact":
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        if isinstance(y_pred, dict):
            components = y_pred["components"]
        else:
            components = self.component_log_probabilities(*_pair(x), training=True)
        rows = self._rows(y)
        costs = self.losses  # of the components' layers, such as that of open gates
        pair, masks = self._embedded(*_pair(x))
        # (B, K): log q(c | y, a, b).
        logits = self._inference(pair, context=rows, mask=masks, training=True)
        log_posterior = ops.log_softmax(logits, axis=-1)
        component = None
        if self._arguments["estimator"] == "reinforce":
            drawn = keras.random.categorical(log_posterior, 1, seed=self._seed_generator)  # (B, 1)
            component = ops.squeeze(drawn, -1)
        likelihood = _log_likelihood(components, rows)
        weight = self._arguments["kl_weight"]
        bound = evidence_lower_bound(likelihood, log_posterior, component, weight)
        loss = _NegativeBound(name="negative_bound")(bound, bound, sample_weight)
        # As Keras adds them; it has no public way to do so
        costs = map(self._aggregate_additional_loss, [*costs, *self._inference.losses])
        return sum(costs, start=loss)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Return the compiled metrics of the mixture."""
        mixture = y_pred["mixture"] if isinstance(y_pred, dict) else y_pred
        return super().compute_metrics(x, y, mixture, sample_weight)

    def _embedded(self, first: Tensor, second: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        both = (first, second)
        return [self._embedding(ids) for ids in both], [is_real(ids) for ids in both]

    def _rows(self, labels: Tensor) -> Tensor:
        # Class ids (B,) or probabilities (B, num_classes) to probabilities (B, num_classes).
        labels, classes = ops.convert_to_tensor(labels), self._arguments["num_classes"]
        if len(labels.shape) == 2 and labels.shape[-1] == classes:
            return ops.cast(labels, "float32")
        return ops.one_hot(ops.cast(ops.reshape(labels, (-1,)), "int32"), classes, dtype="float32")


def _pair(inputs: Any) -> tuple[Tensor, Tensor]:
    """Return the ids of both texts from a dict, or from a list as a functional model takes it."""
    if isinstance(inputs, dict) and set(inputs) == {"first", "second"}:
        return inputs["first"], inputs["second"]
    if isinstance(inputs, (list, tuple)) and len(inputs) == 2:
        return inputs[0], inputs[1]
    shapes = keras.tree.map_structure(lambda x: tuple(np.shape(x)), inputs)
    raise ValueError(
        '`inputs` must be {"first": ids (B, T), "second": ids (B, S)}, or a list of both. '
        f"Received tensors of these shapes: {shapes}"
    )


def _mixture(components: Tensor) -> Tensor:
    # (B, K, num_classes) to (B, num_classes).
    return ops.logsumexp(components, axis=1) - math.log(components.shape[1])


def _log_likelihood(components: Tensor, rows: Tensor) -> Tensor:
    # (B, K, num_classes) and rows (B, num_classes) to (B, K).
    return ops.sum(components * ops.expand_dims(rows, 1), axis=-1)


class _NegativeBound(keras.losses.Loss):
    """The negated bound; Keras weights and averages it, even over replicas, like any other loss."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return -y_pred


def evidence_lower_bound(
    log_likelihood: Tensor,
    log_posterior: Tensor,
    component: Tensor | None = None,
    kl_weight: float = 1.0,
) -> Tensor:
    """Return a lower bound on log p(y) = log Σ_c exp(log_likelihood_c)/K, to be maximized.

    bound = Σ_c q_c·log_likelihood_c − kl_weight·KL(q ‖ uniform),  KL = Σ_c q_c·log q_c + log K

    With `kl_weight` 1 it never exceeds log p(y), and equals it if q is the true posterior. With
    `component`, which must be drawn from q, the likelihood of that component replaces the sum over
    c, unbiased in value and gradient. The gradient for q is then the REINFORCE gradient,
    (log_likelihood_c − log p(y))·∇log q_c, whose baseline does not depend on the sample.

    Args:
        log_likelihood: (B, K), log p(y | c).
        log_posterior: (B, K), log q(c | y), normalized.
        component: None, or integers (B,) drawn from q.
        kl_weight: factor of the divergence. Defaults to 1.

    Returns:
        (B,).

    Example:
    >>> likelihood, q = np.log([[0.5, 0.25]]), np.log([[0.5, 0.5]])
    >>> bool(evidence_lower_bound(likelihood, q)[0] < np.log(0.375))
    True

    Source: Kingma and Welling 2014, "Auto-Encoding Variational Bayes", eq. 3; Williams 1992,
    "Simple statistical gradient-following algorithms for connectionist reinforcement learning".
    """
    # Convert first, because PyTorch warns when its tensors are combined with NumPy arrays.
    log_likelihood, log_posterior = map(ops.convert_to_tensor, (log_likelihood, log_posterior))
    size = log_likelihood.shape[-1]
    q = ops.exp(log_posterior)
    divergence = ops.sum(q * log_posterior, axis=-1) + math.log(size)
    if component is None:
        return ops.sum(q * log_likelihood, axis=-1) - kl_weight * divergence
    dtype = keras.backend.standardize_dtype(log_likelihood.dtype)
    chosen = ops.one_hot(component, size, dtype=dtype)
    # All terms below are (B,).
    reward = ops.sum(chosen * log_likelihood, axis=-1)
    score = ops.sum(chosen * log_posterior, axis=-1)
    baseline = ops.logsumexp(log_likelihood, axis=-1) - math.log(size)
    # The value is 0; the term only adds its gradient.
    reinforce = ops.stop_gradient(reward - baseline) * (score - ops.stop_gradient(score))
    return reward + reinforce - kl_weight * divergence
