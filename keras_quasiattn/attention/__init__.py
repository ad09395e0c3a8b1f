"""The attentions, one file each (function, options, multi-head layer), and how to add others."""

from keras_quasiattn.attention.base import ATTENTIONS, Attention, ScoreAttention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention

__all__ = [
    "ATTENTIONS",
    "Attention",
    "MultiHeadQuasiAttention",
    "ScoreAttention",
    "register_attention",
]
