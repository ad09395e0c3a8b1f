"""A mixture of pair networks: each pair of texts is explained by one of K of them."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.models.evidence_lower_bound import evidence_lower_bound
from keras_quasiattn.models.functional_model import FunctionalModel, arguments_of, policy_of
from keras_quasiattn.models.pair_network import PairNetwork, pair_inputs, pair_masks
from keras_quasiattn.ops.checks import check_choice

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MixtureClassifier(FunctionalModel):
    """Two texts' ids to the log-probabilities of classes, by K pair networks over one embedding.

    log p(y | a, b) = logsumexp_c log p(y | a, b; θ_c) − log K

    A component is all of `PairClassifier` but its embedding. Log-probabilities are logits, so a cross-entropy from
    logits is the exact objective, the negative log marginal likelihood. With `objective="elbo"` training makes the
    evidence lower bound large instead, whatever loss is compiled (label smoothing, then, is the labels' alone):

    E_q[log p(y | a, b; θ_c)] − kl_weight·KL(q(c | y, a, b) ‖ uniform)

    with q one more pair network, which sees the label beside its two sums. `evaluate` and validation give the compiled
    loss of the mixture under either objective.

    Padding is id 0; it changes nothing, and a text that is all padding gives finite numbers.

    Args:
        vocabulary_size: number of token ids, with 0 for padding.
        num_classes: number of classes, at least 2.
        components: K dicts of arguments of `PairClassifier` from `units` on, in which the components differ.
        common: dict of such arguments that all components, and q, have where their own do not say otherwise.
        embedding_dim: width of the embedding. Defaults to 300.
        train_embedding: whether training changes the embedding. Defaults to True.
        objective: "exact" or "elbo".
        estimator: of the bound, "enumeration" of all components, or "reinforce": one drawn from q for every pair.
        inference: dict of such arguments of q.
        kl_weight: factor of the divergence; with 1, the default, it is a bound.
        seed: of the drawn components.
        **kwargs: `name`, `trainable`, and `dtype` (a policy; the log-probabilities are float32 under any).

    Call arguments:
        inputs: {"first": ids (B, T), "second": ids (B, S)}, integers.
        training: whether dropout is on.

    Returns:
        Log-probabilities (B, num_classes), float32.

    Raises:
        ValueError: an argument is out of range.

    Example:
    >>> model = MixtureClassifier(20, 3, components=[{}, {"intra_attention": True}], common={"units": 8})
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
        check_positive_integer(vocabulary_size, "vocabulary_size")
        check_positive_integer(embedding_dim, "embedding_dim")
        if check_positive_integer(num_classes, "num_classes") < 2:
            raise ValueError(
                f"`num_classes` must be at least 2. Received: num_classes={num_classes}"
            )
        if not components:
            raise ValueError(
                f"`components` must have at least one entry. Received: components={components!r}"
            )
        check_choice(objective, ("exact", "elbo"), "objective")
        check_choice(estimator, ("enumeration", "reinforce"), "estimator")
        if kl_weight < 0:
            raise ValueError(f"`kl_weight` must not be negative. Received: kl_weight={kl_weight}")
        policy = policy_of(kwargs.pop("dtype", None))
        components = list(components)
        self._arguments = arguments_of(MixtureClassifier.__init__, locals())
        common = {**(common or {}), "dtype": policy}
        embedding = keras.layers.Embedding(
            vocabulary_size,
            embedding_dim,
            trainable=train_embedding,
            dtype=policy,
            name="embedding",
        )
        networks = [
            PairNetwork(num_classes, **{**common, **component}, name=f"component_{number}")
            for number, component in enumerate(components)
        ]
        self._hold(_embedding=embedding, _components=networks)
        inputs = pair_inputs()
        mixture = _mixture(self.component_log_probabilities(**inputs))
        super().__init__(inputs=inputs, outputs=mixture, **kwargs)
        self.dtype_policy = policy
        if objective == "elbo":
            self._inference = PairNetwork(
                len(networks), **{**common, **(inference or {})}, name="inference"
            )
            self._inference.build([(None, None, embedding_dim)] * 2, (None, num_classes))
            self._seed_generator = keras.random.SeedGenerator(seed)

    @property
    def embedding(self) -> keras.layers.Embedding:
        """The embedding layer, whose table may be given word vectors."""
        return self._embedding

    def component_log_probabilities(
        self, first: Tensor, second: Tensor, training: bool | None = None
    ) -> Tensor:
        """What each component says.

        Args:
            first: ids (B, T), integers.
            second: ids (B, S), integers.
            training: whether dropout is on.

        Returns:
            log p(y | a, b; θ_c), (B, K, num_classes).
        """
        pair, masks = self._embedded(first, second)
        logits = [network(pair, mask=masks, training=training) for network in self._components]
        return ops.log_softmax(ops.stack(logits, axis=1), axis=-1)

    def posterior(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        """Which component explains the label: p(c | y, a, b), in proportion to p(y | a, b; θ_c).

        Args:
            first: ids (B, T), integers.
            second: ids (B, S), integers.
            labels: integers (B,), or rows of probabilities (B, num_classes).

        Returns:
            (B, K), rows that sum to 1.
        """
        components = self.component_log_probabilities(first, second)
        return ops.softmax(_log_likelihood(components, self._rows(labels)), axis=-1)

    def explain(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The mixture's log-probabilities, and which component stands behind its answer.

        Args:
            first: ids (B, T), integers.
            second: ids (B, S), integers.

        Returns:
            `logits` (B, num_classes), and `posterior` (B, K) of the components, given the most probable class.
        """
        components = self.component_log_probabilities(first, second)
        logits = _mixture(components)
        chosen = ops.one_hot(ops.argmax(logits, axis=-1), logits.shape[-1])
        return {
            "logits": logits,
            "posterior": ops.softmax(_log_likelihood(components, chosen), axis=-1),
        }

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, mask: Any = None
    ) -> Tensor:
        """The mixture's log-probabilities; see the class."""
        if not training or self._arguments["objective"] == "exact":
            return super().call(inputs, training=training, mask=mask)
        components = self.component_log_probabilities(**inputs, training=training)
        mixture = _mixture(components)
        # The bound needs the components behind these log-probabilities, with the same dropout, and not twice.
        object.__setattr__(self, "_behind", (mixture, components))
        return mixture

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """The compiled loss, or in training by "elbo" the mean of the negative bound."""
        if not training or self._arguments["objective"] == "exact":
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        mixture, components = self.__dict__.pop("_behind", (None, None))
        if mixture is not y_pred:
            components = self.component_log_probabilities(**x, training=True)
        rows = self._rows(y)
        pair, masks = self._embedded(**x)
        log_posterior = ops.log_softmax(
            self._inference(pair, context=rows, mask=masks, training=True), axis=-1
        )
        component = None
        if self._arguments["estimator"] == "reinforce":
            drawn = keras.random.categorical(log_posterior, 1, seed=self._seed_generator)
            component = ops.squeeze(drawn, -1)
        bound = evidence_lower_bound(
            _log_likelihood(components, rows),
            log_posterior,
            component,
            self._arguments["kl_weight"],
        )
        return _Negative(name="negative_bound")(bound, bound, sample_weight)

    def _embedded(self, first: Tensor, second: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return [self._embedding(ids) for ids in (first, second)], pair_masks(first, second)

    def _rows(self, labels: Tensor) -> Tensor:
        labels, classes = ops.convert_to_tensor(labels), self._arguments["num_classes"]
        if len(labels.shape) == 2 and labels.shape[-1] == classes:
            return ops.cast(labels, "float32")
        return ops.one_hot(ops.cast(ops.reshape(labels, (-1,)), "int32"), classes, dtype="float32")


def _mixture(components: Tensor) -> Tensor:
    return ops.logsumexp(components, axis=1) - math.log(components.shape[1])


def _log_likelihood(components: Tensor, rows: Tensor) -> Tensor:
    return ops.sum(components * ops.expand_dims(rows, 1), axis=-1)


class _Negative(keras.losses.Loss):
    """Weights, averages and scales for the strategy's replicas as every Keras loss does."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return -y_pred
