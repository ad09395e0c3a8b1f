import math

import keras
import numpy as np
import pytest
from tools import to_numpy

from keras_quasiattn.models.mixture_classifier import evidence_lower_bound

BATCH, COMPONENTS = 6, 4
RANDOM = np.random.default_rng(0)
LIKELIHOOD = np.log(RANDOM.uniform(0.01, 1, (BATCH, COMPONENTS))).astype("float32")


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_is_the_expectation_less_the_weighted_divergence():
    log_q = log_softmax(RANDOM.normal(size=(BATCH, COMPONENTS)).astype("float32"))
    q = np.exp(log_q)
    divergence = (q * (log_q - np.log(1 / COMPONENTS))).sum(-1)
    expected = (q * LIKELIHOOD).sum(-1) - 0.5 * divergence
    np.testing.assert_allclose(
        to_numpy(evidence_lower_bound(LIKELIHOOD, log_q, kl_weight=0.5)), expected, atol=1e-5
    )


def test_a_certain_q_is_finite():
    log_q = np.array([[0.0, -1e4, -1e4, -1e4]], "float32")
    bound = to_numpy(evidence_lower_bound(LIKELIHOOD[:1], log_q))
    np.testing.assert_allclose(bound, LIKELIHOOD[0, :1] - math.log(COMPONENTS), atol=1e-5)


@pytest.mark.usefixtures("tensorflow_only")
def test_one_component_gives_value_and_gradient_of_all_in_expectation():
    """Weight each component by its probability: the expectation, not a mean of draws."""
    import tensorflow as tf

    logits = tf.constant(RANDOM.normal(size=(BATCH, COMPONENTS)).astype("float32"))
    likelihood = tf.constant(LIKELIHOOD)
    q = to_numpy(keras.ops.softmax(logits))

    def value_and_gradients(component: int | None) -> list[np.ndarray]:
        chosen = None if component is None else tf.fill((BATCH,), component)
        with tf.GradientTape() as tape:
            tape.watch((logits, likelihood))
            bound = evidence_lower_bound(likelihood, keras.ops.log_softmax(logits), chosen)
        return [bound.numpy(), *(x.numpy() for x in tape.gradient(bound, (logits, likelihood)))]

    whole = value_and_gradients(None)
    parts = [value_and_gradients(component) for component in range(COMPONENTS)]
    for position, expected in enumerate(whole):
        mean = sum(
            q[:, c].reshape(-1, *[1] * (expected.ndim - 1)) * parts[c][position]
            for c in range(COMPONENTS)
        )
        np.testing.assert_allclose(mean, expected, atol=1e-5)
    # A single draw has another gradient; otherwise this would show nothing.
    assert np.abs(parts[0][1] - whole[1]).max() > 1e-2
