"""What a model attends to, for people to read."""

from keras_quasiattn.report.token_table import token_table

__all__ = ["token_table"]
