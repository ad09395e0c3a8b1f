"""What prompts may contain, and that reading one at once changes nothing."""

import functools
import itertools

import keras
import numpy as np
import pytest
from keras import ops
from tools import sampled, to_numpy

from keras_quasiattn.models import (
    CausalTransformer,
    Seq2Seq,
    Transformer,
    beam_search,
    greedy_search,
    sampling_search,
    with_limits,
    with_prompt,
)

V, LENGTH, END = 5, 6, 1
LONG = pytest.mark.long
CENTERED = {"gate_range": "centered", "center_similarity": True}
SEARCHES = {
    "greedy": (greedy_search, {}),
    "beam": (beam_search, {"beam_width": 3}),
    "sampling": (sampling_search, {"seed": 3, "top_k": 4, "top_p": 0.9}),
}
every_search = pytest.mark.parametrize("search", SEARCHES)


TABLE = 2.0 * np.random.default_rng(4).normal(size=(LENGTH, V, V, V)).astype("float32")


def table_step(tokens, index, cache):
    """Return logits that depend on the position and on the last two tokens."""
    place = (index * V + cache["before"]) * V + tokens
    flat = ops.convert_to_tensor(TABLE.reshape(-1, V))
    return ops.take(flat, place, axis=0), {"before": tokens}


def empty_cache(rows):
    return {"before": ops.zeros((rows,), dtype="int32")}


def log_probability(prompt, answer):
    """Return the log-probability of what follows the prompt, up to its end, by the definition."""
    total, tokens = 0.0, [0, END, *answer]
    for index in range(len(prompt), len(answer)):
        logits = TABLE[index, tokens[index], tokens[index + 1]].astype("float64")
        total += logits[answer[index]] - np.log(np.exp(logits).sum())
        if answer[index] == END:
            break
    return total


def greedy_answer(prompt):
    answer = list(prompt)
    while len(answer) < LENGTH:
        before, last = [0, END, *answer][-2:]
        answer.append(1 + int(TABLE[len(answer), before, last][1:].argmax()))
        if answer[-1] == END:
            break
    return answer


def best_answer(prompt, alpha=0.6):
    """Search all answers that begin with the prompt."""
    answers = []
    for count in range(1, LENGTH - len(prompt) + 1):
        for body in itertools.product([2, 3, 4], repeat=count - 1):
            last = range(1, V) if len(prompt) + count == LENGTH else [END]
            answers += [[*prompt, *body, token] for token in last]
    return max(
        answers,
        key=lambda answer: log_probability(prompt, answer) / ((5 + len(answer)) / 6) ** alpha,
    )


PROMPTS = [[3, 1, 2], [1], [4, 1], [1, 1, 1, 2], []]
WAYS = {
    "greedy": (greedy_search, {}, greedy_answer),
    "beam": (beam_search, {"beam_width": 200}, best_answer),
    "beam of one": (beam_search, {"beam_width": 1, "alpha": 0.0}, greedy_answer),
    "sampling": (sampling_search, {"seed": 1, "top_p": 1e-6}, greedy_answer),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_end_in_a_prompt_ends_nothing_and_padding_anywhere_is_left_out(way):
    """Each row is its whole prompt, then what by definition follows these tokens alone."""
    search, options, wanted = WAYS[way]
    padded = [[3, 1, 2, 0], [0, 0, 0, 1], [0, 4, 0, 1], [1, 1, 1, 2], [0, 0, 0, 0]]
    step, cache = with_prompt(table_step, empty_cache(5), padded)
    tokens, total = map(to_numpy, search(step, cache, LENGTH, **options))
    for row, prompt in enumerate(PROMPTS):
        want = wanted(prompt)
        assert tokens[row].tolist() == want + [0] * (LENGTH - len(want)), prompt
        assert total[row] == pytest.approx(log_probability(prompt, want), abs=1e-4)


@every_search
def test_a_prompt_that_fills_the_answers_is_all_of_them(search):
    search, options = SEARCHES[search]
    prompt = np.array([[2, 3, 1, 2, 4, 1]])

    def prefill(tokens, count, cache):
        assert to_numpy(tokens).tolist() == [[1, 2, 3, 1, 2, 4, 1]] and count == LENGTH
        return cache

    for read in (None, prefill):
        step, cache = with_prompt(table_step, empty_cache(1), prompt, prefill=read)
        tokens, total = search(step, cache, LENGTH, **options)
        np.testing.assert_array_equal(to_numpy(tokens), prompt)
        assert to_numpy(total).tolist() == [0]


def test_special_tokens_of_the_callers_choice():
    rows = ops.convert_to_tensor(np.roll(np.eye(V, dtype="float32"), 1, axis=1) * 9)  # n, n + 1 …
    read = []

    def prefill(tokens, count, cache):
        read.extend([to_numpy(tokens).tolist(), int(count)])
        return cache

    for search in (greedy_search, beam_search):
        step, cache = with_prompt(
            lambda tokens, index, cache: (ops.take(rows, tokens, axis=0), cache),
            ops.zeros((1, 1)),
            np.array([[4, 2, 4, 0]]),
            padding_id=4,
            prefill=prefill,
            start_id=3,
        )
        tokens, _ = search(step, cache, 6, start_id=3, end_id=2, padding_id=4)
        assert to_numpy(tokens).tolist() == [[2, 0, 1, 2, 4, 4]]
    assert read == [[[3, 2, 0, 4, 4]], 2] * 2


def test_a_limit_cuts_no_prompt_whichever_comes_first():
    prompt, limits = np.array([[3, 1, 2], [2, 0, 0]]), ops.convert_to_tensor([2, 3])
    limited = with_limits(table_step, empty_cache(2), limits)
    for step, cache in (
        with_limits(*with_prompt(table_step, empty_cache(2), prompt), limits),
        with_prompt(*limited, prompt),
    ):
        tokens = to_numpy(greedy_search(step, cache, LENGTH)[0])
        assert tokens[0].tolist() == [3, 1, 2, 1, 0, 0]
        assert tokens[1, 0] == 2 and END in tokens[1, 1:3] and not tokens[1, 3:].any()


MODELS = {
    "causal": lambda: CausalTransformer(9, 1, 12, 20, 2, attention_options=CENTERED),
    "causal conflict": lambda: CausalTransformer(
        9, 1, 12, 20, 2, attention="conflict", normalize_first=False
    ),
    "causal window": lambda: CausalTransformer(
        9, 1, 12, 20, attention=keras.layers.MultiHeadAttention(2, 5, sliding_window=3)
    ),
    "stack": lambda: Transformer(9, 1, 12, 20, 2, attention_options=CENTERED),
    "adaptive": lambda: Transformer(
        9, 2, 12, 20, 2, attention="forgetting", universal=True, adaptive=True
    ),
    "recurrent": lambda: Seq2Seq(9, None, embedding_dim=6, units=5),
    "recurrent coda": lambda: Seq2Seq(9, "coda", embedding_dim=6, units=5, num_layers=2),
}
SOURCE = np.random.default_rng(0).integers(2, 9, (4, 5)).astype("int32")
SOURCE[1, 3:] = 0
# Different lengths, padding on both sides and within, ends within and last.
PROMPT = np.array([[5, 1, 3, 4], [0, 0, 5, 3], [5, 0, 8, 1], [2, 7, 0, 0]], "int32")


@functools.cache
def made(name):
    """Return a model that no test changes, with spread logits, or all answers would be equal."""
    keras.utils.set_random_seed(5)
    model = MODELS[name]()
    if isinstance(model, Seq2Seq):
        model.set_weights([8 * w for w in model.get_weights()])
    else:
        model.token_embedding.set_weights([3 * w for w in model.token_embedding.get_weights()])
    return model


def answers(name, prompt, length, search, row=0, is_read_at_once=True, calls=None):
    """Return a model's answers for the sources from `row` on."""
    model, (search, options) = made(name), SEARCHES[search]
    rows = len(prompt)
    is_causal = isinstance(model, CausalTransformer)
    cache = model.start_cache(rows if is_causal else SOURCE[row : row + rows], length)

    def counted(tokens, index, cache):
        if calls is not None:
            calls.append(1)
        return model.step(tokens, index, cache)

    prefill = model.prefill if is_read_at_once else None
    step, cache = with_prompt(counted, cache, prompt, prefill=prefill)
    tokens, total = search(step, cache, length, **options)
    return to_numpy(tokens), to_numpy(total)


KINDS = ("causal", "stack", "adaptive", "recurrent coda")  # what differs in `prefill`
CASES = [
    *sampled(itertools.product(KINDS, SEARCHES), 4),
    *(pytest.param(name, "greedy", marks=LONG) for name in MODELS if name not in KINDS),
]


@pytest.mark.parametrize(("name", "search"), CASES)
def test_a_prompt_read_at_once_is_answered_as_one_read_step_by_step(name, search):
    calls = []
    tokens, total = answers(name, PROMPT, 6, search, calls=calls)
    want, want_total = answers(name, PROMPT, 6, search, is_read_at_once=False)
    np.testing.assert_array_equal(tokens, want)
    np.testing.assert_allclose(total, want_total, atol=1e-4)
    for row, given in zip(tokens, PROMPT, strict=True):
        given = given[given != 0]
        assert row[: len(given)].tolist() == given.tolist() and row[len(given)] != 0
    if keras.backend.backend() != "jax":  # which traces the loop once
        assert len(calls) <= 6 - 2  # the shortest prompt has two tokens


@pytest.mark.parametrize(
    ("name", "search"),
    [("causal", "beam"), ("causal", "sampling"), ("recurrent coda", "greedy")]
    + [pytest.param(name, "beam", marks=LONG) for name in MODELS if name != "causal"],
)
def test_padding_in_a_prompt_does_not_matter(name, search):
    """On either side and within, for a row alone and, if noise is equal in all rows, in a batch."""
    want = answers(name, np.array([[5, 3]]), 6, search, row=1)
    tokens, total = answers(name, np.array([[0, 5, 0, 3, 0]]), 6, search, row=1)
    np.testing.assert_array_equal(tokens, want[0])
    np.testing.assert_allclose(total, want[1], atol=1e-4)
    if search != "sampling":
        tokens, total = answers(name, PROMPT, 6, search)
        np.testing.assert_array_equal(tokens[1:2], want[0])
        np.testing.assert_allclose(total[1:2], want[1], atol=1e-4)


@every_search
def test_no_rows_and_no_columns(search):
    model, (search, options) = made("causal"), SEARCHES[search]
    tokens, total = model.generate(np.zeros((0, 3), "int32"), 4, search, **options)
    assert tuple(tokens.shape) == (0, 4) and tuple(total.shape) == (0,)
    want, _ = model.generate(np.zeros((1, 3), "int32"), 4, search, **options)
    tokens, _ = model.generate(np.zeros((1, 0), "int32"), 4, search, **options)
    np.testing.assert_array_equal(to_numpy(tokens), to_numpy(want))


@pytest.mark.parametrize(
    "name,search,xla",
    [
        ("causal", "beam", True),
        ("adaptive", "sampling", False),
        ("recurrent coda", "greedy", True),
        pytest.param("causal window", "sampling", False, marks=pytest.mark.complete),
        pytest.param("stack", "greedy", False, marks=pytest.mark.complete),
    ],
)
@pytest.mark.long
def test_one_graph_answers_prompts_of_all_lengths_alike(name, search, xla, jitted):
    """The lengths are known only where the graph runs; on TensorFlow the shapes too."""
    model, (search_of, options) = made(name), SEARCHES[search]

    def answer(source, prompt):
        is_causal = isinstance(model, CausalTransformer)
        cache = model.start_cache(ops.shape(prompt)[0] if is_causal else source, 7)
        step, cache = with_prompt(model.step, cache, prompt, prefill=model.prefill)
        return search_of(step, cache, 7, **options)

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        unknown = [tf.TensorSpec((None, None), tf.int32)] * 2
        compiled = tf.function(answer, jit_compile=xla, input_signature=None if xla else unknown)
    elif keras.backend.backend() == "jax":
        import jax

        compiled = jax.jit(answer)
    else:
        pytest.skip("PyTorch runs the searches op by op.")
    for prompt in (PROMPT, np.where(PROMPT == 8, 0, PROMPT), np.zeros_like(PROMPT)):
        tokens, total = compiled(*map(ops.convert_to_tensor, (SOURCE, prompt)))
        want, want_total = answers(name, prompt, 7, search)
        np.testing.assert_array_equal(to_numpy(tokens), want)
        np.testing.assert_allclose(to_numpy(total), want_total, atol=1e-4)
