"""The attentions, one file each, and the contract by which others are added.

A file holds an attention's function, its options and its multi-head layer. `Attention` and
`ScoreAttention` define what options must offer, `MultiHeadQuasiAttention` is the layer, and
`register_attention` makes it known by name.
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
