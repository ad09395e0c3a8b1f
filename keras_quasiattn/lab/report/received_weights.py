"""The weight that each token receives, for models whose answers have no weights per token."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_quasiattn.attention.probe import probe
from keras_quasiattn.lab.tasks.task import Task


def with_received(task: Task, model: keras.Model, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer with the mean weight that every token receives in the last attention layer.

    The mean is over heads and attending positions. It describes one layer and does not explain the
    answer; a report shows the matrices of all layers.
    """
    if "weights" in answer:
        return dict(answer)
    texts = task.tokenize([answer["input"]])
    (tokens,) = next(iter(texts.tokens.values()))
    _, maps = probe(model, texts.argument)
    for one in reversed(maps):
        recorded = one.matrices.get("weights")
        if recorded is None or len(recorded.values.shape) < 3 or not tokens:
            continue
        # (1, ..., N, T, S), without padding
        values = keras.ops.convert_to_numpy(keras.ops.cast(recorded.values, "float32"))[0]
        values = values.reshape((-1, *values.shape[-2:]))[:, : len(tokens), : len(tokens)]
        source = f"weights received in {one.layer}, mean of {len(values)} heads"
        weights = np.mean(values, axis=(0, 1)).tolist()
        return {**answer, "tokens": tokens, "weights": weights, "weights_of": source}
    return dict(answer)
