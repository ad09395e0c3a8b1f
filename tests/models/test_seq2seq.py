import functools

import numpy as np
import pytest
from test_writers import LEARNED, B, S, T, V, token_log_probabilities
from test_writers import ids as ids_of
from test_writers import make as make_of
from tools import to_numpy

from keras_quasiattn.models import Seq2Seq, beam_search, greedy_search

ATTENTIONS = {
    "none": {},
    "softmax": {"attention": "softmax"},
    "coda": {"attention": "coda"},
    "coda_centered": {"attention": "coda", "attention_options": LEARNED, "num_layers": 1},
}
every_attention = pytest.mark.parametrize("attention", ATTENTIONS)


def ids():
    return ids_of(Seq2Seq)


def make(attention, **changed):
    return make_of(Seq2Seq, **ATTENTIONS[attention], **changed)


@functools.cache
def made(attention):
    """Return a model that no test changes, and its logits."""
    model = make(attention)
    return model, to_numpy(model(ids()))


@every_attention
def test_both_ends_of_the_source_reach_the_answer(attention):
    (model, out), inputs = made(attention), ids()
    for position in (0, S - 1):
        source = inputs["source"].copy()
        source[0, position] = 2 + (source[0, position] - 1) % (V - 2)
        assert np.abs(to_numpy(model({**inputs, "source": source}))[0] - out[0]).max() > 1e-3


@every_attention
def test_searches_agree_with_each_other_and_with_the_full_pass(attention):
    (model, _), source = made(attention), ids()["source"]
    greedy, beam_of_one, beam = (
        [to_numpy(x) for x in search(model.step, model.start_cache(source, 6), 6, **arguments)]
        for search, arguments in (
            (greedy_search, {}),
            (beam_search, {"beam_width": 1, "alpha": 0.0}),
            (beam_search, {"beam_width": 3}),
        )
    )
    np.testing.assert_array_equal(greedy[0], beam_of_one[0])
    np.testing.assert_allclose(greedy[1], beam_of_one[1], atol=1e-5)
    assert len({tuple(row) for row in greedy[0].tolist()}) > 1
    for tokens, total in (greedy, beam):
        want = token_log_probabilities(model, tokens, source).sum(1)
        np.testing.assert_allclose(total, want, atol=1e-4)
    alone = beam_search(model.step, model.start_cache(source[1:2, :4], 6), 6, beam_width=3)
    np.testing.assert_array_equal(to_numpy(alone[0])[0], beam[0][1])


@every_attention
def test_explained_logits_are_those_of_the_model(attention):
    model, inputs = make(attention, dropout=0.5), ids()
    answer = {name: to_numpy(value) for name, value in model.explain(**inputs).items()}
    np.testing.assert_allclose(answer["logits"], to_numpy(model(inputs)), atol=1e-6)
    assert ("weights" in answer) == (attention != "none")
    if attention != "none":
        weights = answer["weights"]
        assert weights.shape == (B, T, S)
        pairs = (inputs["target"] != 0)[:, :, None] & (inputs["source"] != 0)[:, None]
        assert not weights[~pairs].any() and np.abs(weights[pairs]).min() > 0
    if attention == "softmax":
        np.testing.assert_allclose(weights.sum(-1), pairs.any(-1), atol=1e-5)


def test_sizes_are_those_of_the_write_up():
    plain, attending = Seq2Seq(V), Seq2Seq(V, attention="softmax")
    lstm = 4 * 100 * (100 + 100 + 1)
    assert plain.count_params() == 2 * V * 100 + 2 * lstm + 101 * V
    bridges, keys = 2 * 100 * 201, 200 * 100
    assert attending.count_params() == 2 * V * 100 + 3 * lstm + bridges + keys + 301 * V
