"""Perplexity from a summed negative log-likelihood."""

import math


def perplexity(negative_log_likelihood: float, tokens: int) -> float:
    """Returns exp(negative_log_likelihood / tokens), or infinity where a float would overflow.

    Perplexities are comparable only for the same tokens: per subword the value is lower than per
    word. For the perplexity per word of a subword model, pass the sum over subwords with the number
    of words.

    Args:
        negative_log_likelihood: sum over all tokens of a set, in nats, without label smoothing.
        tokens: their number, the ends of sequences included.

    Raises:
        ValueError: if `tokens` is below 1.

    >>> round(perplexity(3 * math.log(10), 3), 6)
    10.0
    """
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1; got {tokens}")
    try:
        return math.exp(negative_log_likelihood / tokens)
    except OverflowError:
        return math.inf
