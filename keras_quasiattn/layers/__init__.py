"""Keras layers: weights, masks and configuration around the functions in `ops`."""

from keras_quasiattn.layers.coda import CoDA
from keras_quasiattn.layers.feed_forward import FeedForward
from keras_quasiattn.layers.masked_pooling import MaskedPooling
from keras_quasiattn.layers.multi_head_coda import MultiHeadCoDA
from keras_quasiattn.layers.multi_head_softmax import MultiHeadSoftmax
from keras_quasiattn.layers.step_signal import StepSignal
from keras_quasiattn.layers.timing_signal import TimingSignal
from keras_quasiattn.layers.token_embedding import TokenEmbedding
from keras_quasiattn.layers.transformer_decoder import TransformerDecoder
from keras_quasiattn.layers.transformer_encoder import TransformerEncoder

__all__ = [
    "CoDA",
    "FeedForward",
    "MaskedPooling",
    "MultiHeadCoDA",
    "MultiHeadSoftmax",
    "StepSignal",
    "TimingSignal",
    "TokenEmbedding",
    "TransformerDecoder",
    "TransformerEncoder",
]
