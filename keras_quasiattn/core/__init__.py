"""Tensors alone: masks, precision, scores, randomness, tiles; one module a backend."""
