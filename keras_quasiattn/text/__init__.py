"""Tokenizers that travel into the SavedModel."""

from keras_quasiattn.text.byte_tokenizer import ByteTokenizer

__all__ = ["ByteTokenizer"]
