import math

import numpy as np
import pytest

from keras_quasiattn.metrics import SequencePerplexity, perplexity


def test_a_uniform_choice_has_as_many_as_there_are():
    assert perplexity(7 * math.log(50), 7) == pytest.approx(50)
    assert perplexity(0.0, 3) == 1


def test_a_hopeless_model_is_infinite_and_a_broken_one_no_number():
    assert perplexity(1e6, 1) == perplexity(math.inf, 1) == math.inf
    assert math.isnan(perplexity(math.nan, 1))


@pytest.mark.parametrize("tokens", [0, -1])
def test_no_tokens_are_refused(tokens):
    with pytest.raises(ValueError, match=f"tokens must be at least 1; got {tokens}"):
        perplexity(1.0, tokens)


def test_the_metric_of_a_set_is_the_function_of_its_sums():
    logits = np.random.default_rng(0).normal(size=(3, 4, 6)).astype("float32")
    targets = np.array([[2, 3, 1, 0], [5, 1, 0, 0], [1, 0, 0, 0]])
    losses = (
        np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    )
    metric = SequencePerplexity()
    for rows in (slice(0, 1), slice(1, 3)):
        metric.update_state(targets[rows], logits[rows])
    assert float(metric.result()) == pytest.approx(
        perplexity(losses[targets != 0].sum(), 6), rel=1e-5
    )
    weight = (targets == 1).astype("float32") * 0.5  # a position counts or does not
    metric.reset_state()
    metric.update_state(targets, logits, weight)
    assert float(metric.result()) == pytest.approx(
        perplexity(losses[targets == 1].sum(), 3), rel=1e-5
    )
    assert SequencePerplexity.from_config(metric.get_config()).get_config() == metric.get_config()
