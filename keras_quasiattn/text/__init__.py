"""Tokenizers that travel into the SavedModel."""
