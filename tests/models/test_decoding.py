import functools
import itertools

import keras
import numpy as np
import pytest
from keras import ops
from test_writers import token_log_probabilities
from tools import to_numpy

from keras_quasiattn.core.recording import edited, editing
from keras_quasiattn.models import (
    CausalTransformer,
    Transformer,
    beam_search,
    greedy_search,
    sampling_search,
    with_limits,
)

V, L, END = 4, 3, 1


def random_model(rows, seed, vocabulary=V, length=L, spread=2.0):
    """Return a step whose logits depend on the row, the position and the last two tokens.

    The cache remembers the first of these two tokens.
    """
    generator = np.random.default_rng(seed)
    shape = (rows, length, vocabulary, vocabulary, vocabulary)
    table = spread * generator.normal(size=shape).astype("float32")
    flat = ops.convert_to_tensor(table.reshape(-1, vocabulary))

    def step(tokens, index, cache):
        row, before = cache["row"], cache["before"]
        place = ((row * length + index) * vocabulary + before) * vocabulary + tokens
        return ops.take(flat, place, axis=0), {"row": row, "before": tokens}

    cache = {"row": ops.arange(rows, dtype="int32"), "before": ops.zeros((rows,), dtype="int32")}
    return table, step, cache


def log_probability(table, sequence):
    """Return the log-probability of a sequence up to its end token, by the definition."""
    total, before, last = 0.0, 0, END
    for index, token in enumerate(sequence):
        logits = table[index, before, last].astype("float64")
        total += logits[token] - np.log(np.exp(logits).sum())
        before, last = last, token
        if token == END:
            break
    return total


def complete_sequences():
    for length in range(1, L + 1):
        for body in itertools.product([2, 3], repeat=length - 1):
            yield (*body, END)
    yield from itertools.product([2, 3], repeat=L)


def score(table, sequence, alpha):
    return log_probability(table, sequence) / ((5 + len(sequence)) / 6) ** alpha


def strip(row):
    """Return a row up to its end token; what follows must be padding."""
    row = list(map(int, row))
    length = row.index(END) + 1 if END in row else len(row)
    assert not any(row[length:]) and 0 not in row[:length]
    return tuple(row[:length])


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize(
    "search", [greedy_search, beam_search, functools.partial(sampling_search, seed=0)]
)
def test_no_tokens_are_certain(search, rows):
    """JAX traces the loop, whose step would look up position 0 of 0."""
    _, step, cache = random_model(2, seed=1)
    cache = {name: value[:rows] for name, value in cache.items()}
    tokens, total = search(step, cache, 0)
    assert to_numpy(tokens).shape == (rows, 0)
    assert to_numpy(total).tolist() == [0.0] * rows


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_a_language_model_continues_nothing_by_nothing(search):
    model = CausalTransformer(9, 1, 8, 8, num_heads=2)
    tokens, total = model.generate(np.zeros((2, 0), "int32"), 0, search)
    assert to_numpy(tokens).shape == (2, 0)
    assert to_numpy(total).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_the_best_of_all_sequences(alpha):
    table, step, cache = random_model(20, seed=1)
    tokens, total = beam_search(step, cache, L, beam_width=16, alpha=alpha)
    lengths = set()
    for row, (sequence, gained) in enumerate(zip(to_numpy(tokens), to_numpy(total), strict=True)):
        best = max(complete_sequences(), key=lambda s: score(table[row], s, alpha))
        assert strip(sequence) == best
        assert gained == pytest.approx(log_probability(table[row], best), abs=1e-5)
        lengths.add(len(best))
    assert len(lengths) == 3  # every length was the right one for some row


def test_the_length_penalty_counts_from_another_number_than_five():
    """1 token and 7 tokens score alike if their log-probabilities are as 1 to (5 + 7)/(5 + 1).

    The two ratios tested here are just above and just below that.
    """
    probabilities = np.full((2, 7, 14), 1e-9)
    probabilities[:, 0, [END, 2]] = 0.5
    probabilities[:, 2:6, 2] = probabilities[:, 6, END] = 1
    for row, ratio in enumerate((2.01, 1.99)):
        goes_on = 0.5 ** (ratio - 1)
        probabilities[row, 1, 2:] = (1 - goes_on) / 11
        probabilities[row, 1, 2] = goes_on
    table = ops.convert_to_tensor(np.log(probabilities).astype("float32"))

    def step(tokens, index, cache):
        return ops.take(ops.take(table, index, axis=1), cache, axis=0), cache

    tokens, total = beam_search(step, ops.arange(2, dtype="int32"), 7, alpha=1.0)
    assert [strip(row) for row in to_numpy(tokens)] == [(END,), (2,) * 6 + (END,)]
    np.testing.assert_allclose(to_numpy(total), np.log(0.5) * np.array([1, 1.99]), atol=1e-5)


def test_an_end_that_ranks_below_the_beams_completes_nothing():
    """Both beams continue, and the end ranks third, although it would beat their results."""
    probabilities = np.full((3, 6), 1e-9)
    probabilities[0, [2, 3, END]] = 0.4, 0.35, 0.25
    probabilities[1:, 2:] = 0.31, 0.25, 0.23, 0.21
    table = ops.convert_to_tensor(np.log(probabilities).astype("float32"))

    def step(tokens, index, cache):
        return ops.take(table, ops.full_like(tokens, 0) + index, axis=0), cache

    tokens, total = beam_search(step, ops.zeros((1, 1)), 3, beam_width=2, alpha=0.0)
    assert strip(to_numpy(tokens)[0]) == (2, 2, 2)
    np.testing.assert_allclose(to_numpy(total), np.log(0.4 * 0.31**2), atol=1e-5)


def test_an_end_among_the_best_leaves_every_beam_a_beginning():
    """An end that ranks first does not use up one of the two beams.

    The third token, which is certain from then on, wins.
    """
    probabilities = np.full((6, 6), 1e-9)
    probabilities[0, [END, 2, 3]] = 0.4, 0.35, 0.25
    probabilities[2, 2:] = 0.25
    probabilities[3, 3] = 1
    table = ops.convert_to_tensor(np.log(probabilities).astype("float32"))
    tokens, total = beam_search(
        lambda tokens, index, cache: (ops.take(table, tokens, axis=0), cache),
        ops.zeros((1, 1)),
        3,
        beam_width=2,
        alpha=2.0,
        start_id=0,
    )
    assert strip(to_numpy(tokens)[0]) == (3, 3, 3)
    np.testing.assert_allclose(to_numpy(total), np.log(0.25), atol=1e-5)


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_the_loop_stops_when_every_row_is_finished(search):
    seen = []

    def step(tokens, index, cache):
        # Row r ends after r + 1 tokens.
        ends = ops.cast(cache["row"] <= index, "float32") * 40.0
        seen.append(1)
        logits = ops.one_hot(ops.full_like(tokens, 3), V) * 20.0
        return logits + ops.expand_dims(ends, 1) * ops.one_hot(ops.full_like(tokens, END), V), cache

    cache = {"row": ops.arange(3, dtype="int32")}
    tokens, total = search(step, cache, 50)
    np.testing.assert_array_equal(
        to_numpy(tokens)[:, :4], [[1, 0, 0, 0], [3, 1, 0, 0], [3, 3, 1, 0]]
    )
    assert not to_numpy(tokens)[:, 4:].any() and tokens.shape == (3, 50)
    np.testing.assert_allclose(to_numpy(total), 0, atol=1e-5)
    if keras.backend.backend() != "jax":  # which traces the body even outside of jit
        assert len(seen) == 3


def test_other_special_tokens():
    table = np.full((V, V), -9.0, "float32")
    table[3, 1], table[1, 0], table[0, 2], table[:, 3] = 0, 0, 0, 5  # 3 would always win
    rows = ops.convert_to_tensor(table)
    for search in (greedy_search, beam_search):
        tokens, _ = search(
            lambda tokens, index, cache: (ops.take(rows, tokens, axis=0), cache),
            ops.zeros((1, 1)),
            5,
            start_id=3,
            end_id=2,
            padding_id=3,
        )
        assert to_numpy(tokens).tolist() == [[1, 0, 2, 3, 3]]


@pytest.mark.parametrize(
    "options", [{"attention": "softmax"}, {"universal": True, "adaptive": True}]
)
def test_log_probabilities_are_those_of_a_full_pass(options):
    keras.utils.set_random_seed(7)
    model = Transformer(9, 2, 12, 20, 2, **options)
    # Spread the logits, or an untrained model gives every source the same answer.
    model.token_embedding.set_weights([3 * w for w in model.token_embedding.get_weights()])
    source = np.random.default_rng(0).integers(2, 9, (4, 6))
    source[1, 3:], source[2] = 0, 0
    for search, options in ((greedy_search, {}), (beam_search, {"beam_width": 3})):
        tokens, total = search(model.step, model.start_cache(source, 6), 6, **options)
        tokens, total = to_numpy(tokens), to_numpy(total)
        want = token_log_probabilities(model, tokens, source).sum(1)
        np.testing.assert_allclose(total, want, atol=1e-4)
        assert np.isfinite(total).all()


@pytest.mark.parametrize("width", [1, 3])
def test_a_row_with_a_limit_of_its_own_decodes_alike_beside_longer_ones(width):
    limits = np.array([2, 5, 1, 4], "int32")
    rows, longest = len(limits), 5
    table, _, _ = random_model(rows, 3, length=longest)

    def search(chosen, length):
        _, step, cache = random_model(rows, 3, length=longest)
        cache = {name: ops.take(leaf, chosen, axis=0) for name, leaf in cache.items()}
        step, cache = with_limits(step, cache, limits[chosen])
        tokens, total = beam_search(step, cache, length, beam_width=width)
        return to_numpy(tokens), to_numpy(total)

    together, totals = search(np.arange(rows), longest)
    for row, limit in enumerate(limits):
        (alone,), (total,) = search(np.array([row]), int(limit))
        assert strip(together[row]) == strip(alone) and len(strip(alone)) <= limit
        assert totals[row] == pytest.approx(total)
        written = strip(alone)
        # A forced end costs nothing.
        own = written[:-1] if len(written) == limit else written
        assert total == pytest.approx(log_probability(table[row], own), abs=1e-5)


def test_bad_arguments_are_named():
    _, step, cache = random_model(2, seed=0)
    with pytest.raises(ValueError, match="beam_width=0"):
        beam_search(step, cache, L, beam_width=0)
    with pytest.raises(ValueError, match="alpha=-1"):
        beam_search(step, cache, L, alpha=-1)


@pytest.mark.parametrize("width,steps", [(None, 1 + 3), (1, 1 + 3), (2, 1 + (1 + 2 + 2))])
def test_steps_after_the_end_of_a_sequence_were_counted(width, steps):
    """One row ends at once, the other after three tokens; the first beam alone takes a step 0."""
    ends, counted = ops.convert_to_tensor([0, 2]), []
    rows = ends if width is None else ops.repeat(ends, width)

    def step(tokens, index, cache):
        edited(ops.ones((*ops.shape(tokens), 1, 1)), None)
        return 9.0 * ops.one_hot(ops.where(index < rows, 2, END), V), cache

    def count(weights, visible):
        counted.append(int(to_numpy(ops.sum(ops.cast(visible, "int32")))))
        return weights

    search = greedy_search if width is None else functools.partial(beam_search, beam_width=width)
    with editing(count):
        search(step, ops.zeros((2, 1)), 5)
    assert sum(counted) == steps
