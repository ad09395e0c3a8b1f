"""The presets of `translate`, `programs` and `mlu`, with settings from papers on each corpus."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.lab.tasks.attention_options import attention
from keras_quasiattn.lab.tasks.preset import OWN_DATA, SPLITS, Preset, TrainingSettings
from keras_quasiattn.sizes import TRANSFORMER_SIZES, TRANSFORMER_TRAINING

PROGRAM_MODELS = ("transformer_coda", "transformer", "universal_coda", "universal")
MODELS = (*PROGRAM_MODELS, "seq2seq_coda", "seq2seq_attention", "seq2seq")

# Tensor2Tensor's values. `length_penalty` is α.
DECODING_OPTIONS: Mapping[str, Any] = {"beam_width": 4, "length_penalty": 0.6, "extra_tokens": 100}
# Greedy decoding, since only one program is right.
_GREEDY = {"beam_width": 1, "length_penalty": 0.0}
_DATA: Mapping[str, Any] = {
    "vocabulary_size": 8000,
    # Tokens per side, including the end; Tensor2Tensor's limit. Longer training pairs are dropped
    # and other texts truncated, but `predict` rejects them.
    "max_length": 256,
    # As in `data.token_batches`; 8 gives about six shapes for sentences of up to 48 tokens.
    "length_multiple": 8,
    # As in `data.token_batches`: replicas share batches evenly if their number divides this.
    "row_multiple": 8,
}
# The best α and β differ between encoder and decoder heads: learned ones had the lowest
# perplexity in trials on Multi30k's validation data.
_CODA: Mapping[str, Any] = attention("coda", alpha="learned", beta="learned")
_RECURRENT: Mapping[str, Any] = {
    # Wider than the write-up's 100 units, which are too few for 8000 pieces, and with the dropout
    # that 29,000 training pairs need.
    **{"embedding_dim": 256, "units": 256, "num_layers": 1, "dropout": 0.3},
    # Recurrent models train at Adam's usual rate and overfit without early stopping.
    "training.schedule": "constant",
    "training.learning_rate": 1e-3,
    "training.warmup_steps": 0,
    "training.average_checkpoints": 1,
    "training.select": "loss",
    "training.patience": 5,
}


def _preset(
    summary: str,
    transformer: Mapping[str, Any],
    training: TrainingSettings,
    data: Mapping[str, Any],
    *,
    models: Sequence[str] = MODELS,
    universal_layers: int = 6,
    decoding: Mapping[str, Any] | None = None,
) -> Preset:
    """Return a preset; a Universal Transformer applies its block `universal_layers` times."""
    universal = {**transformer, "num_layers": universal_layers, "adaptive": False}
    by_model = {
        "transformer": {**transformer, **attention()},
        "transformer_coda": {**transformer, **_CODA},
        "universal": {**universal, **attention()},
        "universal_coda": {**universal, **_CODA},
        "seq2seq": _RECURRENT,
        "seq2seq_attention": {**_RECURRENT, **attention()},
        "seq2seq_coda": {**_RECURRENT, **_CODA},
    }
    return Preset(
        summary,
        {**_DATA, **data},
        {**DECODING_OPTIONS, **(decoding or {})},
        training,
        {model: by_model[model] for model in models},
    )


def _tensor2tensor(size: str, steps: int) -> TrainingSettings:
    """Return Tensor2Tensor's settings: a checkpoint per 1000 updates, the last 8 averaged."""
    return TrainingSettings(
        steps=steps, checkpoint_every=1000, average_checkpoints=8, **TRANSFORMER_TRAINING[size]
    )


# Size, dropout, rate, updates and tokens follow Wu et al. 2021, "Good for Misconceived Reasons",
# whose smallest Transformer is their best on Multi30k. They use twice as many tokens, on two
# devices, with early stopping.
_MULTI30K_SIZE = {
    "num_layers": 4,
    "hidden_dim": 128,
    "intermediate_dim": 256,
    "num_heads": 4,
    "dropout": 0.3,
}
_MULTI30K_TRAINING = TrainingSettings(
    steps=8000,
    batch_size=4096,
    learning_rate=5e-3,
    warmup_steps=2000,
    checkpoint_every=500,
    average_checkpoints=5,
    label_smoothing=0.1,
)

PRESETS: dict[str, Preset] = {
    "multi30k": _preset(
        "Multi30k, image descriptions, English to German, from files by hand",
        _MULTI30K_SIZE,
        _MULTI30K_TRAINING,
        {"source": "en", "target": "de"},
    ),
    "iwslt15_envi_part": _preset(
        "IWSLT'15 English to Vietnamese, talks, 10,000 training pairs, from files by hand",
        _MULTI30K_SIZE,
        _MULTI30K_TRAINING,
        {"source": "en", "target": "vi"},
    ),
    # As in CoDA's paper: Tensor2Tensor's settings, 50,000 updates, mean of the last checkpoints.
    "iwslt15_envi": _preset(
        "IWSLT'15 English to Vietnamese, talks, the paper's settings, from files by hand",
        TRANSFORMER_SIZES["base_single_gpu"],
        _tensor2tensor("base_single_gpu", 50_000),
        {"source": "en", "target": "vi", "vocabulary_size": 32_000},
    ),
    "ted_hrlr": _preset(
        "TED talks, Portuguese to English, Tensor2Tensor's transformer_small",
        TRANSFORMER_SIZES["small"],
        _tensor2tensor("small", 20_000),
        {"source": "pt", "target": "en"},
    ),
    # An update of 2048 tokens takes 0.8 to 1 s on two cores (results/translate.jsonl).
    "own": _preset(
        "your own two files, one text per line: --source FILE --target FILE; "
        "about a quarter of an hour on two cores",
        _MULTI30K_SIZE,
        dataclasses.replace(
            _MULTI30K_TRAINING,
            steps=2000,
            batch_size=2048,
            warmup_steps=500,
            checkpoint_every=200,
            average_checkpoints=1,
            select="loss",
            patience=5,
        ),
        OWN_DATA,
    ),
}


def _programs(
    summary: str, training: TrainingSettings, problems: Sequence[int] | None = None
) -> Preset:
    """Return a preset of `programs` for generated problems, so many per split, or own ones."""
    data = OWN_DATA
    if problems:
        counts = {f"{split}_problems": count for split, count in zip(SPLITS, problems, strict=True)}
        data = {**counts, "problem_seed": 0}
    return _preset(
        summary,
        TRANSFORMER_SIZES["tiny"],
        training,
        # Pieces do not cross word boundaries, and the problems have only a few hundred words.
        {"vocabulary_size": 2000, **data},
        models=PROGRAM_MODELS,
        universal_layers=TRANSFORMER_SIZES["universal_tiny"]["num_layers"],
        decoding=_GREEDY,
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
PROGRAM_PRESETS: dict[str, Preset] = {
    "generated": _programs(
        "AlgoLisp problems by rule: 20,000, Tensor2Tensor's tiny size; an hour or two on two cores",
        _SMALL,
        (20_000, 1000, 2000),
    ),
    "paper": _programs(
        "AlgoLisp problems by rule, as many as were published, and the paper's settings: "
        "tiny, 100,000 updates",
        _tensor2tensor("tiny", 100_000),
        (79_214, 9352, 10_940),
    ),
    "own": _programs(
        "problems of your own, JSON lines in AlgoLisp's published form",
        dataclasses.replace(_SMALL, average_checkpoints=1, select="sequence_accuracy", patience=3),
    ),
}

_TINY = TRANSFORMER_SIZES["tiny"]
_UNIVERSAL_TINY = {"num_layers": TRANSFORMER_SIZES["universal_tiny"]["num_layers"]}
_MLU_VALIDATION = {"validation_examples": 2560}
_MLU_BY_MODEL = {
    "coda": attention("coda"),
    "softmax": attention(),
    "universal": {**_UNIVERSAL_TINY, **attention()},
    "universal_coda": {**_UNIVERSAL_TINY, **attention("coda")},
}
MLU_MODELS = tuple(_MLU_BY_MODEL)

MLU_PRESETS: dict[str, Preset] = {
    "demo": Preset(
        summary="sums and differences of numbers in [-100, 100); minutes on two cores",
        data={"low": -100, "high": 100, "operators": "+-", "forms": "all", **_MLU_VALIDATION},
        # Half the tiny size: it learns more in the same time.
        model={**_TINY, "hidden_dim": 64, "intermediate_dim": 256, "dropout": 0.0},
        by_model=_MLU_BY_MODEL,
        training=TrainingSettings(
            steps=2800,
            batch_size=256,
            learning_rate=5e-3,
            warmup_steps=100,
            schedule="cosine",
            checkpoint_every=400,
            jit_compile=True,
        ),
    ),
    "paper": Preset(
        summary="the paper's: + - * of numbers in [-1000, 1000), Tensor2Tensor's tiny size, "
        "100,000 updates",
        data={"low": -1000, "high": 1000, "operators": "+-*", "forms": "one", **_MLU_VALIDATION},
        model=_TINY,
        by_model=_MLU_BY_MODEL,
        training=TrainingSettings(
            steps=100_000,
            # Tensor2Tensor's batch has 4096 tokens; a question has about 20 and an answer 6.
            batch_size=160,
            learning_rate=2e-3,
            warmup_steps=8000,
            schedule="inverse_square_root",
            checkpoint_every=1000,
            average_checkpoints=8,
            label_smoothing=0.1,
        ),
    ),
}
