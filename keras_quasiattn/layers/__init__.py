"""Keras layers: they hold weights, masks and configuration; `ops` computes the attention."""

from keras_quasiattn.attention.coda.attention import MultiHeadCoDA
from keras_quasiattn.attention.conflict import MultiHeadConflict
from keras_quasiattn.attention.context_guided import MultiHeadContextGuided
from keras_quasiattn.attention.differential import MultiHeadDifferential
from keras_quasiattn.attention.entmax import MultiHeadEntmax
from keras_quasiattn.attention.forgetting import MultiHeadForgetting
from keras_quasiattn.attention.gated import MultiHeadGated
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.attention.null_softmax import MultiHeadNullSoftmax
from keras_quasiattn.attention.relu import MultiHeadReLU
from keras_quasiattn.attention.sigmoid import MultiHeadSigmoid
from keras_quasiattn.attention.signed_softmax import MultiHeadSignedSoftmax
from keras_quasiattn.attention.softmax import MultiHeadSoftmax
from keras_quasiattn.attention.sparsemax import MultiHeadSparsemax
from keras_quasiattn.layers.adaptive_halting import AdaptiveHalting
from keras_quasiattn.layers.attention_flow import AttentionFlow
from keras_quasiattn.layers.bidirectional_attention_connector import BidirectionalAttentionConnector
from keras_quasiattn.layers.coda import CoDA
from keras_quasiattn.layers.conflict_attention import (
    AlignmentAttention,
    AttentionConflict,
    ConflictAttention,
)
from keras_quasiattn.layers.decomposable_attention import DecomposableAttention
from keras_quasiattn.layers.dot_attention import DotAttention
from keras_quasiattn.layers.factorization_machine import FactorizationMachine
from keras_quasiattn.layers.feed_forward import FeedForward
from keras_quasiattn.layers.gated_attention import GatedAttention
from keras_quasiattn.layers.gated_context_query_attention import GatedContextQueryAttention
from keras_quasiattn.layers.intra_sentence_attention import IntraSentenceAttention
from keras_quasiattn.layers.pooling import LocalAttention, MaskedPooling, SoftAttention
from keras_quasiattn.layers.position_signals import RelativePositionBias, StepSignal, TimingSignal
from keras_quasiattn.layers.span_pointers import AttentiveSpanPointer, RecurrentSpanPointer
from keras_quasiattn.layers.token_embedding import TokenEmbedding
from keras_quasiattn.layers.transformer_decoder import TransformerDecoder
from keras_quasiattn.layers.transformer_encoder import TransformerEncoder

__all__ = [
    "AdaptiveHalting",
    "AlignmentAttention",
    "AttentionConflict",
    "AttentionFlow",
    "AttentiveSpanPointer",
    "BidirectionalAttentionConnector",
    "CoDA",
    "ConflictAttention",
    "DecomposableAttention",
    "DotAttention",
    "FactorizationMachine",
    "FeedForward",
    "GatedAttention",
    "GatedContextQueryAttention",
    "IntraSentenceAttention",
    "LocalAttention",
    "MaskedPooling",
    "MultiHeadCoDA",
    "MultiHeadConflict",
    "MultiHeadContextGuided",
    "MultiHeadDifferential",
    "MultiHeadEntmax",
    "MultiHeadForgetting",
    "MultiHeadGated",
    "MultiHeadNullSoftmax",
    "MultiHeadQuasiAttention",
    "MultiHeadReLU",
    "MultiHeadSigmoid",
    "MultiHeadSignedSoftmax",
    "MultiHeadSoftmax",
    "MultiHeadSparsemax",
    "RecurrentSpanPointer",
    "RelativePositionBias",
    "SoftAttention",
    "StepSignal",
    "TimingSignal",
    "TokenEmbedding",
    "TransformerDecoder",
    "TransformerEncoder",
]
