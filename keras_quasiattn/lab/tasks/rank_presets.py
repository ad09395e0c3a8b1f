"""The presets of `rank`, one per data set, with CoDA's settings."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.held_out import OWN_TABLE
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

# Without the mixture, whose log-probabilities would rank like the mean of its components.
MODELS = tuple(name for name in MODEL_OPTIONS if name != "mixture")


def _preset(
    summary: str, periods: int, every: int, data: Mapping[str, Any] | None = None, **model: Any
) -> Preset:
    """Return a preset that measures the validation MAP every `every` updates, about a pass."""
    options = by_model(**model)
    training = TrainingSettings(
        steps=periods * every,
        checkpoint_every=every,
        batch_size=64,
        learning_rate=3e-4,
        warmup_steps=0,
        schedule="constant",
        select="map",
    )
    return Preset(
        summary=summary,
        data={**DATA_OPTIONS, "questions": "both", **(data or {})},
        model={},
        training=training,
        by_model={name: options[name] for name in MODELS},
        unused=UNUSED_OPTIONS,
    )


PRESETS: dict[str, Preset] = {
    "wikiqa": _preset(
        "WikiQA, answer sentences, from files by hand", 20, 318, {"questions": "positive"}
    ),
    "wikiqa_original": _preset(
        "WikiQA, answer sentences, the original files by hand", 20, 318, {"questions": "positive"}
    ),
    "trecqa": _preset("TrecQA, answer sentences, TRAIN-ALL, from files by hand", 20, 834),
    "trecqa_train": _preset("TrecQA, answer sentences, TRAIN, from files by hand", 20, 73),
    "ubuntu_irc": _preset(
        "replies in #ubuntu, from annotated logs, by hand",
        5,
        1000,
        {"questions": "positive", "max_length": 100},
    ),
    "ubuntu": _preset(
        "Ubuntu Dialogue Corpus v2, from files by hand",
        20,
        5000,
        {"questions": "positive", "max_length": 160},
    ),
    "own": dataclasses.replace(
        _preset(
            "your own TSV, CSV or JSONL with the columns question, candidate and label (0 or 1)",
            20,
            200,
            {**OWN_TABLE, **OWN_IDS, "tokenizer": "words", "questions": "positive"},
            **OWN_MODEL,
        ),
        training=TrainingSettings(**OWN_TRAINING),
        with_vectors=WITH_VECTORS,
    ),
}
