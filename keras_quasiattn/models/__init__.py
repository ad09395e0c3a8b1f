"""Functional-API model builders."""

from keras_quasiattn.models.decoding import beam_search, greedy_search
from keras_quasiattn.models.sequence_crossentropy import SequenceCrossentropy
from keras_quasiattn.models.sizes import TRANSFORMER_SIZES
from keras_quasiattn.models.transformer import Transformer

__all__ = ["TRANSFORMER_SIZES", "SequenceCrossentropy", "Transformer", "beam_search", "greedy_search"]
