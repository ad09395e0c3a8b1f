"""Options shared by all presets of the tasks on two texts, `pairs` and `rank`."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.attention_options import attention
from keras_quasiattn.lab.tasks.encoder_options import ENCODER_OPTIONS, UNUSED
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.tasks.word_options import WORD_OPTIONS

DATA_OPTIONS: Mapping[str, Any] = {
    "tokenizer": "questions",
    "vocabulary_size": 100_000,
    **WORD_OPTIONS,
    "max_length": 50,
    "length_multiple": 1,
    "null_token": True,
    "unit_norm": True,
}
_NETWORK: Mapping[str, Any] = {
    "embedding_dim": 100,
    "train_embedding": False,
    "units": 200,
    "num_layers": 2,
    "projection_dim": 200,
    "dropout": 0.2,
    "attention_dropout": 0.0,
    "comparison": "concat",
}
_MIXTURE: Mapping[str, Any] = {
    **_NETWORK,
    "plain_components": 2,
    "intra_components": 2,
    "objective": "exact",
    "estimator": "enumeration",
    "kl_weight": 1.0,
}
_SIAMESE: Mapping[str, Any] = {
    "embedding_dim": 100,
    "train_embedding": True,
    "units": 150,
    "dropout": 0.2,
    # Recurrent encoders need no null token: they know where a text starts.
    "data.null_token": False,
    "data.unit_norm": False,
}
_CONFLICT: Mapping[str, Any] = {**_SIAMESE, "difference": "absolute"}

# As in the paper's equations: for word vectors of length 1 the outputs of F are so small that the
# scaling by 1/units would make M nearly 0 everywhere.
_CODA: Mapping[str, Any] = attention("coda", scaling="none")

# One sequence needs no token to align nothing to, and vectors of the encoder's own length.
_ENCODER: Mapping[str, Any] = {
    **ENCODER_OPTIONS,
    "data.null_token": False,
    "data.unit_norm": False,
}

MODEL_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "decomposable_coda": {**_NETWORK, "intra_attention": False, **_CODA},
    "decomposable": {**_NETWORK, "intra_attention": False, **attention()},
    "mixture": _MIXTURE,
    "siamese_both": _CONFLICT,
    "siamese_attention": _SIAMESE,
    "siamese_conflict": _CONFLICT,
    "siamese_none": _SIAMESE,
    ENCODER: _ENCODER,
}
# By model, the data options that do not matter to it.
UNUSED_OPTIONS: Mapping[str, tuple[str, ...]] = {ENCODER: (*UNUSED, "null_token", "unit_norm")}


# The interaction between the two texts in each model with recurrent encoders.
INTERACTIONS: Mapping[str, str] = {
    "siamese_both": "both",
    "siamese_attention": "attention",
    "siamese_conflict": "conflict",
    "siamese_none": "none",
}
# Models that mix several networks.
MIXTURES = ("mixture",)


# For data of a user's own, often a few thousand rows: a smaller network that reads differences too,
# trained until the validation loss rises. docs/results/own_data.md has what was tried.
OWN_MODEL: Mapping[str, Any] = {
    "train_embedding": True,
    "units": 100,
    "num_layers": 1,
    "projection_dim": 100,
    "dropout": 0.4,
    "comparison": "difference",
}
# Unknown words with a single id would all align with each other, and most names and numbers are
# unknown.
OWN_IDS: Mapping[str, Any] = {"unknown_ids": 100}
OWN_TRAINING: Mapping[str, Any] = {
    "steps": 1500,
    "checkpoint_every": 50,
    "passes": 15,
    "learning_rate": 3e-4,
    "warmup_steps": 0,
    "schedule": "constant",
    "batch_size": 32,
    "patience": 6,
    "select": "loss",
}
# A few rows cannot train good vectors for all words, and make the vectors of rare words worse.
# Frozen vectors allow a higher learning rate, because less can be memorized.
WITH_VECTORS: Mapping[str, Mapping[str, Any]] = {
    model: {
        "model.train_embedding": False,
        "model.dropout": 0.2,
        "data.unknown_ids": 1,
        "training.checkpoint_every": 100,
        "training.learning_rate": 1e-3,
    }
    for model, options in MODEL_OPTIONS.items()
    if "train_embedding" in options
}


def by_model(**changed: Any) -> dict[str, dict[str, Any]]:
    """Return the options of each model.

    `changed` replaces the values of the options that a model has.
    """
    return {
        model: {name: changed.get(name, value) for name, value in options.items()}
        for model, options in MODEL_OPTIONS.items()
    }
