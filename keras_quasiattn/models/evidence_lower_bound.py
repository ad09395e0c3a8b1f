"""The evidence lower bound of a mixture with a uniform prior, exact or sampled."""

import math
from typing import Any

import keras
from keras import ops

Tensor = Any


def evidence_lower_bound(
    log_likelihood: Tensor,
    log_posterior: Tensor,
    component: Tensor | None = None,
    kl_weight: float = 1.0,
) -> Tensor:
    """Returns a lower bound of log p(y) = log Σ_c exp(log_likelihood_c)/K, to be maximized.

    bound = Σ_c q_c·log_likelihood_c − kl_weight·KL(q ‖ uniform),  KL = Σ_c q_c·log q_c + log K

    With `kl_weight` 1 it never exceeds log p(y), and equals it where q is the true posterior.
    Without `component` the sum over c is exact. With `component`, which must be drawn from q, the
    likelihood of that component replaces the sum; value and gradient are unbiased. The gradient for
    q is then REINFORCE's, (log_likelihood_c − log p(y))·∇log q_c. The baseline log p(y) does not
    depend on the sample, and costs nothing because all components are given.

    Args:
        log_likelihood: (B, K), log p(y | c).
        log_posterior: (B, K), log q(c | y), normalized.
        component: None, or integers (B,) drawn from q.
        kl_weight: factor of the divergence.

    Returns:
        (B,).

    Example:
    >>> likelihood, q = np.log([[0.5, 0.25]]), np.log([[0.5, 0.5]])
    >>> bool(evidence_lower_bound(likelihood, q)[0] < np.log(0.375))
    True

    Source: Kingma and Welling 2014, "Auto-Encoding Variational Bayes", eq. 3; Williams 1992,
    "Simple statistical gradient-following algorithms for connectionist reinforcement learning".
    """
    # Converted first, because PyTorch warns when its tensors are combined with NumPy arrays.
    log_likelihood, log_posterior = map(ops.convert_to_tensor, (log_likelihood, log_posterior))
    size = log_likelihood.shape[-1]
    q = ops.exp(log_posterior)
    divergence = ops.sum(q * log_posterior, axis=-1) + math.log(size)
    if component is None:
        return ops.sum(q * log_likelihood, axis=-1) - kl_weight * divergence
    chosen = ops.one_hot(
        component, size, dtype=keras.backend.standardize_dtype(log_likelihood.dtype)
    )
    # All terms below are (B,).
    reward = ops.sum(chosen * log_likelihood, axis=-1)
    score = ops.sum(chosen * log_posterior, axis=-1)
    baseline = ops.logsumexp(log_likelihood, axis=-1) - math.log(size)
    # The value is 0; the term only adds its gradient.
    reinforce = ops.stop_gradient(reward - baseline) * (score - ops.stop_gradient(score))
    return reward + reinforce - kl_weight * divergence
