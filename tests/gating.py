"""What gates, pooling and gated attention mean, in a few lines of float64 NumPy."""

import numpy as np
from reference import softmax


def gumbel_gate(probability, noise, temperature):
    two = np.stack([np.log(1 - probability), np.log(probability)], -1) + noise
    exponential = np.exp(two / temperature)
    return exponential[..., 1] / exponential.sum(-1)


def gated_softmax(scores, gates, mask):
    weights = np.where(mask, gates * np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def hard_gates(probability, threshold, mask):
    gates = mask & (probability >= threshold)
    for index in np.ndindex(gates.shape[:-1]):
        if mask[index].any() and not gates[index].any():
            gates[index][np.argmax(np.where(mask[index], probability[index], -1))] = True
    return gates


def scores(states, kernel):
    return np.tanh(states) @ kernel


def soft_attention(states, kernel, mask, gates=1.0):
    weights = gated_softmax(scores(states, kernel), gates * np.ones(mask.shape), mask)
    return np.einsum("bt,btd->bd", weights, states), weights


def local_attention(states, kernel, center, mask, window):
    """Compute one example at a time, with padding deleted."""
    weights = np.zeros(mask.shape)
    for row, real in enumerate(mask):
        positions = np.arange(real.sum())
        distance = positions - center[row] * real.sum()
        alpha = softmax(scores(states[row][real], kernel), np.abs(distance) <= window)
        weights[row, real] = alpha * np.exp(-(distance**2) / (2 * (window / 2) ** 2))
    return np.einsum("bt,btd->bd", weights, states), weights
