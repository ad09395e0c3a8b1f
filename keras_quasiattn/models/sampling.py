"""Sampling from any model that gives the next token's logits step by step."""

import numbers
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer
from keras_quasiattn.core.backend import cumsum
from keras_quasiattn.core.randomness import gumbel_noise
from keras_quasiattn.models.decoding import choose_tokens
from keras_quasiattn.models.prompts import Step

Tensor = Any
_INDEX = 0x9E3779B1 - 2**32  # an odd number, by which the seeds of different positions differ


def sampling_search(
    step: Step,
    cache: Any,
    length: Any,
    *,
    seed: Any,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    start_id: int = 1,
    end_id: int = 1,
    padding_id: int = 0,
) -> tuple[Tensor, Tensor]:
    """Draws each token from the model's probabilities, up to the end token or `length` tokens.

    p(v) ∝ exp(logit[v] / temperature), over the `top_k` most likely tokens, and of these over the
    fewest most likely ones whose p together reaches `top_p`

    Tokens as likely as the last of these may be drawn too. It draws by the maximum of
    log p(v) + Gumbel(0, 1) noise. The noise is a function of the seed, the position and the row.

    Args:
        step: as for `greedy_search`.
        cache: the initial cache, with at least one tensor.
        length: maximum number of tokens; an integer, or on TensorFlow a scalar tensor.
        seed: an integer, which gives the same tokens in each call, or a
            `keras.random.SeedGenerator`, which gives others in each.
        temperature: number above 0; below 1 likely tokens become more likely. Defaults to 1.
        top_k: positive integer, how many of the most likely tokens may be drawn; None for all.
        top_p: number above 0, at most 1: which share of the probability, at `temperature` and among
            the `top_k`, the tokens that may be drawn must hold; None, or 1, for all.
        start_id: token at position 0, not part of the answer. Defaults to 1.
        end_id: token after which a row is finished, part of the answer. Defaults to 1.
        padding_id: fills the rest of a finished row and is never drawn. Defaults to 0.

    Returns:
        Tokens (B, length), int32, and the log-probability (B,), float32, of each row's tokens up to
        its end, at temperature 1 and over all tokens.

    Raises:
        ValueError: if `seed`, `temperature`, `top_k` or `top_p` is out of range.

    Example:
    >>> favours_two = lambda tokens, index, cache: (
    ...     keras.ops.one_hot(2 - 0 * tokens, 4) * 99.0,
    ...     cache,
    ... )
    >>> tokens, _ = sampling_search(favours_two, keras.ops.zeros((1, 1)), length=3, seed=0)
    >>> keras.ops.convert_to_numpy(tokens).tolist()
    [[2, 2, 2]]
    """
    if not isinstance(temperature, (int, float)) or not temperature > 0:
        raise ValueError(
            f"`temperature` must be a number above 0. Received: temperature={temperature!r}"
        )
    if top_k is not None:
        check_positive_integer(top_k, "top_k")
    if top_p is not None and (
        not isinstance(top_p, numbers.Real) or isinstance(top_p, bool) or not 0 < top_p <= 1
    ):
        raise ValueError(
            f"`top_p` must be None or a number above 0, at most 1. Received: top_p={top_p!r}"
        )
    if isinstance(seed, keras.random.SeedGenerator):
        key = ops.cast(seed.next(), "int32")
    elif isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**31:
        key = ops.convert_to_tensor([seed, 0], dtype="int32")
    else:
        raise ValueError(
            "`seed` must be an integer from 0 to 2³¹ − 1 or a `keras.random.SeedGenerator`. "
            f"Received: seed={seed!r}"
        )

    def draw(log_probabilities: Tensor, index: Tensor) -> Tensor:
        scores = log_probabilities / temperature  # (B, V)
        if top_k is not None:
            scores = _likeliest(scores, ops.top_k(scores, min(top_k, scores.shape[-1]))[0][:, -1:])
        if top_p is not None and top_p < 1:  # at 1, rounding would leave out rare tokens
            ordered = ops.top_k(scores, scores.shape[-1])[0]
            probabilities = ops.softmax(ordered, axis=-1)
            before = cumsum(probabilities) - probabilities
            needed = ops.where(before < top_p, ordered, ordered[:, :1])
            scores = _likeliest(scores, ops.min(needed, axis=-1, keepdims=True))
        here = ops.stack([key[0] + ops.cast(index, "int32") * _INDEX, key[1]])
        noise = gumbel_noise(here, tuple(ops.shape(scores)), draws=1)
        return ops.argmax(scores + ops.squeeze(noise, -1), axis=-1)

    return choose_tokens(
        step, cache, length, draw, start_id=start_id, end_id=end_id, padding_id=padding_id
    )


def _likeliest(scores: Tensor, least: Tensor) -> Tensor:
    """Returns `scores` (B, V) with −∞ below `least` (B, 1)."""
    return ops.where(scores >= least, scores, -float("inf"))
