"""The presets of `pairs`, one per data set.

Models and rates are the papers'. Batches, passes and the choice of the best checkpoint are ours:
CoDA's paper has batches of 64 and 50 passes, Conflict's about two passes over 20 times the data.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.held_out import HELD_OUT, OWN_TABLE
from keras_quasiattn.lab.tasks.pair_options import (
    DATA_OPTIONS,
    MODEL_OPTIONS,
    OWN_IDS,
    OWN_MODEL,
    OWN_TRAINING,
    UNUSED_OPTIONS,
    WITH_VECTORS,
    by_model,
)
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.tasks.settings import TrainingSettings

MODELS = tuple(MODEL_OPTIONS)


def _preset(
    summary: str, training: TrainingSettings, data: Mapping[str, Any] | None = None, **model: Any
) -> Preset:
    return Preset(
        summary=summary,
        data={**DATA_OPTIONS, **(data or {})},
        model={},
        training=training,
        by_model=by_model(**model),
        unused=UNUSED_OPTIONS,
    )


def _training(periods: int, every: int, batch_size: int, **settings: Any) -> TrainingSettings:
    usual = {"learning_rate": 3e-4, "warmup_steps": 0, "schedule": "constant", "select": "accuracy"}
    return TrainingSettings(
        steps=periods * every,
        checkpoint_every=every,
        batch_size=batch_size,
        **{**usual, "patience": 5, **settings},
    )


_QUORA = "Quora question pairs, asked the same or not"

PRESETS: dict[str, Preset] = {
    "snli": _preset("SNLI, 3 classes, from TFDS", _training(40, 8500, 32)),
    "snli_part": _preset(
        "a part of SNLI, 18,000 of 549,367 training pairs, from files by hand",
        _training(20, 560, 32),
    ),
    "multi_nli": _preset(
        "MultiNLI, 3 classes, matched validation, from TFDS", _training(40, 6100, 32)
    ),
    "scitail": _preset("SciTail, 2 classes, from TFDS", _training(50, 730, 32)),
    "dialogue_nli": _preset("Dialogue NLI, 3 classes, from files by hand", _training(40, 4800, 32)),
    "quora": _preset(
        f"{_QUORA}, from TFDS (glue/qqp)", _training(20, 2500, 64, learning_rate=1e-3), HELD_OUT
    ),
    "quora_tsv": _preset(
        f"{_QUORA}, the original TSV by hand", _training(20, 2500, 64, learning_rate=1e-3), HELD_OUT
    ),
    "quora_part": _preset(
        f"{_QUORA}, balanced; 18,991 of about 384,000 training pairs, from files by hand",
        _training(20, 148, 64, learning_rate=1e-3, patience=6),
    ),
    "click_log": _preset(
        "your own click log, a TSV with the columns query, question and ctr",
        _training(20, 500, 64, learning_rate=1e-3),
        OWN_TABLE,
        train_embedding=True,
    ),
    "own": dataclasses.replace(
        _preset(
            "your own TSV, CSV or JSONL with the columns first, second and label",
            TrainingSettings(**OWN_TRAINING),
            {**OWN_TABLE, **OWN_IDS, "tokenizer": "words"},
            **OWN_MODEL,
        ),
        with_vectors=WITH_VECTORS,
    ),
}
