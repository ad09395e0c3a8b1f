"""The presets of `read`, one per data set, and its options."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.attention_options import attention
from keras_quasiattn.lab.tasks.preset import (
    HELD_OUT,
    OWN_DATA,
    WORD_OPTIONS,
    Preset,
    constant_rate,
    models_of,
)

_DATA: Mapping[str, Any] = {
    "tokenizer": "pieces",
    "vocabulary_size": 100_000,
    **WORD_OPTIONS,
    # In training the model reads one window of a passage, around the answer.
    "train_length": 200,
    # In prediction it reads windows that cover the whole passage. All windows of all passages
    # compete: their logits are normalized together.
    "max_length": 400,
    "stride": 200,
    # Longer questions are cut in training and rejected by `predict`.
    "question_length": 40,
    "answer_length": 16,
    "length_multiple": 1,
    "train_share": 1.0,
}
_READER: Mapping[str, Any] = {
    "embedding_dim": 100,
    "train_embedding": True,
    "character_units": 0,
    "character_dim": 20,
    "exact_match": True,
    "frequency": True,
    "units": 64,
    "dropout": 0.2,
}
_DECAPROP: Mapping[str, Any] = {
    **_READER,
    "num_layers": 3,
    "connectors": True,
    "use_intra": False,
    "factors": 32,
    "self_attention": "softmax",
    "final_connectors": True,
    "pointer": "recurrent",
    "attention_dropout": 0.0,
}
_MODELS: Mapping[str, Mapping[str, Any]] = {
    "attention_flow": _READER,
    "decaprop": {**_DECAPROP, **attention()},
    "decaprop_coda": {**_DECAPROP, **attention("coda")},
}
MODELS = tuple(_MODELS)


def _preset(
    summary: str, checkpoints: int, every: int, data: Mapping[str, Any] | None = None, **model: Any
) -> Preset:
    """Return a preset that measures the validation F1 every `every` updates and keeps the best."""
    training = constant_rate(checkpoints * every, every, 32, clip_norm=5.0, select="f1")
    return Preset(summary, {**_DATA, **(data or {})}, {}, training, models_of(_MODELS, model))


PRESETS: dict[str, Preset] = {
    "squad": _preset("SQuAD v1.1, as TFDS has it", 20, 2500, HELD_OUT, character_units=32),
    "squad_json": _preset(
        "SQuAD v1.1, the published JSON files by hand", 20, 2500, HELD_OUT, character_units=32
    ),
    "squad_lines": _preset(
        "SQuAD v1.1, a question a line, from files by hand", 20, 2500, HELD_OUT, character_units=32
    ),
    # An update takes 0.3 s for attention_flow, 0.6 to 0.8 s for the others
    # (benchmarks/results/pipeline.json).
    "squad_part": _preset(
        "SQuAD v1.1, a fixed fifth of its passages, for two cores, from files by hand",
        6,
        250,
        {
            **HELD_OUT,
            "train_share": 0.2,
            "validation_share": 0.02,
            "train_length": 150,
            "length_multiple": 10,
        },
        units=32,
        num_layers=2,
    ),
    "quasar_t": _preset(
        "Quasar-T, short passages, from files by hand", 20, 1000, {"tokenizer": "cased_pieces"}
    ),
    "quasar_t_long": _preset(
        "Quasar-T, long passages, from files by hand", 20, 1000, {"tokenizer": "cased_pieces"}
    ),
    "search_qa": _preset("SearchQA, from files by hand", 20, 3000),
    "own": _preset(
        "your own SQuAD-like .json, or .jsonl with question, context (or passages) and answers",
        20,
        200,
        {**OWN_DATA, "min_count": 1},
    ),
}
