"""Options shared by all presets of the sequence tasks, `translate` and `programs`."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.lab.tasks.attention_options import attention
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.tasks.settings import TrainingSettings

# Tensor2Tensor's values. `length_penalty` is α, and an answer may have `extra_tokens` more tokens
# than its text.
DECODING_OPTIONS: Mapping[str, Any] = {"beam_width": 4, "length_penalty": 0.6, "extra_tokens": 100}
DATA_OPTIONS: Mapping[str, Any] = {
    # Maximum number of pieces.
    "vocabulary_size": 8000,
    # Maximum tokens per side, including the end; Tensor2Tensor's limit. Longer training pairs are
    # dropped and other texts truncated, but `predict` rejects them.
    "max_length": 256,
    # As in `data.token_batches`; 8 gives about six shapes for sentences of up to 48 tokens.
    "length_multiple": 8,
    # As in `data.token_batches`: replicas share batches evenly if their number divides this.
    "row_multiple": 8,
}
# The best temperatures differ between encoder and decoder heads: learned ones had the lowest
# perplexity in trials on Multi30k's validation data.
_CODA: Mapping[str, Any] = attention("coda", alpha="learned", beta="learned")
UNIVERSAL_MODELS = ("universal", "universal_coda")
RECURRENT_MODELS = ("seq2seq", "seq2seq_attention", "seq2seq_coda")
# Recurrent models train at Adam's usual rate and overfit without early stopping.
_RECURRENT: Mapping[str, Any] = {
    "training.schedule": "constant",
    "training.learning_rate": 1e-3,
    "training.warmup_steps": 0,
    "training.average_checkpoints": 1,
    "training.select": "loss",
    "training.patience": 5,
}


def sequence_preset(
    summary: str,
    *,
    models: Sequence[str],
    data: Mapping[str, Any],
    transformer: Mapping[str, Any],
    training: TrainingSettings,
    universal_layers: int = 6,
    seq2seq: Mapping[str, Any] | None = None,
    decoding: Mapping[str, Any] | None = None,
) -> Preset:
    """Return a preset of a sequence task.

    Args:
        summary: one line that says what the preset is for.
        models: names of the task's models.
        data: data options that extend or override `DATA_OPTIONS`.
        transformer: the Transformer's sizes.
        training: the training settings; the recurrent models override some of them.
        universal_layers: times the Universal Transformer applies its block; 6 in Tensor2Tensor.
        seq2seq: the recurrent models' sizes.
        decoding: values that override `DECODING_OPTIONS`.
    """
    universal = {**transformer, "num_layers": universal_layers, "adaptive": False}
    recurrent = {**(seq2seq or {}), **_RECURRENT}
    by_model = {
        "transformer": {**transformer, **attention()},
        "transformer_coda": {**transformer, **_CODA},
        "universal": {**universal, **attention()},
        "universal_coda": {**universal, **_CODA},
        "seq2seq": recurrent,
        "seq2seq_attention": {**recurrent, **attention()},
        "seq2seq_coda": {**recurrent, **_CODA},
    }
    return Preset(
        summary=summary,
        data={**DATA_OPTIONS, **data},
        model={**DECODING_OPTIONS, **(decoding or {})},
        training=training,
        by_model={model: by_model[model] for model in models},
    )
