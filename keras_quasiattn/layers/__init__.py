"""Keras layers: they hold weights, masks and configuration; `ops` computes the attention."""

from keras_quasiattn.layers.adaptive_halting import AdaptiveHalting
from keras_quasiattn.layers.alignment_attention import AlignmentAttention
from keras_quasiattn.layers.attention_conflict import AttentionConflict
from keras_quasiattn.layers.attention_flow import AttentionFlow
from keras_quasiattn.layers.attentive_span_pointer import AttentiveSpanPointer
from keras_quasiattn.layers.bidirectional_attention_connector import BidirectionalAttentionConnector
from keras_quasiattn.layers.coda import CoDA
from keras_quasiattn.layers.conflict_attention import ConflictAttention
from keras_quasiattn.layers.decomposable_attention import DecomposableAttention
from keras_quasiattn.layers.dot_attention import DotAttention
from keras_quasiattn.layers.factorization_machine import FactorizationMachine
from keras_quasiattn.layers.feed_forward import FeedForward
from keras_quasiattn.layers.gated_attention import GatedAttention
from keras_quasiattn.layers.gated_context_query_attention import GatedContextQueryAttention
from keras_quasiattn.layers.intra_sentence_attention import IntraSentenceAttention
from keras_quasiattn.layers.local_attention import LocalAttention
from keras_quasiattn.layers.masked_pooling import MaskedPooling
from keras_quasiattn.layers.multi_head_coda import MultiHeadCoDA
from keras_quasiattn.layers.multi_head_conflict import MultiHeadConflict
from keras_quasiattn.layers.multi_head_context_guided import MultiHeadContextGuided
from keras_quasiattn.layers.multi_head_differential import MultiHeadDifferential
from keras_quasiattn.layers.multi_head_entmax import MultiHeadEntmax
from keras_quasiattn.layers.multi_head_forgetting import MultiHeadForgetting
from keras_quasiattn.layers.multi_head_gated import MultiHeadGated
from keras_quasiattn.layers.multi_head_null_softmax import MultiHeadNullSoftmax
from keras_quasiattn.layers.multi_head_relu import MultiHeadReLU
from keras_quasiattn.layers.multi_head_sigmoid import MultiHeadSigmoid
from keras_quasiattn.layers.multi_head_signed_softmax import MultiHeadSignedSoftmax
from keras_quasiattn.layers.multi_head_softmax import MultiHeadSoftmax
from keras_quasiattn.layers.multi_head_sparsemax import MultiHeadSparsemax
from keras_quasiattn.layers.recurrent_span_pointer import RecurrentSpanPointer
from keras_quasiattn.layers.relative_position_bias import RelativePositionBias
from keras_quasiattn.layers.soft_attention import SoftAttention
from keras_quasiattn.layers.step_signal import StepSignal
from keras_quasiattn.layers.timing_signal import TimingSignal
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
