"""Tests specific to MultiHeadGated: gates of keys, their cost and metrics."""

import keras
import numpy as np
from layer_case import randomize
from test_gated_attention import MASK, B, D, T, arrays, normal

from keras_quasiattn.attention.gated import gates_uncounted
from keras_quasiattn.layers import MultiHeadGated, MultiHeadSoftmax


def test_multi_head_gates_close_keys():
    x, call = normal(B, T, D), {"attention_mask": MASK[:, None, :]}
    call["attention_bias"] = normal(2, T, T, seed=3)
    softmax = MultiHeadSoftmax(2, 3)
    softmax.build((None, None, D), (None, None, D))
    for threshold in (0.0, 0.5, 1.0):
        layer = MultiHeadGated(2, 3, threshold=threshold)
        layer.build((None, None, D), (None, None, D))
        randomize(layer)
        layer.gate_bias.assign(np.zeros((2, 1)))
        output, scores = arrays(layer(x, x, **call, return_attention_scores=True))
        open_keys = (scores > 0).any(axis=2)
        if threshold == 0:  # the weights after those of the gates are the projections
            softmax.set_weights(arrays([w.value for w in layer.weights[2:]]))
            np.testing.assert_allclose(output, arrays(softmax(x, x, **call))[0], atol=1e-5)
        elif threshold == 1:
            np.testing.assert_array_equal(open_keys.sum(-1)[:2], 1)
        else:
            assert 0 < open_keys[0].mean() < 1
            # A key is open for every query of a head, or for none.
            np.testing.assert_array_equal((scores > 0).all(axis=2), open_keys)
        np.testing.assert_allclose(scores.sum(-1)[:2], 1, atol=1e-5)


def test_an_answer_of_an_export_was_counted_behind_a_dropout():
    """The dropout sets `training` to False for the layers after it."""
    x = keras.Input((T, D))
    hidden, layer = keras.layers.Dropout(0.1)(x), MultiHeadGated(2, 3, open_gate_cost=0.5)
    model = keras.Model(x, layer(hidden, hidden))
    with gates_uncounted():
        model(normal(B, T, D))
    assert not model.losses and all(float(one.result()) == 0 for one in layer.gates.metrics)
    model(normal(B, T, D), training=False)
    assert model.losses


def test_a_batch_without_a_mask_counted_as_one_query():
    layer = MultiHeadGated(2, 3, open_gate_cost=0.5)
    x, found = normal(B, T, D), []
    for mask in (None, np.ones((B, T, T), bool)):
        for metric in layer.gates.metrics:
            metric.reset_state()
        layer(x, x, attention_mask=mask, training=False)
        found.append([float(metric.count) for metric in layer.gates.metrics])
    assert found[0] == found[1]
    no_queries = MultiHeadGated(2, 3, open_gate_cost=0.5)
    no_queries(x[:, :0], x, training=False)
    assert arrays(no_queries.losses) == [0]
    assert all(float(metric.count) == 0 for metric in no_queries.gates.metrics)


def test_multi_head_cost_and_metrics():
    layer = MultiHeadGated(2, 3, open_gate_cost=0.5, name="heads", seed=1)
    x = normal(B, T, D)
    layer(x, x, query_mask=MASK, value_mask=MASK, training=True)
    first = arrays(layer.losses)
    assert 0 < first[0] < 0.5
    if keras.backend.backend() != "jax":
        assert [metric.name for metric in layer.gates.metrics] == [
            "heads_density",
            "heads_open_gate_cost",
        ]
    # Padding of the queries and of the keys changes neither: the same draws, two positions more.
    longer = keras.ops.pad(x, ((0, 0), (0, 2), (0, 0)), constant_values=9)
    mask = np.pad(MASK, ((0, 0), (0, 2)))
    # KerasHub's layers pass a mask of the keys alone.
    for masks in ({"query_mask": mask, "value_mask": mask}, {"attention_mask": mask[:, None]}):
        wider = MultiHeadGated(2, 3, open_gate_cost=0.5, seed=1)
        wider.build((None, None, D), (None, None, D))
        wider.set_weights(arrays([w.value for w in layer.weights]))
        wider(longer, longer, **masks, training=True)
        np.testing.assert_allclose(arrays(wider.losses)[0], first[0], rtol=1e-5)
