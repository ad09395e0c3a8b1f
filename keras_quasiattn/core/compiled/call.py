"""What a backend must know of a call of compiled code: its arrays, its results and its gradients.

It imports no compiler: GPUs need Triton, and CPUs Numba.
"""

import ast
import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from keras_quasiattn.core.compiled.threads import Spread, over_cores

Array = np.ndarray
Tensor = Any
Shape = Sequence[Any]


class Call(Protocol):
    """A named tuple of numbers, texts, None and tuples of them: the options of one call.

    The arrays follow in the order of `names`, which have gradients, and `masks`, which have none.
    All have the same first axis B, but for a mask "full_mask" (masks, ...), of which "full_index"
    (B,) says where that of each of B is. `may_be_tensors` says whether a program that leaves this
    process may compute with tensors instead; otherwise it is an error that says `way_out`.
    """

    @property
    def way_out(self) -> str:
        """What to do instead of an export."""

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays with gradients."""

    @property
    def masks(self) -> tuple[str, ...]:
        """The arrays without gradients."""

    @property
    def may_be_tensors(self) -> bool:
        """Whether the same may be computed with tensors."""

    def __hash__(self) -> int:
        """Return the hash of the options."""

    def output_shapes(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """Return the shapes of the outputs, from those of the arrays with gradients."""

    def forward(
        self,
        arrays: Sequence[Array],
        out: Sequence[Array] | None = None,
        spread: Spread = over_cores,
    ) -> Sequence[Array]:
        """Return the outputs, or write them to `out`."""

    def backward(
        self,
        upstreams: Sequence[Array],
        arrays: Sequence[Array],
        out: Sequence[Array] | None = None,
        spread: Spread = over_cores,
    ) -> Sequence[Array]:
        """Return a gradient for each of `names` from those of the outputs, or write it to `out`."""

    def with_tensors(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the outputs, computed with tensors of the backend."""


def named(call: Call, arrays: Sequence[Any]) -> dict[str, Any]:
    """Return the arrays of a call by their names."""
    return dict(zip((*call.names, *call.masks), arrays, strict=True))


def written(call: Call) -> str:
    """Return a call as the text that `read` reads; `torch.compile` can trace this."""
    fields: Any = call
    return f"{type(call).__module__} {type(call).__name__} {tuple(fields)!r}"


@functools.cache
def read(text: str) -> Call:
    """Return the call that `written` wrote."""
    module, kind, fields = text.split(" ", 2)
    made: Call = getattr(import_module(module), kind)(*ast.literal_eval(fields))
    return made
