"""Texts as a model is given them, so that what it does with them can be shown."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np


class Reading(NamedTuple):
    """A batch of one or more texts, with the tokens that stand at the positions of every side.

    Sides are padded to lengths of their own: the length of a matrix's axis then says whose tokens stand along it.

    Args:
        inputs: ids by side, (B, length) each, what the model is called with (a model of one side: with that array).
        tokens: by side a list of tokens for each text, without padding.
    """

    inputs: dict[str, np.ndarray]
    tokens: dict[str, list[list[str]]]

    @classmethod
    def of(cls, ids: Mapping[str, np.ndarray], tokens: Mapping[str, list[list[str]]]) -> Self:
        """The reading of padded ids (padding is 0 and changes nothing), further padded where lengths coincide.

        >>> reading = Reading.of({"first": np.ones((1, 2), int), "second": np.ones((1, 2), int)}, {})
        >>> [ids.tolist() for ids in reading.inputs.values()]
        [[[1, 1]], [[1, 1, 0]]]
        """
        padded: dict[str, np.ndarray] = {}
        for side, one in ids.items():
            taken = {other.shape[1] for other in padded.values()}
            extra = next(extra for extra in range(len(ids)) if one.shape[1] + extra not in taken)
            padded[side] = np.pad(one, ((0, 0), (0, extra)))
        return cls(padded, dict(tokens))

    @property
    def argument(self) -> dict[str, np.ndarray] | np.ndarray:
        """What the model is called with."""
        return self.inputs if len(self.inputs) > 1 else next(iter(self.inputs.values()))
