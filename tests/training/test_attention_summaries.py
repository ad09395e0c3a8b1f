import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_quasiattn.core.recording import Recorded
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import AttentionSummaries
from keras_quasiattn.layers import GatedAttention, MultiHeadCoDA
from keras_quasiattn.models import swap_attention
from keras_quasiattn.report.attention_figures import (
    BINS,
    AttentionFigures,
    _histogram,
    shares,
)

IDS = np.array([[3, 4, 5, 0], [6, 7, 0, 0]], "int32")


@pytest.fixture(scope="module")
def model():
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 8, mask_zero=True)(ids)
    coda = MultiHeadCoDA(num_heads=2, key_dim=4, alpha="learned", name="coda")(x, x)
    model = keras.Model(ids, keras.layers.Dense(1)(GatedAttention(units=2, name="gated")(coda)))
    model.compile("sgd", "mse")
    return model


def drawn(folder):
    (file,) = (folder / "tensorboard" / "attention").iterdir()
    events = EventAccumulator(str(file), size_guidance={"tensors": 0})
    events.Reload()
    return {tag: events.Tensors(tag) for tag in events.Tags()["tensors"]}


def test_counts_are_those_of_the_scores_at_real_pairs(model):
    counts = AttentionFigures(model, IDS).measure()["matrices"]["coda/weights"]
    embedded = model.layers[1](IDS)
    weights = np.asarray(
        model.get_layer("coda")(embedded, embedded, return_attention_scores=True)[1]
    )
    real = IDS != 0
    visible = np.broadcast_to(real[:, None, :, None] & real[:, None, None, :], weights.shape)
    expected, _ = np.histogram(weights[visible], bins=BINS, range=(-1, 1))
    assert counts == expected.tolist() and sum(counts) == 2 * (9 + 4)


def test_infinity_was_counted_as_minus_one_and_so_was_nan():
    values = tf.constant([[np.inf, 1e30, np.nan, -np.inf, 0.01]])
    counts = _histogram(Recorded(values, None, "weights")).numpy().tolist()
    assert (counts[0], counts[BINS // 2], counts[-1], sum(counts)) == (1, 1, 2, 4)


def test_a_blend_that_has_ended_was_measured_as_before():
    x = keras.Input((4, 8))
    plain = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x))
    model = swap_attention(plain, "coda", start="blend")
    inputs = np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32")
    figures = AttentionFigures(model, inputs)
    before = figures.measure()["matrices"]
    (share,) = (one for one in model.weights if one.name == "share")
    share.assign(1)
    after = figures.measure()["matrices"]
    assert "attention/weights_start" in before and "attention/weights_start" not in after
    assert after == AttentionFigures(model, inputs).measure()["matrices"]


def test_figures_of_every_epoch_reach_tensorboard_and_the_file(model, tmp_path):
    def fit(start, epochs):
        callback = AttentionSummaries(tmp_path, IDS, steps_per_epoch=1, start=start)
        model.fit(
            IDS,
            np.ones((2, 1)),
            epochs=epochs,
            initial_epoch=start,
            verbose=0,
            callbacks=[callback],
        )

    fit(0, 3)
    fit(2, 4)  # the third epoch was undone by a kill
    rows = [json.loads(line) for line in (tmp_path / "attention.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    found = drawn(tmp_path)
    names = {
        "coda/weights/near_zero",
        "coda/alpha/1",
        "gated/density",
        "gated/temperature",
        "coda/similarity",
    }
    assert names <= set(found)
    for tag, events in found.items():
        assert [event.step for event in events] == [0, 1, 2, 3, 4], tag
    value = float(tf.make_ndarray(found["coda/gate/near_one"][-1].tensor_proto))
    assert value == pytest.approx(shares(rows[-1]["matrices"]["coda/gate"])["near_one"])


def test_the_first_row_was_that_of_another_training_in_the_folder(model, tmp_path):
    coda = model.get_layer("coda")
    for factor in (1.0, 9.0):
        coda.query_dense.kernel.assign(factor * coda.query_dense.kernel)
        callback = AttentionSummaries(tmp_path, IDS)
        model.fit(IDS, np.ones((2, 1)), verbose=0, callbacks=[callback])
        expected = AttentionFigures(model, IDS).measure()["matrices"]
    rows = [json.loads(line) for line in (tmp_path / "attention.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    assert rows[-1]["matrices"] == expected
    assert rows[0]["step"] == rows[1]["step"] - 1 > 0


def test_a_model_without_attention_leaves_nothing(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((2, 2))
    model.fit(x, x[:, :1], verbose=0, callbacks=[AttentionSummaries(tmp_path / "logs", x)])
    assert not (tmp_path / "logs").exists()


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "attention.jsonl").write_text("{")
    with pytest.raises(UserError, match=r"attention.jsonl is damaged"):
        AttentionSummaries(tmp_path, IDS)
