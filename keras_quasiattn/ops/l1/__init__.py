"""Pairwise L1 distances: their definition, and tiles of them that make no (T, S, D) tensor."""
