"""The attentions, one file each, and the interface for adding others.

Each file holds an attention's function, its options and its multi-head layer. Options subclass
`Attention` or `ScoreAttention`, layers subclass `MultiHeadQuasiAttention`, and `register_attention`
registers a layer by name.
"""

from keras_quasiattn.attention.base import (
    ATTENTIONS,
    Attention,
    ScoreAttention,
    register_attention,
)
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention

__all__ = [
    "ATTENTIONS",
    "Attention",
    "MultiHeadQuasiAttention",
    "ScoreAttention",
    "register_attention",
]
