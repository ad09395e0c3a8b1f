"""What one call of the compiled loops computes: the part that is the same for every backend."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_quasiattn.attention.coda.compiled.passes import Passes, Settings
from keras_quasiattn.attention.coda.compiled.threads import Spread, over_cores

__all__ = ["Call", "Settings"]

Array = np.ndarray
Shape = Sequence[Any]


class Call(NamedTuple):
    """The options of a call and the names of its arrays, which follow in that order.

    Args:
        settings: the options.
        names: the arrays that have gradients, by their names in `Passes`.
        masks: the arrays that have none.
        may_be_tensors: whether a program that leaves this process may compute the same with
            tensors, as "auto" does; otherwise it is an error.
    """

    settings: Settings
    names: tuple[str, ...]
    masks: tuple[str, ...]
    may_be_tensors: bool

    def output_shapes(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """Return the shapes of the outputs, from those of the arrays with gradients."""
        of = dict(zip(self.names, shapes, strict=False))
        found = [(*of["beta"][:2], of["value"][2])]  # (B, T, V)
        if "other_value" in of:
            found.append((*of["value"][:2], of["other_value"][2]))  # (B, S, W)
        return found

    def forward(
        self,
        arrays: Sequence[Array],
        out: Sequence[Array] | None = None,
        spread: Spread = over_cores,
    ) -> Sequence[Array]:
        """Return the outputs, or write them to `out`."""
        return self._passes(arrays, spread).forward(out)

    def backward(
        self,
        upstreams: Sequence[Array],
        arrays: Sequence[Array],
        out: Sequence[Array] | None = None,
        spread: Spread = over_cores,
    ) -> Sequence[Array]:
        """Return a gradient for each of `names` from those of the outputs, or write it to `out`."""
        return self._passes(arrays, spread).backward(upstreams, self.names, out)

    def _passes(self, arrays: Sequence[Array], spread: Spread) -> Passes:
        named = dict(zip((*self.names, *self.masks), arrays, strict=True))
        return Passes(self.settings, named, spread)
