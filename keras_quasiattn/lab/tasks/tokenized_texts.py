"""Texts in the form that a model receives, for reports."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf


class TokenizedTexts(NamedTuple):
    """A batch of texts as model inputs, with the token at every position of each side.

    Args:
        inputs: the model's input: ids (B, length) by side, and further inputs (B, length, ...) of a
            side, named "side_…"; a model with one input takes the array.
        tokens: by side, a list of tokens for each text, without padding.
    """

    inputs: dict[str, np.ndarray]
    tokens: dict[str, list[list[str]]]

    @property
    def argument(self) -> dict[str, np.ndarray] | np.ndarray:
        """The model's input: the dictionary, or the only array."""
        return self.inputs if len(self.inputs) > 1 else next(iter(self.inputs.values()))

    def blank(self) -> tuple["TokenizedTexts", dict[str, int]]:
        """Return padding instead of texts, with a separate length for each side, and these lengths.

        The shapes of the model's results then show which side an axis belongs to.

        >>> ids = np.ones((1, 4), int)
        >>> texts = TokenizedTexts({"first": ids, "second": ids}, {"first": [], "second": []})
        >>> blank, lengths = texts.blank()
        >>> lengths, [ids.shape for ids in blank.inputs.values()]
        ({'first': 2, 'second': 3}, [(1, 2), (1, 3)])
        """
        lengths = {side: length for length, side in enumerate(self.tokens, start=2)}
        inputs = {
            name: np.zeros((1, lengths[name.partition("_")[0]], *ids.shape[2:]), ids.dtype)
            for name, ids in self.inputs.items()
        }
        return self._replace(inputs=inputs, tokens={}), lengths


def plain_tokens(rows: tf.RaggedTensor) -> list[list[str]]:
    """Return ragged tokens as lists of strings."""
    return [[token.decode("utf-8", "replace") for token in row] for row in rows.to_list()]
