"""Sampling from any model that gives the next token's logits step by step."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.models.decoding import Step, choose_tokens
from keras_quasiattn.ops.random import gumbel_noise

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
    start_id: int = 1,
    end_id: int = 1,
    padding_id: int = 0,
) -> tuple[Tensor, Tensor]:
    """Draws each token from the model's probabilities, up to the end token or `length` tokens.

    p(v) ∝ exp(logit[v] / temperature), over the `top_k` most likely tokens

    It draws by the maximum of log p(v) + Gumbel(0, 1) noise. The noise is a function of the seed,
    the position and the row.

    Args:
        step: as for `greedy_search`.
        cache: the initial cache, with at least one tensor.
        length: maximum number of tokens; an integer, or on TensorFlow a scalar tensor.
        seed: an integer, which gives the same tokens in each call, or a
            `keras.random.SeedGenerator`, which gives others in each.
        temperature: number above 0; below 1 likely tokens become more likely. Defaults to 1.
        top_k: positive integer, how many of the most likely tokens may be drawn; None for all.
        start_id: token at position 0, not part of the answer. Defaults to 1.
        end_id: token after which a row is finished, part of the answer. Defaults to 1.
        padding_id: fills the rest of a finished row and is never drawn. Defaults to 0.

    Returns:
        Tokens (B, length), int32, and the log-probability (B,), float32, of each row's tokens up to
        its end, at temperature 1 and over all tokens.

    Raises:
        ValueError: if `seed`, `temperature` or `top_k` is out of range.

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
        if top_k is not None:
            count = min(top_k, log_probabilities.shape[-1])
            least = ops.top_k(log_probabilities, count)[0][:, -1:]  # (B, 1)
            log_probabilities = ops.where(
                log_probabilities >= least, log_probabilities, -float("inf")
            )
        here = ops.stack([key[0] + ops.cast(index, "int32") * _INDEX, key[1]])
        noise = gumbel_noise(here, tuple(ops.shape(log_probabilities)), draws=1)
        return ops.argmax(log_probabilities / temperature + ops.squeeze(noise, -1), axis=-1)

    return choose_tokens(
        step, cache, length, draw, start_id=start_id, end_id=end_id, padding_id=padding_id
    )
