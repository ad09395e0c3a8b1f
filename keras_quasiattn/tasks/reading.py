"""Texts as a model receives them, for reports on what it does with them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Reading(NamedTuple):
    """A batch of texts with the token at every position of each side.

    Each side is padded to a different length, so the length of a matrix axis tells which side's
    tokens are along it.

    Args:
        inputs: the model's input: ids (B, length) by side; a model with one side takes the array.
        tokens: by side, a list of tokens for each text, without padding.
    """

    inputs: dict[str, np.ndarray]
    tokens: dict[str, list[list[str]]]

    @classmethod
    def of(cls, ids: Mapping[str, np.ndarray], tokens: Mapping[str, list[list[str]]]) -> "Reading":
        """The reading of padded ids; pads sides of equal length further, with 0, the padding id.

        >>> reading = Reading.of(
        ...     {"first": np.ones((1, 2), int), "second": np.ones((1, 2), int)}, {}
        ... )
        >>> [ids.tolist() for ids in reading.inputs.values()]
        [[[1, 1]], [[1, 1, 0]]]
        """
        padded: dict[str, np.ndarray] = {}
        for side, one in ids.items():
            taken = {other.shape[1] for other in padded.values()}
            extra = next(extra for extra in range(len(ids)) if one.shape[1] + extra not in taken)
            padded[side] = np.pad(one, ((0, 0), (0, extra)))  # (B, length + extra)
        return cls(padded, dict(tokens))

    @property
    def argument(self) -> dict[str, np.ndarray] | np.ndarray:
        """The model's input: the dictionary, or the array of the only side."""
        return self.inputs if len(self.inputs) > 1 else next(iter(self.inputs.values()))
