"""Prompts: what the answers of a search begin with, and how a model reads them at once."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras import ops

Tensor = Any
Step = Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]
Prefill = Callable[[Tensor, Tensor, Any], Any]


@dataclasses.dataclass(frozen=True)
class PromptedStep:
    """A step with the prompt that a search continues.

    Args:
        step: takes the token of each row's prompt where it has one.
        prompt: integers (B, P), the tokens of each row first, then padding.
        lengths: integers (B,), how many tokens each row's prompt has.
        start: scalar integer, how many positions the cache holds already.
    """

    step: Step
    prompt: Tensor
    lengths: Tensor
    start: Tensor

    def __call__(self, tokens: Tensor, index: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """Takes a step."""
        return self.step(tokens, index, cache)

    def is_given(self, index: Tensor) -> Tensor:
        """Whether each row's token at `index` is its prompt's, (B,)."""
        return index < self.lengths


def with_prompt(
    step: Step,
    cache: Any,
    prompt: Tensor,
    padding_id: int = 0,
    *,
    prefill: Prefill | None = None,
    start_id: int = 1,
) -> tuple[PromptedStep, Any]:
    """Wraps a step and its cache so that the answer of each row begins with a prompt.

    Padding before, between and after the tokens of a prompt is left out: a row's answer is that of
    its tokens alone. At the positions of its prompt a row must take the prompt's tokens, whose
    log-probabilities are then 0. An end token in the prompt is a token like others; the first one
    after it ends the row.

    With `prefill` the positions up to the end of the shortest prompt are read in one pass, and the
    search begins after them. The answers are the same.

    Args:
        step: as for `greedy_search`.
        cache: the initial cache, with B rows.
        prompt: integers (B, P); padding may stand anywhere.
        padding_id: id of padding. Defaults to 0.
        prefill: `prefill(tokens, count, cache) -> cache`, for example `Transformer.prefill`, which
            does to the cache what `step` does for the first `count` columns of `tokens` (B, P + 1),
            one after the other. None reads them step by step.
        start_id: token at position 0, as for the search. Only `prefill` needs it. Defaults to 1.

    Returns:
        The step and the cache to search with.

    Example:
    >>> from keras_quasiattn.models import greedy_search
    >>> favours_two = lambda tokens, index, cache: (
    ...     keras.ops.one_hot(2 - 0 * tokens, 4) * 9.0,
    ...     cache,
    ... )
    >>> prompt = keras.ops.array([[0, 3], [3, 1]])
    >>> step, cache = with_prompt(favours_two, keras.ops.zeros((2, 1)), prompt)
    >>> keras.ops.convert_to_numpy(greedy_search(step, cache, length=3)[0]).tolist()
    [[3, 2, 2], [3, 1, 2]]
    """

    def prompted(tokens: Tensor, index: Tensor, cache: Any) -> tuple[Tensor, Any]:
        logits, inner = step(tokens, index, cache["cache"])
        given = cache["prompt"]  # (B, P + 1), the last column is padding
        place = ops.minimum(index, ops.shape(given)[1] - 1)
        wanted = ops.expand_dims(ops.take(given, place, axis=1), 1)  # (B, 1)
        is_wanted = ops.equal(ops.arange(logits.shape[-1], dtype="int32"), wanted)
        forced = ops.where(is_wanted, ops.cast(0.0, logits.dtype), -float("inf"))
        return ops.where(ops.equal(wanted, padding_id), logits, forced), {**cache, "cache": inner}

    prompt = ops.cast(prompt, "int32")
    columns = ops.shape(prompt)[1]
    is_token = ops.not_equal(prompt, padding_id)
    # Different numbers, so that no backend needs a stable sort.
    order = ops.arange(columns, dtype="int32") + ops.where(is_token, 0, columns)
    prompt = ops.take_along_axis(prompt, ops.argsort(order, axis=1), axis=1)
    lengths = ops.sum(ops.cast(is_token, "int32"), axis=1)
    start = ops.zeros((), dtype="int32")
    if prefill is not None:
        # The shortest length; the number of columns in an empty batch, which has no minimum.
        start = columns - ops.max(columns - lengths, initial=0)
        starts = ops.full((ops.shape(prompt)[0], 1), start_id, dtype="int32")
        cache = prefill(ops.concatenate([starts, prompt], axis=1), start, cache)
    given = ops.pad(prompt, [(0, 0), (0, 1)], constant_values=padding_id)
    return PromptedStep(prompted, prompt, lengths, start), {"prompt": given, "cache": cache}


def begin(
    step: Step, batch: Any, length: Any, start_id: int, padding_id: int
) -> tuple[PromptedStep, Tensor, Tensor]:
    """Prepares a search of `length` tokens in `batch` rows.

    Returns:
        The step with its prompt, which may be empty; the answers (B, length), of which only the
        prompts are known; and the tokens (B,) at the first position that the search computes.
    """
    if not isinstance(step, PromptedStep):
        zero = ops.zeros((), dtype="int32")
        lengths = ops.zeros((batch,), dtype="int32")
        step = PromptedStep(step, ops.zeros((batch, 0), dtype="int32"), lengths, zero)
    starts, padding = (
        ops.full((batch, 1), token, dtype="int32") for token in (start_id, padding_id)
    )
    tokens = ops.concatenate([starts, step.prompt, padding], axis=1)  # (B, P + 2)
    places = ops.minimum(ops.arange(length, dtype="int32") + 1, ops.shape(tokens)[1] - 1)
    return step, ops.take(tokens, places, axis=1), ops.take(tokens, step.start, axis=1)
