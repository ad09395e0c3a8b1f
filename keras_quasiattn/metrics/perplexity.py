"""How many tokens a model hesitates between."""

import math


def perplexity(negative_log_likelihood: float, tokens: int) -> float:
    """exp(negative_log_likelihood / tokens); infinite where that exceeds what a float holds.

    Perplexities compare only where the tokens are the same: per subword it is lower than per word. For a word's from
    subwords, give the subwords' sum with the number of words.

    Args:
        negative_log_likelihood: sum over all tokens of a set, in nats, without label smoothing.
        tokens: their number, the ends of sequences included.

    Raises:
        ValueError: If there are no tokens.

    >>> round(perplexity(3 * math.log(10), 3), 6)
    10.0
    """
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1; got {tokens}")
    try:
        return math.exp(negative_log_likelihood / tokens)
    except OverflowError:
        return math.inf
