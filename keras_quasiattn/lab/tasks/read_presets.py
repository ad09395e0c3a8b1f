"""The presets of `read`, one per data set, and its options."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.attention_options import attention
from keras_quasiattn.lab.tasks.held_out import HELD_OUT, OWN_DATA
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.tasks.settings import TrainingSettings
from keras_quasiattn.lab.tasks.word_options import WORD_OPTIONS

_DATA: Mapping[str, Any] = {
    "tokenizer": "pieces",
    "vocabulary_size": 100_000,
    **WORD_OPTIONS,
    # Words of a passage that the model reads at once in training. It reads one window of a longer
    # passage, around the answer.
    "train_length": 200,
    # The same in prediction. There it reads windows that cover the whole passage, each starting
    # `stride` words after the one before. All windows of all passages compete: their logits are
    # normalised together.
    "max_length": 400,
    "stride": 200,
    # Words of a question that the model reads. Longer questions are cut in training and rejected by
    # `predict`.
    "question_length": 40,
    # Maximum words of an answer.
    "answer_length": 16,
    "length_multiple": 1,
    # Share of the training passages to train on.
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
MODEL_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "attention_flow": _READER,
    "decaprop": {**_DECAPROP, **attention()},
    "decaprop_coda": {**_DECAPROP, **attention("coda")},
}
MODELS = tuple(MODEL_OPTIONS)


def _preset(
    summary: str,
    periods: int,
    every: int,
    data: Mapping[str, Any] | None = None,
    *,
    batch_size: int = 32,
    **model: Any,
) -> Preset:
    """Return a preset that measures the validation F1 every `every` updates and keeps the best."""
    training = TrainingSettings(
        steps=periods * every,
        checkpoint_every=every,
        batch_size=batch_size,
        learning_rate=1e-3,
        warmup_steps=0,
        schedule="constant",
        clip_norm=5.0,
        select="f1",
    )
    return Preset(
        summary=summary,
        data={**_DATA, **(data or {})},
        model={},
        training=training,
        by_model={
            name: {option: model.get(option, value) for option, value in options.items()}
            for name, options in MODEL_OPTIONS.items()
        },
    )


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
