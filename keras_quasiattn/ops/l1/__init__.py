"""Pairwise L1 distances: their definition, and tiles that need no (T, S, D) tensor."""
