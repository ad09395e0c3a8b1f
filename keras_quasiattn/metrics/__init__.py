"""Keras metrics."""
