"""Exports of training runs, and models loaded from them."""
