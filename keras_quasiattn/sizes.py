"""Sizes and training settings of `Transformer`, named as in Tensor2Tensor."""

from typing import Any


def _size(num_layers: int, hidden_dim: int, num_heads: int, **others: bool) -> dict[str, Any]:
    sizes = {"hidden_dim": hidden_dim, "intermediate_dim": 4 * hidden_dim, "num_heads": num_heads}
    return {**sizes, "dropout": 0.1, "num_layers": num_layers, **others}


# Constructor arguments of `Transformer`.
TRANSFORMER_SIZES: dict[str, dict[str, Any]] = {
    "tiny": _size(2, 128, 4),
    "small": _size(2, 256, 4),
    "base": _size(6, 512, 8),
    "base_single_gpu": _size(6, 512, 8),
    "universal_tiny": _size(8, 128, 4, universal=True),
    "adaptive_universal_tiny": _size(4, 128, 4, universal=True, adaptive=True),
    "universal_small": _size(6, 512, 8, universal=True),
}


def _settings_for_size(size: str) -> dict[str, Any]:
    """Return settings with rate 2·hidden^-0.5 · min(1, s/8000) · max(s, 8000)^-0.5 at update s."""
    peak = 2 * (TRANSFORMER_SIZES[size]["hidden_dim"] * 8000) ** -0.5
    return {"batch_size": 4096, "learning_rate": peak, "warmup_steps": 8000, "label_smoothing": 0.1}


# Per size: tokens in a batch, peak rate and warmup of `training.optimizers.WarmupSchedule` with
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
