"""A call of compiled code, as a backend sees it: arrays, results and gradients.

It imports no compiler: GPUs need Triton, and CPUs Numba.
"""

import ast
import dataclasses
import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from keras_quasiattn.core.compiled.arrays import Arrays, empty
from keras_quasiattn.core.compiled.threads import Spread, over_cores

Tensor = Any
Shape = Sequence[Any]


class Call:
    """The options of one call: a frozen dataclass of numbers, texts, None and tuples of them.

    Its arrays are passed in order: those in `names`, which have gradients, then those in `masks`,
    which have none. They share the first axis B, except "full_mask" (masks, ...); "full_index" (B,)
    holds the index of the mask in it for each of B. `may_be_tensors` says whether a program that
    leaves this process may compute with tensors instead; if not, exporting it is an error that
    suggests `way_out`.
    """

    names: tuple[str, ...]
    masks: tuple[str, ...] = ()
    may_be_tensors: bool = True
    way_out: str = "call with training=False"

    def output_shapes(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """Return the shapes of the outputs, from the shapes of the arrays with gradients."""
        raise NotImplementedError

    def run(
        self,
        arrays: Arrays,
        upstreams: Arrays = (),
        out: Arrays | None = None,
        spread: Spread = over_cores,
    ) -> Arrays:
        """Return the outputs or, from their gradients, a gradient for each of `names`.

        They are written to `out`, if it is given. `spread` runs shares of the loops on threads.
        """
        if out is None:
            shapes = [x.shape for x in arrays[: len(self.names)]]
            out = empty(shapes if upstreams else self.output_shapes(shapes), arrays[0].dtype)
        if upstreams:
            self.backward(upstreams, arrays, out, spread)
        else:
            self.forward(arrays, out, spread)
        return out

    def forward(self, arrays: Arrays, out: Arrays, spread: Spread) -> None:
        """Write the outputs to `out`."""
        raise NotImplementedError

    def backward(self, upstreams: Arrays, arrays: Arrays, out: Arrays, spread: Spread) -> None:
        """Write a gradient for each of `names` to `out`."""
        raise NotImplementedError

    def with_tensors(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Compute the outputs with tensors of the backend."""
        raise NotImplementedError


def named(call: Call, arrays: Sequence[Any]) -> dict[str, Any]:
    """Return the arrays of a call by name."""
    return dict(zip((*call.names, *call.masks), arrays, strict=True))


def written(call: Call) -> str:
    """Return a call as text for `read`; `torch.compile` can trace this."""
    fields = tuple(getattr(call, one.name) for one in dataclasses.fields(call))  # type: ignore[arg-type]
    return f"{type(call).__module__} {type(call).__name__} {fields!r}"


@functools.cache
def read(text: str) -> Call:
    """Return the call that `written` wrote."""
    module, kind, fields = text.split(" ", 2)
    made: Call = getattr(import_module(module), kind)(*ast.literal_eval(fields))
    return made
