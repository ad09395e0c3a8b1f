"""The presets of `programs`: generated problems, and a user's own problems."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.held_out import OWN_DATA
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.tasks.sequence_options import sequence_preset
from keras_quasiattn.lab.tasks.settings import TrainingSettings
from keras_quasiattn.sizes import TRANSFORMER_SIZES, TRANSFORMER_TRAINING

MODELS = ("transformer_coda", "transformer", "universal_coda", "universal")
# Pieces do not cross word boundaries, and the problems have only a few hundred distinct words.
_DATA = {"vocabulary_size": 2000}
# Greedy decoding, since only one answer is right.
_DECODING = {"beam_width": 1, "length_penalty": 0.0}


def _problems(train: int, validation: int, test: int) -> dict[str, Any]:
    return {
        **_DATA,
        "train_problems": train,
        "validation_problems": validation,
        "test_problems": test,
        "problem_seed": 0,
    }


def _preset(
    summary: str,
    data: Mapping[str, Any],
    transformer: Mapping[str, Any],
    training: TrainingSettings,
) -> Preset:
    return sequence_preset(
        summary,
        models=MODELS,
        data=data,
        transformer=transformer,
        training=training,
        universal_layers=TRANSFORMER_SIZES["universal_tiny"]["num_layers"],
        decoding=_DECODING,
    )


_SMALL = TrainingSettings(
    steps=4000,
    # About 120 problems; on average a problem has 23 words and its program 28 tokens.
    batch_size=4096,
    # Tensor2Tensor's rate for the tiny size, with a shorter warmup because there are fewer updates.
    learning_rate=TRANSFORMER_TRAINING["tiny"]["learning_rate"],
    warmup_steps=1000,
    checkpoint_every=500,
    average_checkpoints=3,
    label_smoothing=0.1,
)

PRESETS: dict[str, Preset] = {
    "generated": _preset(
        "AlgoLisp problems by rule: 20,000, Tensor2Tensor's tiny size; an hour or two on two cores",
        _problems(20_000, 1000, 2000),
        TRANSFORMER_SIZES["tiny"],
        _SMALL,
    ),
    "paper": _preset(
        "AlgoLisp problems by rule, as many as were published, and the paper's settings: "
        "tiny, 100,000 steps",
        _problems(79_214, 9352, 10_940),
        TRANSFORMER_SIZES["tiny"],
        TrainingSettings(
            steps=100_000,
            schedule="inverse_square_root",
            checkpoint_every=1000,
            average_checkpoints=8,
            **TRANSFORMER_TRAINING["tiny"],
        ),
    ),
    "own": _preset(
        "problems of your own, JSON lines in AlgoLisp's published form",
        {**_DATA, **OWN_DATA},
        TRANSFORMER_SIZES["tiny"],
        dataclasses.replace(_SMALL, average_checkpoints=1, select="sequence_accuracy", patience=3),
    ),
}
