"""The presets of `pairs` and `rank`, one per data set.

Models and learning rates are the papers'. Batch sizes, passes and the choice of the best checkpoint
are ours: CoDA's paper trains 50 passes in batches of 64, Conflict's about two passes over 20 times
the data.
"""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.attention_options import attention
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.tasks.preset import (
    ENCODER_OPTIONS,
    ENCODER_UNUSED,
    HELD_OUT,
    OWN_TABLE,
    WORD_OPTIONS,
    Preset,
    TrainingSettings,
    constant_rate,
    models_of,
)

_DATA: Mapping[str, Any] = {
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
_PLAIN: Mapping[str, Any] = {
    "intra_attention": False,
    "exact_match": False,
    "last_activation": "relu",
    "share_networks": True,
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

_MODELS: Mapping[str, Mapping[str, Any]] = {
    # As in the paper's equations: for word vectors of length 1 the outputs of F are so small that
    # the scaling by 1/units would make M nearly 0 everywhere.
    "decomposable_coda": {**_NETWORK, **_PLAIN, **attention("coda", scaling="none")},
    "decomposable": {**_NETWORK, **_PLAIN, **attention()},
    "mixture": {
        **_NETWORK,
        "plain_components": 2,
        "intra_components": 2,
        "objective": "exact",
        "estimator": "enumeration",
        "kl_weight": 1.0,
    },
    "siamese_both": _CONFLICT,
    "siamese_attention": _SIAMESE,
    "siamese_attentions": _SIAMESE,
    "siamese_conflict": _CONFLICT,
    "siamese_none": _SIAMESE,
    # One sequence needs no null token, and its vectors keep the length that the encoder gives them.
    # With dropout, the means of two texts would differ by chance: docs/guides/encoders.md.
    ENCODER: {**ENCODER_OPTIONS, "dropout": 0.0, "data.null_token": False, "data.unit_norm": False},
}
_UNUSED = {ENCODER: (*ENCODER_UNUSED, "null_token", "unit_norm")}
# By log-probability, a mixture would rank like the mean of its components.
_RANKING = {name: options for name, options in _MODELS.items() if name != "mixture"}
# On TrecQA with one seed, the checkpoint with the lowest loss had a MAP of .66, a later one .79.
_RANKING[ENCODER] = {**_MODELS[ENCODER], "training.select": "map", "training.passes": 2}
MODELS, RANK_MODELS = tuple(_MODELS), tuple(_RANKING)

# For a user's own data, often a few thousand rows: a smaller network that also reads differences,
# trained until the validation loss rises; docs/results/own_data.md lists what was tried. Words that
# occur in both texts are marked; see docs/results/controls.md.
_OWN_MODEL: Mapping[str, Any] = {
    "train_embedding": True,
    "units": 100,
    "num_layers": 1,
    "projection_dim": 100,
    "dropout": 0.4,
    "comparison": "difference",
    "exact_match": True,
}
# Unknown words with a single id would all align with each other, and most names and numbers are
# unknown.
_OWN_DATA: Mapping[str, Any] = {**OWN_TABLE, "unknown_ids": 100, "tokenizer": "words"}
# A few rows cannot train good vectors for all words, and make those of rare words worse. Frozen
# vectors allow a higher learning rate, because less can be memorized.
_WITH_VECTORS: Mapping[str, Mapping[str, Any]] = {
    model: {
        "model.train_embedding": False,
        "model.dropout": 0.2,
        "data.unknown_ids": 1,
        "training.checkpoint_every": 100,
        "training.learning_rate": 1e-3,
    }
    for model, options in _MODELS.items()
    if "train_embedding" in options
}


def _training(checkpoints: int, every: int, batch_size: int, **settings: Any) -> TrainingSettings:
    usual = {"learning_rate": 3e-4, "select": "accuracy", "patience": 5}
    return constant_rate(checkpoints * every, every, batch_size, **{**usual, **settings})


_OWN_TRAINING = _training(30, 50, 32, passes=15, patience=6, select="loss")


def _preset(
    summary: str, training: TrainingSettings, data: Mapping[str, Any] | None = None, **model: Any
) -> Preset:
    # Data sets have many pairs, and four passes over them take an encoder more than half an hour.
    by_model = models_of(_MODELS, {"training.passes": 2, **model})
    return Preset(summary, {**_DATA, **(data or {})}, {}, training, by_model, unused=_UNUSED)


def _ranking(
    summary: str,
    checkpoints: int,
    every: int,
    data: Mapping[str, Any] | None = None,
    questions: str = "positive",
) -> Preset:
    """Return a preset that measures the validation MAP every `every` updates, about a pass."""
    data = {**_DATA, "questions": questions, **(data or {})}
    training = _training(checkpoints, every, 64, select="map", patience=None)
    return Preset(summary, data, {}, training, models_of(_RANKING), unused=_UNUSED)


_QUORA = "Quora question pairs, asked the same or not"
_QUORA_TRAINING = _training(20, 2500, 64, learning_rate=1e-3)

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
    "quora": _preset(f"{_QUORA}, from TFDS (glue/qqp)", _QUORA_TRAINING, HELD_OUT),
    "quora_tsv": _preset(f"{_QUORA}, the original TSV by hand", _QUORA_TRAINING, HELD_OUT),
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
    "own": Preset(
        "your own TSV, CSV or JSONL with the columns first, second and label",
        {**_DATA, **_OWN_DATA},
        {},
        _OWN_TRAINING,
        {**models_of(_MODELS, _OWN_MODEL), ENCODER: _MODELS[ENCODER]},
        _WITH_VECTORS,
        _UNUSED,
    ),
}
RANK_PRESETS: dict[str, Preset] = {
    "wikiqa": _ranking("WikiQA, answer sentences, from files by hand", 20, 318),
    "wikiqa_original": _ranking("WikiQA, answer sentences, the original files by hand", 20, 318),
    "trecqa": _ranking(
        "TrecQA, answer sentences, TRAIN-ALL, from files by hand", 20, 834, questions="both"
    ),
    "trecqa_train": _ranking(
        "TrecQA, answer sentences, TRAIN, from files by hand", 20, 73, questions="both"
    ),
    "ubuntu_irc": _ranking(
        "replies in #ubuntu, from annotated logs, by hand", 5, 1000, {"max_length": 100}
    ),
    "ubuntu": _ranking(
        "Ubuntu Dialogue Corpus v2, from files by hand", 20, 5000, {"max_length": 160}
    ),
    "own": Preset(
        "your own TSV, CSV or JSONL with the columns question, candidate and label (0 or 1)",
        {**_DATA, "questions": "positive", **_OWN_DATA},
        {},
        _OWN_TRAINING,
        {**models_of(_RANKING, _OWN_MODEL), ENCODER: _RANKING[ENCODER]},
        _WITH_VECTORS,
        _UNUSED,
    ),
}
