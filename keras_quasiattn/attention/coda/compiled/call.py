"""What one call of compiled code computes: the part that is the same for every backend.

It imports no compiler: GPUs need Triton, and CPUs Numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_quasiattn.attention.coda.compiled.threads import Spread, over_cores

if TYPE_CHECKING:
    from keras_quasiattn.attention.coda.compiled.passes import Passes

Array = np.ndarray
Shape = Sequence[Any]


class Settings(NamedTuple):
    """The options of a layer, the same in every call.

    `similarity` and `gate` are names in `FUNCTION_CODES`, or None if M does not depend on E or N.
    With `compares_same`, N compares the same arrays as E, "query" and "key".
    """

    similarity: str | None
    gate: str | None
    scale: int
    is_causal: bool
    dropout: float
    compares_same: bool = False


class Call(NamedTuple):
    """The options of a call and the names of its arrays, which follow in that order.

    `names` have gradients, `masks` have none. `may_be_tensors` says whether a program that leaves
    this process may compute with tensors instead; otherwise it is an error.
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

    def named(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """Return the arrays by their names."""
        return dict(zip((*self.names, *self.masks), arrays, strict=True))

    def _passes(self, arrays: Sequence[Array], spread: Spread) -> Passes:
        from keras_quasiattn.attention.coda.compiled.passes import Passes

        return Passes(self.settings, self.named(arrays), spread)
