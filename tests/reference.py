"""The definition of each op in a few lines of float64 NumPy, which the tests take as truth."""

import numpy as np

FUNCTIONS = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "arctan": np.arctan,
    "algebraic": lambda x: x / np.sqrt(1 + x * x),
}


def pairwise_l1(x, y, weights=1.0):
    return (weights * np.abs(x[..., :, None, :] - y[..., None, :, :])).sum(-1)


def centered(x, mask, axis):
    count = mask.sum(axis=axis, keepdims=True)
    return x - np.where(mask, x, 0).sum(axis=axis, keepdims=True) / np.maximum(count, 1)


def full_mask(mask, shape, is_causal):
    mask = np.ones(shape, "bool") if mask is None else np.broadcast_to(mask, shape)
    return mask & np.tril(np.ones(shape[-2:], "bool")) if is_causal else mask


def coda_weights(
    query,
    key,
    mask=None,
    *,
    distance=None,
    alpha=1.0,
    beta=1.0,
    similarity="tanh",
    gate="sigmoid",
    gate_range="scaled",
    center_similarity=False,
    center_per_query=False,
    is_causal=False,
    bias=0.0,
):
    e = alpha * query @ np.swapaxes(key, -1, -2) + bias
    n = -beta * pairwise_l1(*(distance or (query, key)))
    mask = full_mask(mask, e.shape, is_causal)
    axis = -1 if is_causal or center_per_query else (-2, -1)
    if center_similarity:
        e = centered(e, mask, axis)
    if gate_range == "centered":
        n = centered(n, mask, axis)
    factor = 2 if gate == "sigmoid" and gate_range == "scaled" else 1
    return np.where(mask, FUNCTIONS[similarity](e) * factor * FUNCTIONS[gate](n), 0)


def softmax_weights(query, key, mask=None, *, scale=1.0, is_causal=False, bias=0.0):
    return softmax(scale * query @ np.swapaxes(key, -1, -2) + bias, mask, is_causal)


def softmax(e, mask=None, is_causal=False):
    weights = np.where(full_mask(mask, e.shape, is_causal), np.exp(e), 0)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def conflict_weights(u, v, score_kernel, difference, mask=None, is_causal=False, bias=0.0):
    change = {"signed": lambda x: x, "absolute": np.abs, "squared": np.square}[difference]
    e = change(u[..., :, None, :] - v[..., None, :, :]) @ score_kernel + bias
    return softmax(e, mask, is_causal)


def alibi_slopes(num_heads):
    """Press et al. 2022: 2^(−8/n), 2^(−16/n), …; for other head counts, every other one of 2n."""
    n = 2 ** int(np.log2(num_heads))
    slopes = [2 ** (-8 * (head + 1) / n) for head in range(n)]
    more = [2 ** (-8 * (head + 1) / (2 * n)) for head in range(0, 2 * n, 2)]
    return np.array((slopes + more)[:num_heads])


def alibi_bias(num_heads, target, source):
    distance = np.abs(np.arange(target)[:, None] - np.arange(source))
    return -alibi_slopes(num_heads)[:, None, None] * distance


def relative_bucket(offset, num_buckets, max_distance, bidirectional):
    """Raffel et al. 2020, for one offset = position of the key − position of the query."""
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = num_buckets if offset > 0 else 0
    distance = abs(offset) if bidirectional else max(-offset, 0)
    exact = num_buckets // 2
    if distance < exact:
        return first + distance
    share = np.log(distance / exact) / np.log(max_distance / exact)
    return first + min(exact + int(share * (num_buckets - exact) + 1e-9), num_buckets - 1)


def rotated(x, base=10_000.0, start=0):
    """Su et al. 2021: the pair (x_i, x_{i+H/2}) of position t as a number times exp(1j·t·rate)."""
    half = x.shape[-1] // 2
    rates = base ** (-np.arange(half) / half)
    positions = start + np.arange(x.shape[-2])[:, None]
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * positions * rates)
    return np.concatenate([turned.real, turned.imag], -1)


def intra_weights(features, distance_bias, mask, signed):
    e = features @ np.swapaxes(features, -1, -2)
    beyond = (len(distance_bias) - 1) // (2 if signed else 1)
    for example in np.ndindex(e.shape[:-2]):
        real = np.flatnonzero(mask[example])
        for i, row in enumerate(real):
            for j, column in enumerate(real):
                distance = np.clip(i - j, -beyond, beyond)
                e[(*example, row, column)] += distance_bias[
                    distance + beyond if signed else abs(distance)
                ]
    return softmax(e, mask[..., :, None] & mask[..., None, :])


def masked_mean(x, mask, axis):
    """The mean over `axis`; 0 where nothing is real."""
    return np.where(mask, x, 0).sum(axis=axis) / np.maximum(mask.sum(axis=axis), 1)
