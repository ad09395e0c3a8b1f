import keras
import numpy as np
import pytest
from keras import ops

from keras_quasiattn.models import greedy_search, sampling_search, with_prompt

V, ROWS, LENGTH = 6, 2000, 3
LOGITS = np.array([3.0, -1.0, 0.5, 0.0, 1.0, -0.5], "float32")  # of padding, the end, the rest


def numpy(x):
    return ops.convert_to_numpy(x)


def step(tokens, index, cache):
    """The same logits everywhere."""
    return ops.tile(ops.convert_to_tensor(LOGITS[None]), (ops.shape(tokens)[0], 1)), cache


def draw(rows=ROWS, **options):
    return [numpy(x) for x in sampling_search(step, ops.zeros((rows, 1)), LENGTH, **options)]


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.5, None), (2.0, 3)])
def test_tokens_have_the_probabilities_of_the_model(temperature, top_k):
    tokens, _ = draw(seed=5, temperature=temperature, top_k=top_k)
    wanted = np.exp(LOGITS / temperature)
    wanted[0] = 0  # padding is never drawn
    if top_k is not None:
        wanted[np.sort(LOGITS[1:])[-top_k] > LOGITS] = 0
    wanted /= wanted.sum()
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


def test_of_one_token_it_draws_what_greedy_search_takes():
    want, _ = greedy_search(step, ops.zeros((4, 1)), LENGTH)
    np.testing.assert_array_equal(draw(rows=4, seed=0, top_k=1)[0], numpy(want))


def test_a_prompt_is_neither_drawn_nor_counted():
    prompt = ops.convert_to_tensor([[3, 2], [3, 0], [0, 0], [5, 1]])
    prompted, cache = with_prompt(step, ops.zeros((4, 1)), prompt)
    tokens, total = map(numpy, sampling_search(prompted, cache, LENGTH, seed=1, top_k=3))
    assert tokens[0, :2].tolist() == [3, 2] and tokens[1, 0] == 3
    assert tokens[3, :2].tolist() == [5, 1] and tokens[3, 2] in (2, 3, 4)  # of the end, 3 likely
    assert (total < 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "`temperature` must be a number above 0.*temperature=0"),
        ({"top_k": 0}, "top_k=0"),
        ({"seed": None}, "`seed` must be an integer.*seed=None"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        draw(rows=1, **{"seed": 0, **options})
