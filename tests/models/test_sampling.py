import keras
import numpy as np
import pytest
from keras import ops
from tools import to_numpy

from keras_quasiattn.models import sampling_search

V, ROWS, LENGTH = 6, 2000, 3
LOGITS = np.array([3.0, -1.0, 0.5, 0.0, 1.0, -0.5], "float32")  # of padding, the end, the rest


def step(tokens, index, cache):
    """Return the same logits at every position."""
    return ops.tile(ops.convert_to_tensor(LOGITS[None]), (ops.shape(tokens)[0], 1)), cache


def draw(rows=ROWS, **options):
    return [to_numpy(x) for x in sampling_search(step, ops.zeros((rows, 1)), LENGTH, **options)]


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "count"),
    [
        (1.0, None, None, 5),
        (0.5, None, None, 5),
        (2.0, 3, None, 3),
        (1.0, None, 0.8, 3),  # 0.51, 0.82, and what 0.8 needs at temperature 1 …
        (0.5, None, 0.8, 2),  # … and at 0.5
        (1.0, 2, 0.6, 1),  # of two tokens the first has 0.62; of all it has 0.45
        (1.0, 4, 1.0, 4),
        (1.0, None, 1e-9, 1),
    ],
)
def test_tokens_have_the_probabilities_of_the_model(temperature, top_k, top_p, count):
    tokens, _ = draw(seed=5, temperature=temperature, top_k=top_k, top_p=top_p)
    wanted = np.exp(LOGITS / temperature)
    wanted[0] = 0  # padding is never drawn
    for share, reached in ((top_k, len), (top_p, sum)):
        wanted /= wanted.sum()
        if share is not None:  # the fewest most likely tokens that reach the share
            order = np.argsort(-wanted)
            needed = next(n for n in range(1, V) if reached(wanted[order[:n]]) >= share - 1e-6)
            wanted[order[needed:]] = 0
    wanted /= wanted.sum()
    assert (wanted > 0).sum() == count
    for position in range(LENGTH):
        drawn = tokens[:, position][tokens[:, position] != 0]
        shares = np.bincount(drawn, minlength=V) / len(drawn)
        assert np.abs(shares - wanted).max() < 4 * (0.25 / len(drawn)) ** 0.5
        assert not shares[wanted == 0].any()


def test_positions_rows_and_calls_draw_independently_and_a_seed_repeats():
    tokens, total = draw(seed=5)
    np.testing.assert_array_equal(draw(seed=5)[0], tokens)
    generator = keras.random.SeedGenerator(5)
    generator.next()
    runs = [tokens, draw(seed=6)[0], draw(seed=generator)[0], draw(seed=generator)[0]]
    likely = np.sum((np.exp(LOGITS[1:]) / np.exp(LOGITS[1:]).sum()) ** 2)  # two draws are alike
    columns = [run[:, position] for run in runs for position in range(LENGTH)]
    for one in range(len(columns)):
        for other in range(one):
            both = (columns[one] != 0) & (columns[other] != 0)
            alike = (columns[one] == columns[other])[both].mean()
            assert abs(alike - likely) < 0.06
    # The sum of the model's own log-probabilities, up to the end.
    log_probabilities = LOGITS - np.log(np.exp(LOGITS).sum())
    np.testing.assert_allclose(total, (log_probabilities[tokens] * (tokens != 0)).sum(1), rtol=1e-4)
    ended = (tokens == 1).argmax(1)[(tokens == 1).any(1)]
    rows = tokens[(tokens == 1).any(1)]
    assert not rows[np.arange(LENGTH) > ended[:, None]].any()


def test_tokens_as_likely_as_the_last_may_be_drawn_and_rare_ones_at_one():
    """`top_p` does not choose among equal tokens, and rounding does not exclude a rare one."""

    def alike(tokens, index, cache):
        return ops.zeros((ROWS, V)), cache

    tokens, _ = sampling_search(alike, ops.zeros((ROWS, 1)), 1, seed=0, top_p=0.3)
    assert set(to_numpy(tokens)[:, 0]) == {1, 2, 3, 4, 5}

    def rare(tokens, index, cache):
        logits = np.array([0.0, 40.0, 20.0, *[0.0] * 3], "float32")
        return ops.tile(ops.convert_to_tensor(logits[None]), (8, 1)), cache

    every = [
        to_numpy(
            sampling_search(rare, ops.zeros((8, 1)), 1, seed=0, temperature=3.0, top_p=top_p)[0]
        )
        for top_p in (None, 1, 1.0)
    ]
    np.testing.assert_array_equal(every[0], every[1])
    np.testing.assert_array_equal(every[0], every[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"temperature": one}, f"`temperature` must be a finite number above 0.*={one}")
            for one in (0, float("inf"))  # infinity would make padding NaN, and choose it
        ),
        ({"top_k": 0}, "top_k=0"),
        *(
            ({"top_p": top_p}, f"`top_p` must be None or a number above 0.*top_p={top_p!r}")
            for top_p in (0, -0.5, 1.1, float("nan"), "0.9", True)
        ),
        ({"seed": None}, "`seed` must be an integer.*seed=None"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        draw(rows=1, **{"seed": 0, **options})
