"""What a backend must know of a call of compiled code: its arrays, its results and its gradients.

It imports no compiler: GPUs need Triton, and CPUs Numba.
"""

import ast
import dataclasses
import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from keras_quasiattn.core.compiled.threads import Spread, over_cores

Array = np.ndarray
Tensor = Any
Shape = Sequence[Any]


class Call:
    """The options of one call: a frozen dataclass of numbers, texts, None and tuples of them.

    The arrays follow in the order of `names`, which have gradients, and `masks`, which have none.
    All have the same first axis B, but for a mask "full_mask" (masks, ...), of which "full_index"
    (B,) says where that of each of B is. `may_be_tensors` says whether a program that leaves this
    process may compute with tensors instead; otherwise it is an error that says `way_out`.
    """

    names: tuple[str, ...]
    masks: tuple[str, ...] = ()
    may_be_tensors: bool = True
    way_out: str = "call with training=False"

    def output_shapes(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """Return the shapes of the outputs, from those of the arrays with gradients."""
        raise NotImplementedError

    def forward(
        self,
        arrays: Sequence[Array],
        out: Sequence[Array] | None = None,
        spread: Spread = over_cores,
    ) -> Sequence[Array]:
        """Return the outputs, or write them to `out`."""
        raise NotImplementedError

    def backward(
        self,
        upstreams: Sequence[Array],
        arrays: Sequence[Array],
        out: Sequence[Array] | None = None,
        spread: Spread = over_cores,
    ) -> Sequence[Array]:
        """Return a gradient for each of `names` from those of the outputs, or write it to `out`."""
        raise NotImplementedError

    def with_tensors(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the outputs, computed with tensors of the backend."""
        raise NotImplementedError


def named(call: Call, arrays: Sequence[Any]) -> dict[str, Any]:
    """Return the arrays of a call by their names."""
    return dict(zip((*call.names, *call.masks), arrays, strict=True))


def written(call: Call) -> str:
    """Return a call as the text that `read` reads; `torch.compile` can trace this."""
    fields = tuple(getattr(call, one.name) for one in dataclasses.fields(call))  # type: ignore[arg-type]
    return f"{type(call).__module__} {type(call).__name__} {fields!r}"


@functools.cache
def read(text: str) -> Call:
    """Return the call that `written` wrote."""
    module, kind, fields = text.split(" ", 2)
    made: Call = getattr(import_module(module), kind)(*ast.literal_eval(fields))
    return made
