"""Model builders on the Keras functional API, with their losses and decoding."""

from keras_quasiattn.attention.coda.calibration import calibrate_attention
from keras_quasiattn.models.attention_flow_reader import AttentionFlowReader
from keras_quasiattn.models.blend_attention import BlendAttention
from keras_quasiattn.models.decaprop import DecaProp
from keras_quasiattn.models.decoding import (
    beam_search,
    greedy_search,
    sampling_search,
    with_limits,
    with_prompt,
)
from keras_quasiattn.models.losses import (
    RankingCrossentropy,
    SequenceCrossentropy,
    SpanCrossentropy,
)
from keras_quasiattn.models.mixture_classifier import MixtureClassifier
from keras_quasiattn.models.pair_classifier import PairClassifier
from keras_quasiattn.models.reader import best_spans
from keras_quasiattn.models.seq2seq import Seq2Seq
from keras_quasiattn.models.siamese_classifier import SiameseClassifier
from keras_quasiattn.models.swap_attention import swap_attention
from keras_quasiattn.models.text_classifier import TextClassifier
from keras_quasiattn.models.transformer import CausalTransformer, Transformer, TransformerClassifier
from keras_quasiattn.sizes import TRANSFORMER_SIZES, TRANSFORMER_TRAINING

__all__ = [
    "TRANSFORMER_SIZES",
    "TRANSFORMER_TRAINING",
    "AttentionFlowReader",
    "BlendAttention",
    "CausalTransformer",
    "DecaProp",
    "MixtureClassifier",
    "PairClassifier",
    "RankingCrossentropy",
    "Seq2Seq",
    "SequenceCrossentropy",
    "SiameseClassifier",
    "SpanCrossentropy",
    "TextClassifier",
    "Transformer",
    "TransformerClassifier",
    "beam_search",
    "best_spans",
    "calibrate_attention",
    "greedy_search",
    "sampling_search",
    "swap_attention",
    "with_limits",
    "with_prompt",
]
