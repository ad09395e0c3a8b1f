"""Keras layers: weights, masks and configuration around the functions in `ops`."""
