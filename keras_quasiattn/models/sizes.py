"""Named sizes of `Transformer`: constructor arguments after Tensor2Tensor's sets of the same names."""

from typing import Any

_TINY = {"hidden_dim": 128, "intermediate_dim": 512, "num_heads": 4, "dropout": 0.1}
_BASE = {"hidden_dim": 512, "intermediate_dim": 2048, "num_heads": 8, "dropout": 0.1}

TRANSFORMER_SIZES: dict[str, dict[str, Any]] = {
    "tiny": {**_TINY, "num_layers": 2},
    "small": {"num_layers": 2, "hidden_dim": 256, "intermediate_dim": 1024, "num_heads": 4, "dropout": 0.1},
    "base": {**_BASE, "num_layers": 6},
    "universal_tiny": {**_TINY, "num_layers": 8, "universal": True},
    "adaptive_universal_tiny": {**_TINY, "num_layers": 4, "universal": True, "adaptive": True},
    "universal_small": {**_BASE, "num_layers": 6, "universal": True},
}
