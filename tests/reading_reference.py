"""The reading layers in float64 NumPy, for one example without padding at a time."""

import itertools

import numpy as np
from reference import coda_weights, softmax


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def factorization(z, bias, weights, factors):
    """Compute the definition: the products of all pairs of different features."""
    pairs = itertools.combinations(range(z.shape[-1]), 2)
    return (
        bias + z @ weights + sum(factors[i] @ factors[j] * z[..., i] * z[..., j] for i, j in pairs)
    )


def compared(x, aligned, machines):
    made = (x * aligned, np.concatenate([x, aligned], -1), x - aligned)
    return np.stack(
        [factorization(z, *machine) for z, machine in zip(made, machines, strict=True)], -1
    )


def connector(x, y, kernels, machines):
    """Return features (T, 3) and (S, 3); with six machines (T, 6) and (S, 6)."""
    projected = [relu(relu(z @ kernels[0]) @ kernels[1]) for z in (x, y)]
    scale = x.shape[-1] ** -0.5
    to_y, to_x = (softmax(scale * a @ b.T) for a, b in (projected, projected[::-1]))
    features = [compared(x, to_y @ y, machines[:3]), compared(y, to_x @ x, machines[:3])]
    if len(machines) == 6:
        for number, (z, p) in enumerate(zip((x, y), projected, strict=True)):
            own = compared(z, softmax(scale * p @ p.T) @ z, machines[3:])
            features[number] = np.concatenate([features[number], own], -1)
    return features


def gated_context(p, q, w_in, w_mem, w_gate, **coda):
    a, b = relu(p @ w_in), relu(q @ w_mem)
    weights = coda_weights(a, b, **coda) if coda else softmax(a @ b.T / np.sqrt(w_in.shape[1]))
    joined = np.concatenate([p, weights @ q], -1)
    return joined * sigmoid(joined @ w_gate)


def attention_flow(p, q, kernel):
    scores = np.array([[kernel @ np.concatenate([a, b, a * b]) for b in q] for a in p])
    found, matters = softmax(scores) @ q, softmax(scores.max(1)[None]) @ p
    return np.concatenate([p, found, p * found, p * matters], -1)


def gru_step(x, h, kernel, recurrent_kernel, bias):
    """Compute Keras' form (Cho et al. 2014 with the reset after the product).

    The gates are in the order update, reset, candidate.
    """
    of_x = np.split(x @ kernel + bias[0], 3)
    of_h = np.split(h @ recurrent_kernel + bias[1], 3)
    update, reset = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
    return update * h + (1 - update) * np.tanh(of_x[2] + reset * of_h[2])


def bidirectional(x, weights):
    """Return states (T, 2·units) from the six weights of both directions."""
    sides = []
    for rows, part in ((x, weights[:3]), (x[::-1], weights[3:])):
        h, states = np.zeros(part[1].shape[0]), []
        for row in rows:
            h = gru_step(row, h, *part)
            states.append(h)
        sides.append(np.array(states).reshape(len(x), -1))
    return np.concatenate([sides[0], sides[1][::-1]], -1)


def attentive_pointer(
    p, q, question_kernel, passage_kernel, state_kernel, question_score, score, gru
):
    def pooled(scores, values):
        return softmax(scores[None])[0] @ values

    def pointed(state):
        return np.tanh(p @ passage_kernel + state @ state_kernel) @ score[:, 0]

    state = pooled(np.tanh(q @ question_kernel) @ question_score[:, 0], q)
    start = pointed(state)
    return np.stack([start, pointed(gru_step(pooled(start, p), state, *gru))], -1)


def best_span(start, end, longest):
    """Return (first, last) of the first best span, by trying all."""
    spans = [(i, j) for i in range(len(start)) for j in range(i, min(i + longest, len(start)))]
    return max(spans, key=lambda span: (start[span[0]] + end[span[1]], -span[0], -span[1]))
