"""The options of the model `encoder`, for the presets of all tasks that offer it."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.attention_options import attention

# Options of a vocabulary learned from the training texts; an encoder has its own.
UNUSED = ("tokenizer", "vocabulary_size", "min_count", "unknown_ids")


ENCODER_OPTIONS: Mapping[str, Any] = {
    "encoder": "",
    **attention(),
    "attention_start": "unchanged",
    "dropout": 0.1,
    "length_quantile": 0.99,
    "layer_decay": 1.0,
    "frozen_layers": 0,
    "lora_rank": 0,
    "data.max_length": 256,
    "data.length_multiple": 1,
    "training.batch_size": 32,
    "training.learning_rate": 1e-4,
    "training.warmup_steps": 20,
    "training.schedule": "linear",
    # Minimums: training takes at least 4 passes, with a checkpoint after at least half a pass.
    "training.steps": 200,
    "training.passes": 4,
    "training.checkpoint_every": 50,
    # On TREC, SST-2 and Quora the accuracy still rises when the loss does: docs/guides/encoders.md.
    "training.select": "accuracy",
    "training.patience": 3,
    "training.label_smoothing": 0.0,
    "training.beta_2": 0.999,
    "training.epsilon": 1e-7,
}
