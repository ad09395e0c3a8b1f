"""Greedy and beam search over any model that gives the next token's logits step by step.

Each search is a single graph (`keras.ops.while_loop`). It runs eagerly, under `tf.function` or
`jax.jit`, and inside a SavedModel.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer
from keras_quasiattn.models.prompts import PromptedStep, Step, begin

Tensor = Any


def greedy_search(
    step: Step, cache: Any, length: Any, *, start_id: int = 1, end_id: int = 1, padding_id: int = 0
) -> tuple[Tensor, Tensor]:
    """Chooses the most likely token at each position, up to the end token or `length` tokens.

    Args:
        step: `step(tokens, index, cache) -> (logits, cache)`, for example `Transformer.step`. It
            takes the tokens (B,) at the scalar position `index` and returns the logits (B, V) of
            the next token. The cache is any nested structure of tensors with the batch as first
            axis; `step` must keep their shapes.
        cache: the initial cache, with at least one tensor.
        length: maximum number of tokens; an integer, or on TensorFlow a scalar tensor.
        start_id: token at position 0, not part of the answer. Defaults to 1.
        end_id: token after which a row is finished, part of the answer. Defaults to 1.
        padding_id: fills the rest of a finished row and is never chosen. Defaults to 0.

    Returns:
        Tokens (B, length), int32, and the log-probability (B,), float32, of each row's tokens up to
        its end. The loop stops when every row is finished.

    Example:
    >>> favours_two = lambda tokens, index, cache: (
    ...     keras.ops.one_hot(2 - 0 * tokens, 4) * 9.0,
    ...     cache,
    ... )
    >>> tokens, log_probability = greedy_search(favours_two, keras.ops.zeros((1, 1)), length=3)
    >>> keras.ops.convert_to_numpy(tokens).tolist()
    [[2, 2, 2]]
    """

    def most_likely(log_probabilities: Tensor, index: Tensor) -> Tensor:
        return ops.argmax(log_probabilities, axis=-1)

    return choose_tokens(
        step, cache, length, most_likely, start_id=start_id, end_id=end_id, padding_id=padding_id
    )


def choose_tokens(
    step: Step,
    cache: Any,
    length: Any,
    choose: Callable[[Tensor, Tensor], Tensor],
    *,
    start_id: int,
    end_id: int,
    padding_id: int,
) -> tuple[Tensor, Tensor]:
    """Searches with one candidate in each row.

    `choose(log_probabilities, index)` takes (B, V), −∞ for padding, and returns token ids (B,). The
    rest is as in `greedy_search`.
    """
    batch = _batch_size(cache)
    columns = ops.arange(length, dtype="int32")
    prompted, answers, first = begin(step, batch, length, start_id, padding_id)

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
        logits, cache = step(tokens, index, cache)  # (B, V)
        log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        candidates = _exclude_token(log_probabilities, padding_id)
        chosen = ops.cast(choose(candidates, index), "int32")
        gained = _pick(log_probabilities, chosen)  # (B,)
        chosen = ops.where(finished, padding_id, chosen)
        total = ops.where(finished, total, total + gained)
        sequences = ops.where(ops.equal(columns, index), ops.expand_dims(chosen, 1), sequences)
        ends = ops.logical_and(ops.equal(chosen, end_id), ~prompted.is_given(index))
        return (
            index + 1,
            chosen,
            ops.logical_or(finished, ends),
            sequences,
            total,
            cache,
        )

    *_, sequences, total, _ = ops.while_loop(
        unfinished,
        body,
        (
            prompted.start,
            first,
            ops.zeros((batch,), dtype="bool"),
            answers,
            ops.zeros((batch,), dtype="float32"),
            cache,
        ),
    )
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
    """Keeps the `beam_width` most likely prefixes and returns the best complete sequence.

    score = log-probability / ((5 + number of tokens) / 6)^alpha, the end token counted

    A sequence is complete at its end token or at `length` tokens. The search stops when in no row
    an unfinished sequence can still beat the best complete one. Width 1 with alpha 0 is greedy
    search.

    Args:
        step: as for `greedy_search`; it is called with B·beam_width rows.
        cache: the initial cache, with B rows. The search repeats it for the beams and reorders it
            with them.
        length: maximum number of tokens; an integer, or on TensorFlow a scalar tensor.
        beam_width: positive integer. Defaults to 4.
        alpha: length penalty, 0 or more; larger values favour longer answers. Defaults to 0.6.
        start_id: token at position 0, not part of the answer. Defaults to 1.
        end_id: token that completes a sequence, part of the answer. Defaults to 1.
        padding_id: fills the rest of a sequence and is never chosen. Defaults to 0.

    Returns:
        Tokens (B, length), int32, and their log-probability (B,), float32, without the penalty.

    Raises:
        ValueError: if `beam_width` is not a positive integer, or `alpha` is negative.

    Example:
    >>> favours_two = lambda tokens, index, cache: (
    ...     keras.ops.one_hot(2 - 0 * tokens, 4) * 9.0,
    ...     cache,
    ... )
    >>> tokens, log_probability = beam_search(
    ...     favours_two, keras.ops.zeros((1, 1)), length=3, beam_width=2
    ... )
    >>> keras.ops.convert_to_numpy(tokens).tolist()
    [[2, 2, 2]]

    Reference: Wu et al. 2016, "Google's Neural Machine Translation System", eq. 14, without
    coverage; the settings beam 4 and alpha 0.6 are Tensor2Tensor's.
    """
    width = check_positive_integer(beam_width, "beam_width")
    if not alpha >= 0:
        raise ValueError(f"`alpha` must be 0 or more. Received: alpha={alpha!r}")
    batch = _batch_size(cache)
    columns = ops.arange(length, dtype="int32")
    # (B, 1): the row of each item's first beam among the B·K rows.
    first_rows = ops.expand_dims(ops.arange(batch, dtype="int32") * width, 1)
    prompted, answers, _ = begin(step, batch, length, start_id, padding_id)

    def score(log_probability: Tensor, tokens: Any) -> Tensor:
        return log_probability / ops.power((5.0 + ops.cast(tokens, "float32")) / 6.0, alpha)

    def unfinished(
        index: Tensor, alive: Tensor, alive_total: Tensor, best: Tensor, best_score: Tensor, *_: Any
    ) -> Tensor:
        # Upper bound of all continuations: log-probabilities only decrease, and the score of a
        # given log-probability is highest at full length.
        hope = ops.any(score(alive_total[:, 0], length) > best_score)  # the first is the highest
        return ops.logical_and(index < length, hope)

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
        previous = ops.where(
            index == 0, start_id, ops.take(alive, ops.maximum(index - 1, 0), axis=2)
        )
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
    # A prompt that fills the answers leaves nothing to search for.
    total = ops.where(prompted.start < length, nothing, 0.0)
    # All beams start identical, so only the first may be extended at the first step.
    alive_total = ops.where(ops.arange(width) == 0, ops.zeros((batch, width)), -float("inf"))
    _, _, _, best, _, best_total, _ = ops.while_loop(
        unfinished,
        body,
        (
            prompted.start,
            ops.repeat(ops.expand_dims(answers, 1), width, axis=1),
            alive_total,
            answers,
            nothing,
            total,
            keras.tree.map_structure(lambda leaf: ops.repeat(leaf, width, axis=0), cache),
        ),
    )
    return best, best_total


def with_limits(step: Step, cache: Any, limits: Tensor, end_id: int = 1) -> tuple[Step, Any]:
    """Wraps a step and its cache so that each row has its own maximum length.

    A search has one `length` for all rows, so a short text batched with a long one could get a
    longer answer than it gets alone. The limits prevent that: after `limits[b]` − 1 tokens row b
    must take the end token, whose log-probability is then 0. A prompt is not cut: if it is longer,
    the end follows it.

    Args:
        step: as for `greedy_search`.
        cache: the initial cache, with B rows.
        limits: integers (B,), the maximum number of tokens including the end; none may exceed the
            search's `length`.
        end_id: token that completes a sequence. Defaults to 1.

    Returns:
        The step and the cache to search with.

    Example:
    >>> favours_two = lambda tokens, index, cache: (
    ...     keras.ops.one_hot(2 - 0 * tokens, 4) * 9.0,
    ...     cache,
    ... )
    >>> step, cache = with_limits(favours_two, keras.ops.zeros((2, 1)), keras.ops.array([1, 3]))
    >>> keras.ops.convert_to_numpy(greedy_search(step, cache, length=3)[0]).tolist()
    [[1, 0, 0], [2, 2, 1]]
    """

    def limited(tokens: Tensor, index: Tensor, cache: Any) -> tuple[Tensor, Any]:
        logits, inner = step(tokens, index, cache["cache"])
        is_end = ops.equal(ops.arange(logits.shape[-1]), end_id)
        end = ops.where(is_end, ops.cast(0.0, logits.dtype), -float("inf"))
        is_over = ops.expand_dims(index + 1 >= cache["limits"], 1)
        return ops.where(is_over, end, logits), {**cache, "cache": inner}

    limits = ops.cast(limits, "int32")
    if isinstance(step, PromptedStep):
        limits = ops.maximum(limits, step.lengths + 1)
        return dataclasses.replace(step, step=limited), {"limits": limits, "cache": cache}
    return limited, {"limits": limits, "cache": cache}


def _batch_size(cache: Any) -> Any:
    return ops.shape(keras.tree.flatten(cache)[0])[0]


def _exclude_token(log_probabilities: Tensor, token: int) -> Tensor:
    return ops.where(
        ops.arange(log_probabilities.shape[-1]) == token, -float("inf"), log_probabilities
    )


def _pick(x: Tensor, positions: Tensor) -> Tensor:
    """Returns x[b, positions[b]] for every row b."""
    positions = ops.reshape(positions, (-1,) + (1,) * (len(x.shape) - 1))
    return ops.squeeze(ops.take_along_axis(x, positions, axis=1), axis=1)
