"""Dropping a stream at the end of `fit` waits for nothing."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import toy_task

from keras_quasiattn.lab.data import (
    evaluation_batches,
    evaluation_token_batches,
    token_batches,
    training_batches,
)
from keras_quasiattn.lab.training import train

COLUMNS = {"text": np.array([b"a", b"b c"], object)}
TOKENS = {"batch_tokens": 4, "length_multiple": 1, "encode": lambda batch, length: batch["text"]}
LENGTHS = np.array([1, 2])
STREAMS: dict[str, Callable[[], tf.data.Dataset]] = {
    "training_batches": lambda: training_batches(
        tf.data.Dataset.range(4).skip,
        **{"batch_size": 2, "seed": 1, "first_step": 0, "shuffle_buffer": 4},
        encode=lambda batch: batch,
    ),
    "evaluation_batches": lambda: evaluation_batches(
        tf.data.Dataset.range(4), batch_size=2, encode=lambda batch: batch
    ),
    "token_batches": lambda: token_batches(COLUMNS, LENGTHS, seed=1, first_step=0, **TOKENS),
    "evaluation_token_batches": lambda: evaluation_token_batches(COLUMNS, LENGTHS, **TOKENS),
}


@pytest.mark.parametrize("name", STREAMS)
def test_whoever_dropped_a_stream_waited_up_to_a_minute_for_its_tuner(name):
    """Dropping 60 iterators on a busy machine took 20 to 60 s for 4; without the tuner for none."""
    assert STREAMS[name]().options().autotune.enabled is False


def test_fit_was_silent_at_its_end_until_the_tuner_of_its_stream_awoke(tmp_path, monkeypatch):
    """The streams of any task, including one with data from elsewhere."""
    given: dict[str, Any] = {}

    class Seen(Exception):
        pass

    def fit(self, data, **options):
        given.update(training=data, validation=options["validation_data"])
        raise Seen

    monkeypatch.setattr(keras.Model, "fit", fit)
    with pytest.raises(Seen):
        train(toy_task.make(tmp_path), tmp_path / "run", progress=False)
    for stream in given.values():
        assert stream.options().autotune.enabled is False
