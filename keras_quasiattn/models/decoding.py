"""Greedy, beam and sampling search with any model that computes next-token logits step by step.

Each search is a single graph (`keras.ops.while_loop`). It runs eagerly, compiled, and exported.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check, check_positive_integer, is_number
from keras_quasiattn.core.backend import cumsum
from keras_quasiattn.core.masks import largest, real_sequences
from keras_quasiattn.core.randomness import gumbel_noise

Tensor = Any
Step = Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]
Prefill = Callable[[Tensor, Tensor, Any], Any]
_INDEX = 0x9E3779B1 - 2**32  # an odd number that separates the seeds of positions


def greedy_search(
    step: Step, cache: Any, length: Any, *, start_id: int = 1, end_id: int = 1, padding_id: int = 0
) -> tuple[Tensor, Tensor]:
    """Choose the most likely token at each position, up to the end token or `length` tokens.

    Args:
        step: `step(tokens, index, cache) -> (logits, cache)`, for example `Transformer.step`. It
            takes the tokens (B,) at the scalar position `index` and returns the next logits (B, V).
        cache: the initial cache, nested tensors (B, …), whose shapes `step` must keep.
        length: maximum number of tokens; an integer, or on TensorFlow a scalar tensor.
        start_id: token at position 0, not part of the answer. Defaults to 1.
        end_id: token after which a row is finished, part of the answer. Defaults to 1.
        padding_id: fills the rest of a finished row and is never chosen. Defaults to 0.

    Returns:
        Tokens (B, length), int32, and each row's log-probability (B,), float32, up to its end.

    Example:
    >>> step = lambda tokens, index, cache: (9.0 * keras.ops.one_hot(2 - 0 * tokens, 4), cache)
    >>> tokens, log_probability = greedy_search(step, keras.ops.zeros((1, 1)), length=3)
    >>> keras.ops.convert_to_numpy(tokens).tolist()
    [[2, 2, 2]]
    """

    def most_likely(log_probabilities: Tensor, index: Tensor) -> Tensor:
        return ops.argmax(log_probabilities, axis=-1)

    return _choose_tokens(step, cache, length, most_likely, start_id, end_id, padding_id)


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
    """Draw each token from the model's probabilities, up to the end token or `length` tokens.

    p(v) ∝ exp(logit[v] / temperature) over the `top_k` most likely tokens, cut to the smallest set
    of the most likely ones whose total p reaches `top_p`

    Tokens that tie with the last of these may be drawn too. A draw is the maximum of log p(v) +
    Gumbel(0, 1) noise, which is a function of the seed, the position and the row.

    Args:
        step, cache, length: as for `greedy_search`.
        seed: an integer, which gives the same tokens in every call, or a
            `keras.random.SeedGenerator`, which gives different tokens in every call.
        temperature: number above 0; values below 1 make likely tokens more likely. Defaults to 1.
        top_k: positive integer, the number of most likely tokens that may be drawn; None for all.
        top_p: number above 0 and at most 1: the probability that the tokens to draw from must reach
            together; None or 1 for all.
        start_id, end_id, padding_id: as for `greedy_search`.

    Returns:
        As `greedy_search`; the log-probability is at temperature 1 and over all tokens.

    Raises:
        ValueError: if `seed`, `temperature`, `top_k` or `top_p` is out of range.

    Example:
    >>> step = lambda tokens, index, cache: (99.0 * keras.ops.one_hot(2 - 0 * tokens, 4), cache)
    >>> tokens, _ = sampling_search(step, keras.ops.zeros((1, 1)), length=3, seed=0)
    >>> keras.ops.convert_to_numpy(tokens).tolist()
    [[2, 2, 2]]
    """
    fits = is_number(temperature) and 0 < temperature < math.inf
    check(fits, temperature, "temperature", "a finite number above 0")
    check_positive_integer(top_k, "top_k", optional=True)
    fits = top_p is None or (is_number(top_p) and 0 < top_p <= 1)
    check(fits, top_p, "top_p", "None or a number above 0, at most 1")
    if isinstance(seed, keras.random.SeedGenerator):
        key = ops.cast(seed.next(), "int32")
    else:
        fits = isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**31
        expected = "an integer from 0 to 2³¹ − 1 or a `keras.random.SeedGenerator`"
        key = ops.convert_to_tensor([check(fits, seed, "seed", expected), 0], dtype="int32")

    def draw(log_probabilities: Tensor, index: Tensor) -> Tensor:
        scores = log_probabilities / temperature  # (B, V)
        if top_k is not None:
            least = ops.top_k(scores, min(top_k, scores.shape[-1]))[0][:, -1:]
            scores = ops.where(scores >= least, scores, -float("inf"))
        if top_p is not None and top_p < 1:  # with 1, rounding would exclude rare tokens
            ordered = ops.top_k(scores, scores.shape[-1])[0]
            probabilities = ops.softmax(ordered, axis=-1)
            before = cumsum(probabilities) - probabilities
            needed = ops.where(before < top_p, ordered, ordered[:, :1])
            least = ops.min(needed, axis=-1, keepdims=True)
            scores = ops.where(scores >= least, scores, -float("inf"))
        here = ops.stack([key[0] + ops.cast(index, "int32") * _INDEX, key[1]])
        noise = gumbel_noise(here, tuple(ops.shape(scores)), draws=1)
        return ops.argmax(scores + ops.squeeze(noise, -1), axis=-1)

    return _choose_tokens(step, cache, length, draw, start_id, end_id, padding_id)


def _choose_tokens(
    step: Step,
    cache: Any,
    length: Any,
    choose: Callable[[Tensor, Tensor], Tensor],
    start_id: int,
    end_id: int,
    padding_id: int,
) -> tuple[Tensor, Tensor]:
    """Search with `choose(log_probabilities (B, V), index) → ids (B,)`, as `greedy_search` does."""
    batch = _batch_size(cache)
    columns = ops.arange(length, dtype="int32")
    prompted, answers, first = _begin(step, batch, length, start_id, padding_id)

    def unfinished(index: Tensor, tokens: Tensor, finished: Tensor, *_: Any) -> Tensor:
        return ops.logical_and(index < length, ops.logical_not(ops.all(finished)))

    def body(
        index: Tensor,
        tokens: Tensor,
        finished: Tensor,
        sequences: Tensor,
        total: Tensor,
        cache: Any,
    ) -> tuple[Any, ...]:
        with real_sequences(ops.logical_not(finished)):
            logits, cache = step(tokens, index, cache)  # (B, V)
        log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        candidates = _exclude_token(log_probabilities, padding_id)
        chosen = ops.cast(choose(candidates, index), "int32")
        gained = _pick(log_probabilities, chosen)  # (B,)
        chosen = ops.where(finished, padding_id, chosen)
        total = ops.where(finished, total, total + gained)
        sequences = ops.where(ops.equal(columns, index), ops.expand_dims(chosen, 1), sequences)
        ends = ops.logical_and(ops.equal(chosen, end_id), ~prompted.is_given(index))
        return index + 1, chosen, ops.logical_or(finished, ends), sequences, total, cache

    finished, total = ops.zeros((batch,), dtype="bool"), ops.zeros((batch,), dtype="float32")
    initial = (prompted.start, first, finished, answers, total, cache)
    *_, sequences, total, _ = _loop(length, unfinished, body, initial)
    return sequences, total


def beam_search(
    step: Step,
    cache: Any,
    length: Any,
    *,
    beam_width: int = 4,
    alpha: float = 0.6,
    start_id: int = 1,
    end_id: int = 1,
    padding_id: int = 0,
) -> tuple[Tensor, Tensor]:
    """Keep the `beam_width` most likely prefixes and return the best complete sequence.

    score = log-probability / ((5 + number of tokens, including the end) / 6)^alpha

    A sequence is complete at its end token or at `length` tokens. The search stops when no row has
    an unfinished sequence that can still beat the best complete one. Width 1 with alpha 0 is greedy
    search.

    Args:
        step, length: as for `greedy_search`; `step` is called with B·beam_width rows.
        cache: the initial cache, with B rows, which the search repeats and reorders.
        beam_width: positive integer. Defaults to 4.
        alpha: length penalty, 0 or more; larger values favour longer answers. Defaults to 0.6.
        start_id, end_id, padding_id: as for `greedy_search`.

    Returns:
        Tokens (B, length), int32, and their log-probability (B,), float32, without the penalty.

    Raises:
        ValueError: if `beam_width` is not a positive integer, or `alpha` is negative.

    Example:
    >>> step = lambda tokens, index, cache: (9.0 * keras.ops.one_hot(2 - 0 * tokens, 4), cache)
    >>> tokens, log_probability = beam_search(
    ...     step, keras.ops.zeros((1, 1)), length=3, beam_width=2
    ... )
    >>> keras.ops.convert_to_numpy(tokens).tolist()
    [[2, 2, 2]]

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", eq. 14, without coverage;
    the settings beam 4 and alpha 0.6 are Tensor2Tensor's.
    """
    width = check_positive_integer(beam_width, "beam_width")
    check(alpha >= 0, alpha, "alpha", "0 or more")
    batch = _batch_size(cache)
    columns = ops.arange(length, dtype="int32")
    # (B, 1): the index of each item's first beam among the B·K rows.
    first_rows = ops.expand_dims(ops.arange(batch, dtype="int32") * width, 1)
    prompted, answers, _ = _begin(step, batch, length, start_id, padding_id)

    def score(log_probability: Tensor, tokens: Any) -> Tensor:
        return log_probability / ops.power((5.0 + ops.cast(tokens, "float32")) / 6.0, alpha)

    def hopeful(alive_total: Tensor, best_score: Tensor) -> Tensor:
        # (B, K). Upper bound for all continuations: log-probabilities only decrease, and a given
        # log-probability scores highest at full length.
        return score(alive_total, length) > ops.expand_dims(best_score, 1)

    def unfinished(
        index: Tensor, alive: Tensor, alive_total: Tensor, best: Tensor, best_score: Tensor, *_: Any
    ) -> Tensor:
        return ops.logical_and(index < length, ops.any(hopeful(alive_total, best_score)))

    def body(
        index: Tensor,
        alive: Tensor,
        alive_total: Tensor,
        best: Tensor,
        best_score: Tensor,
        best_total: Tensor,
        cache: Any,
    ) -> tuple[Any, ...]:
        # (B, K): the last token of each beam.
        previous = ops.take(alive, ops.maximum(index - 1, 0), axis=2)
        previous = ops.where(index == 0, start_id, previous)
        with real_sequences(ops.reshape(hopeful(alive_total, best_score), (-1,))):
            logits, cache = step(ops.reshape(previous, (-1,)), index, cache)  # (B·K, V)
        log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        vocabulary = logits.shape[-1]
        totals = ops.reshape(_exclude_token(log_probabilities, padding_id), (-1, width, vocabulary))
        totals = ops.reshape(totals + ops.expand_dims(alive_total, -1), (-1, width * vocabulary))
        # (B, K·V) to (B, 2K). At most K candidates end, one per beam, so K unfinished ones remain.
        totals, candidates = ops.top_k(totals, min(2 * width, width * vocabulary))
        candidates = ops.cast(candidates, "int32")
        beams, chosen = candidates // vocabulary, candidates % vocabulary
        rows = ops.reshape(alive, (-1, ops.shape(alive)[2]))  # (B·K, length)
        sequences = ops.take(rows, first_rows + beams, axis=0)  # (B, 2K, length)
        sequences = ops.where(ops.equal(columns, index), ops.expand_dims(chosen, -1), sequences)

        is_given = ops.expand_dims(prompted.is_given(index), 1)
        ends = ops.logical_and(ops.equal(chosen, end_id), ~is_given)
        complete = ops.logical_or(ends, index + 1 >= length)
        # (B, K). Only the K best candidates may end: a lower end token would not have won a beam.
        scores = ops.where(complete, score(totals, index + 1), -float("inf"))[:, :width]
        winner = ops.argmax(scores, axis=1)
        winner_score = _pick(scores, winner)
        better = winner_score > best_score
        best_score = ops.where(better, winner_score, best_score)
        best_total = ops.where(better, _pick(totals, winner), best_total)
        best = ops.where(ops.expand_dims(better, 1), _pick(sequences, winner), best)

        # (B, K) totals, (B, K, length) sequences; (B·K,) is the cache row each one came from.
        alive_total, places = ops.top_k(ops.where(ends, -float("inf"), totals), width)
        alive = ops.take_along_axis(sequences, ops.expand_dims(places, -1), axis=1)
        parents = ops.reshape(first_rows + ops.take_along_axis(beams, places, axis=1), (-1,))
        cache = keras.tree.map_structure(lambda leaf: ops.take(leaf, parents, axis=0), cache)
        return index + 1, alive, alive_total, best, best_score, best_total, cache

    nothing = ops.full((batch,), -float("inf"), dtype="float32")
    # A prompt of full length leaves nothing to search.
    total = ops.where(prompted.start < length, nothing, 0.0)
    alive = ops.repeat(ops.expand_dims(answers, 1), width, axis=1)
    # All beams start identical, so only the first may be extended at the first step.
    nothing_yet = ops.zeros((batch, width), dtype="float32")
    alive_total = ops.where(ops.arange(width, dtype="int32") == 0, nothing_yet, -float("inf"))
    cache = keras.tree.map_structure(lambda leaf: ops.repeat(leaf, width, axis=0), cache)
    initial = (prompted.start, alive, alive_total, answers, nothing, total, cache)
    _, _, _, best, _, best_total, _ = _loop(length, unfinished, body, initial)
    return best, best_total


@dataclasses.dataclass(frozen=True)
class PromptedStep:
    """A decoding step that follows a prompt before the search begins.

    `prompt` (B, P) holds the `lengths` (B,) tokens of each row, then padding; `start` is the number
    of positions that the cache already holds.
    """

    step: Step
    prompt: Tensor
    lengths: Tensor
    start: Tensor

    def __call__(self, tokens: Tensor, index: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """Take a step."""
        return self.step(tokens, index, cache)

    def is_given(self, index: Tensor) -> Tensor:
        """Return whether each row's token at `index` belongs to its prompt, (B,)."""
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
    """Wrap a step and its cache to make the answer of each row begin with a prompt.

    Padding anywhere in a prompt is ignored. At the positions of its prompt a row takes the prompt's
    tokens with log-probability 0. An end token in the prompt does not end the row; the first one
    after the prompt does. With `prefill` the positions up to the end of the shortest prompt are
    processed in one call; the answers are the same.

    Args:
        step, cache: as for `greedy_search`.
        prompt: integers (B, P); padding may be anywhere.
        padding_id: id of padding. Defaults to 0.
        prefill: `prefill(tokens, count, cache) -> cache`, for example `Transformer.prefill`, which
            updates the cache as `step` would for the first `count` columns of `tokens` (B, P + 1).
            None (the default) processes them step by step.
        start_id: token at position 0, as for the search. Only `prefill` needs it. Defaults to 1.

    Returns:
        The step and the cache to search with.

    Example:
    >>> step = lambda tokens, index, cache: (9.0 * keras.ops.one_hot(2 - 0 * tokens, 4), cache)
    >>> prompt = keras.ops.array([[0, 3], [3, 1]])
    >>> step, cache = with_prompt(step, keras.ops.zeros((2, 1)), prompt)
    >>> keras.ops.convert_to_numpy(greedy_search(step, cache, length=3)[0]).tolist()
    [[3, 2, 2], [3, 1, 2]]
    """

    def prompted(tokens: Tensor, index: Tensor, cache: Any) -> tuple[Tensor, Any]:
        logits, inner = step(tokens, index, cache["cache"])
        given = cache["prompt"]  # (B, P + 1), the last column is padding
        place = ops.minimum(index, ops.shape(given)[1] - 1)
        wanted = ops.expand_dims(ops.take(given, place, axis=1), 1)  # (B, 1)
        free = ops.equal(wanted, padding_id)
        return ops.where(free, logits, _forced(logits, wanted)), {**cache, "cache": inner}

    prompt = ops.cast(prompt, "int32")
    columns = ops.shape(prompt)[1]
    is_token = ops.not_equal(prompt, padding_id)
    # The keys are distinct, so no backend needs a stable sort.
    order = ops.arange(columns, dtype="int32")
    order = ops.where(is_token, order, order + columns)
    prompt = ops.take_along_axis(prompt, ops.argsort(order, axis=1), axis=1)
    lengths = ops.sum(ops.cast(is_token, "int32"), axis=1)
    start = ops.zeros((), dtype="int32")
    if prefill is not None:
        # The shortest length; the number of columns in an empty batch, which has no minimum.
        start = columns - largest(columns - lengths, -1, 0)
        starts = ops.full((ops.shape(prompt)[0], 1), start_id, dtype="int32")
        cache = prefill(ops.concatenate([starts, prompt], axis=1), start, cache)
    given = ops.pad(prompt, [(0, 0), (0, 1)], constant_values=padding_id)
    return PromptedStep(prompted, prompt, lengths, start), {"prompt": given, "cache": cache}


def with_limits(step: Step, cache: Any, limits: Tensor, end_id: int = 1) -> tuple[Step, Any]:
    """Wrap a step and its cache to give each row its own maximum length.

    In a search, a short text batched with a long one could get a longer answer than it gets alone.
    With limits, row b must take the end token after `limits[b]` − 1 tokens, with log-probability 0.
    A longer prompt is not cut; the end follows it.

    Args:
        step, cache: as for `greedy_search`.
        limits: integers (B,), the maximum number of tokens including the end, at most `length`.
        end_id: token that completes a sequence. Defaults to 1.

    Returns:
        The step and the cache to search with.

    Example:
    >>> step = lambda tokens, index, cache: (9.0 * keras.ops.one_hot(2 - 0 * tokens, 4), cache)
    >>> step, cache = with_limits(step, keras.ops.zeros((2, 1)), keras.ops.array([1, 3]))
    >>> keras.ops.convert_to_numpy(greedy_search(step, cache, length=3)[0]).tolist()
    [[1, 0, 0], [2, 2, 1]]
    """

    def limited(tokens: Tensor, index: Tensor, cache: Any) -> tuple[Tensor, Any]:
        logits, inner = step(tokens, index, cache["cache"])
        is_over = ops.expand_dims(index + 1 >= cache["limits"], 1)
        return ops.where(is_over, _forced(logits, end_id), logits), {**cache, "cache": inner}

    limits = ops.cast(limits, "int32")
    if isinstance(step, PromptedStep):
        limits = ops.maximum(limits, step.lengths + 1)
        return dataclasses.replace(step, step=limited), {"limits": limits, "cache": cache}
    return limited, {"limits": limits, "cache": cache}


def _begin(
    step: Step, batch: Any, length: Any, start_id: int, padding_id: int
) -> tuple[PromptedStep, Tensor, Tensor]:
    """Prepare a search of `length` tokens in `batch` rows.

    Return the step with its prompt, which may be empty; the answers (B, length), which hold only
    the prompts so far; and the tokens (B,) at the first position that the search computes.
    """
    if not isinstance(step, PromptedStep):
        zero = ops.zeros((), dtype="int32")
        lengths = ops.zeros((batch,), dtype="int32")
        step = PromptedStep(step, ops.zeros((batch, 0), dtype="int32"), lengths, zero)
    starts = ops.full((batch, 1), start_id, dtype="int32")
    padding = ops.full((batch, 1), padding_id, dtype="int32")
    tokens = ops.concatenate([starts, step.prompt, padding], axis=1)  # (B, P + 2)
    places = ops.minimum(ops.arange(length, dtype="int32") + 1, ops.shape(tokens)[1] - 1)
    return step, ops.take(tokens, places, axis=1), ops.take(tokens, step.start, axis=1)


def _loop(length: Any, condition: Any, body: Any, initial: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run a search; for 0 tokens, JAX could not trace a step that reads an empty cache."""
    is_empty = isinstance(length, int) and length == 0
    return initial if is_empty else ops.while_loop(condition, body, initial)


def _batch_size(cache: Any) -> Any:
    return ops.shape(keras.tree.flatten(cache)[0])[0]


def _forced(logits: Tensor, token: Any) -> Tensor:
    """Return logits shaped like `logits` (B, V) that allow only `token`, an id or ids (B, 1)."""
    allowed = ops.equal(ops.arange(logits.shape[-1], dtype="int32"), token)
    return ops.where(allowed, ops.cast(0.0, logits.dtype), -float("inf"))


def _exclude_token(log_probabilities: Tensor, token: int) -> Tensor:
    excluded = ops.arange(log_probabilities.shape[-1], dtype="int32") == token
    return ops.where(excluded, -float("inf"), log_probabilities)


def _pick(x: Tensor, positions: Tensor) -> Tensor:
    """Return x[b, positions[b]] for every row b."""
    positions = ops.reshape(positions, (-1,) + (1,) * (len(x.shape) - 1))
    return ops.squeeze(ops.take_along_axis(x, positions, axis=1), axis=1)
