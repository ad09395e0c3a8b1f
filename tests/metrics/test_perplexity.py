import math

import pytest

from keras_quasiattn.metrics import perplexity


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
