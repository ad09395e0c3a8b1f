"""Histograms of the attention matrices of any model, which show how saturated they are."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_quasiattn.attention.probe import probe, temperatures
from keras_quasiattn.attention.start import Start
from keras_quasiattn.core.recording import Recorded
from keras_quasiattn.extras import require

# Bins of [−1, 1]. Values outside, which an arctan gate can have, count in the outermost bin.
BINS = 40
NEAR = 0.1
_NEAR_BINS = round(NEAR * BINS / 2)


class AttentionFigures:
    """Histograms of a model's attention matrices over [−1, 1], on one fixed batch.

    They leave out masked pairs and NaN. Each measurement runs the model once, without dropout and
    in one graph. It does not affect training, except that gates with `inference="sample"` draw
    numbers. The graph is made again when a blend has ended, because the layers then compute less.
    """

    def __init__(self, model: keras.Model, inputs: Any) -> None:
        self._model = model
        tf = require("tensorflow", "tensorflow")
        self._inputs = keras.tree.map_structure(tf.convert_to_tensor, inputs)
        self._counted = tf.function(self._count)

    def measure(self) -> dict[str, dict[str, list[float]]]:
        """Measure the attention; return empty dictionaries for a model without attention."""
        # Keras has no public way to list the layers in a model
        starts = [one for one in self._model._flatten_layers() if isinstance(one, Start)]
        found = self._counted(self._inputs, tuple(one.is_finished for one in starts))
        counts = {name: count.numpy().tolist() for name, count in found.items()}
        scalars = {
            name: np.ravel(keras.ops.convert_to_numpy(value)).tolist()
            for name, value in temperatures(self._model).items()
        }
        return {"matrices": counts, "scalars": scalars}

    def _count(self, inputs: Any, finished: tuple[bool, ...]) -> dict[str, Any]:
        """Count the entries of each matrix; `finished` says which blends have ended."""
        _, maps = probe(self._model, inputs)
        counts: dict[str, Any] = {}
        for one in maps:
            for name, recorded in one.matrices.items():
                key = f"{one.layer}/{name}"
                counts[key] = counts.get(key, 0) + _histogram(recorded)  # (BINS,)
        return counts


def _histogram(recorded: Recorded) -> Any:
    import tensorflow as tf  # not `require`: AutoGraph warns about its calls

    values = tf.cast(recorded.values, tf.float32)  # (..., T, S), or (..., T) if pooled
    bins = tf.histogram_fixed_width_bins(values, (-1.0, 1.0), BINS)
    counted = tf.logical_not(tf.math.is_nan(values))
    if recorded.visible is not None:  # broadcasts to the bins
        counted = tf.logical_and(counted, recorded.visible)
    bins = tf.where(counted, bins, BINS)  # the others go to an extra bin, which is dropped
    return tf.math.bincount(tf.reshape(bins, (-1,)), minlength=BINS + 1, maxlength=BINS + 1)[:BINS]


def shares(counts: list[float]) -> dict[str, float]:
    """Return the shares of the entries that lie within 0.1 of −1, of 0 and of 1.

    >>> shares([3, *[0] * 38, 1])
    {'near_minus_one': 0.75, 'near_zero': 0.0, 'near_one': 0.25}
    """
    total, middle = max(sum(counts), 1), len(counts) // 2
    near = {
        "near_minus_one": counts[:_NEAR_BINS],
        "near_zero": counts[middle - _NEAR_BINS : middle + _NEAR_BINS],
        "near_one": counts[-_NEAR_BINS:],
    }
    return {name: sum(part) / total for name, part in near.items()}


def scalars_of(figures: Mapping[str, Mapping[str, list[float]]]) -> dict[str, float]:
    """Return a measurement as scalars: shares, densities, α and β per head, temperatures.

    >>> sorted(scalars_of(
    ...     {"matrices": {"a/gates": [0] * 39 + [4]}, "scalars": {"a/alpha": [1.0, 2.0]}}
    ... ))
    ['a/alpha/0', 'a/alpha/1', 'a/density']
    """
    found: dict[str, float] = {}
    for name, counts in figures["matrices"].items():
        layer, _, matrix = name.rpartition("/")
        if matrix == "gates":
            found[f"{layer}/density"] = shares(counts)["near_one"]
        else:
            found |= {f"{name}/{share}": value for share, value in shares(counts).items()}
    for name, values in figures["scalars"].items():
        if len(values) == 1:
            found[name] = values[0]
        else:
            found |= {f"{name}/{head}": value for head, value in enumerate(values)}
    return found
