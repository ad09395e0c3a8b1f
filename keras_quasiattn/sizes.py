"""Sizes and training settings of `Transformer`, named as in Tensor2Tensor."""

from typing import Any

_TINY = {"hidden_dim": 128, "intermediate_dim": 512, "num_heads": 4, "dropout": 0.1}
_BASE = {"hidden_dim": 512, "intermediate_dim": 2048, "num_heads": 8, "dropout": 0.1}

# Constructor arguments of `Transformer`.
TRANSFORMER_SIZES: dict[str, dict[str, Any]] = {
    "tiny": {**_TINY, "num_layers": 2},
    "small": {
        "num_layers": 2,
        "hidden_dim": 256,
        "intermediate_dim": 1024,
        "num_heads": 4,
        "dropout": 0.1,
    },
    "base": {**_BASE, "num_layers": 6},
    "base_single_gpu": {**_BASE, "num_layers": 6},
    "universal_tiny": {**_TINY, "num_layers": 8, "universal": True},
    "adaptive_universal_tiny": {**_TINY, "num_layers": 4, "universal": True, "adaptive": True},
    "universal_small": {**_BASE, "num_layers": 6, "universal": True},
}


def _settings_for_size(size: str) -> dict[str, Any]:
    """Return settings with rate 2·hidden^-0.5 · min(1, s/8000) · max(s, 8000)^-0.5 at update s."""
    peak = 2 * (TRANSFORMER_SIZES[size]["hidden_dim"] * 8000) ** -0.5
    return {"batch_size": 4096, "learning_rate": peak, "warmup_steps": 8000, "label_smoothing": 0.1}


# Per size: tokens in a batch, peak rate and warmup of `training.schedules.WarmupSchedule` with
# "inverse_square_root" decay, and label smoothing.
TRANSFORMER_TRAINING: dict[str, dict[str, Any]] = {
    **{size: _settings_for_size(size) for size in ("tiny", "small", "base")},
    # The rate is 0.1 · min(1, s/16000) · max(s, 16000)^-0.5 at update s.
    "base_single_gpu": {
        "batch_size": 1024,
        "learning_rate": 0.1 * 16_000**-0.5,
        "warmup_steps": 16_000,
        "label_smoothing": 0.1,
    },
}
