"""Masks, precision, scores, randomness and tiling of tensors, with one module per backend."""
