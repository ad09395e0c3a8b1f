"""Run the compiled passes on all cores."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_quasiattn.attention.coda.compiled import attention
from keras_quasiattn.attention.coda.compiled.blocks import BLOCK_ROWS, Problem
from keras_quasiattn.attention.coda.compiled.call import CodaCall
from keras_quasiattn.attention.coda.compiled.elementwise import FUNCTION_CODES
from keras_quasiattn.core.compiled.arrays import empty, read_only, whole
from keras_quasiattn.core.compiled.threads import Spread
from keras_quasiattn.core.compiled.vectors import LANES

Array = np.ndarray

_COLUMNS = 256  # most columns of a block of M, so that its arrays fit the second-level cache
_PIECES = 8  # number of independent pieces to aim for if there are few batches and heads
_LOOPS: Any = attention  # compiled functions are untyped
GIVEN = Problem._fields[:10]  # the arrays with gradients
_OF_COLUMNS = ("key", "distance_key", "value")


class Passes:
    """The forward and backward pass over one set of arrays.

    `arrays` are named as in `Problem` and have one dtype, float32 or float64. Required are "value"
    (B, S, V) and "beta" (B, T, 1), and "alpha" (B, T, 1) if "query" is given. Masks are boolean:
    "key_mask" (B, 1, S or more), "row_mask" (B, T, 1), and "full_mask" (masks, T, S or more) with
    integers "full_index" (B,). `spread` runs shares of the loops on several threads.
    """

    def __init__(self, call: CodaCall, arrays: dict[str, Array], spread: Spread) -> None:
        value = arrays["value"]
        self.names, self.spread = call.names, spread
        self.arrays, self.dtype, self.batch = arrays, value.dtype.type, value.shape[0]
        self.target, self.source = arrays["beta"].shape[1], value.shape[1]
        blocks = max(1, -(-self.source // _COLUMNS))
        width = whole(-(-max(1, self.source) // blocks), LANES)
        most = whole(self.target, BLOCK_ROWS) // (4 * BLOCK_ROWS)
        self.chunks = max(1, min(-(-_PIECES // max(1, self.batch)), most))
        self.problem = Problem(
            **{name: read_only(arrays.get(name, self._nothing(name))) for name in GIVEN},
            **self._masks(),
            compares_same=call.compares_same,
            similarity_code=FUNCTION_CODES[call.similarity],
            gate_code=FUNCTION_CODES[call.gate],
            scale=self.dtype(call.scale),
            is_causal=call.is_causal,
            dropout_keys=read_only(arrays.get("dropout_keys", np.zeros(0, np.int32))),
            dropout_threshold=np.uint32(round(call.dropout * (1 << 24))),
            kept_factor=self.dtype(1 / (1 - call.dropout)),
            chunks=self.chunks,
            width=width,
        )

    def _nothing(self, name: str) -> Array:
        """Return an unused array: no features."""
        length = self.source if name in _OF_COLUMNS else self.target
        return np.zeros((self.batch, length, 0), self.dtype)

    def _masks(self) -> dict[str, Array]:
        arrays = self.arrays
        row_mask, key_mask = np.zeros((0, 0), np.uint8), np.zeros((0, 0), np.uint8)
        full_mask, full_index = np.zeros((0, 0, 0), np.uint8), np.zeros(0, np.int64)
        if "row_mask" in arrays:
            row_mask = arrays["row_mask"][..., 0].astype(np.uint8)
        if "key_mask" in arrays and not arrays["key_mask"][..., : self.source].all():
            key_mask = arrays["key_mask"][:, 0, : self.source].astype(np.uint8)
        if "full_mask" in arrays:
            full_mask = arrays["full_mask"][..., : self.source].astype(np.uint8)
            full_index = arrays["full_index"].astype(np.int64)
            # A key that no query attends to is padding.
            if full_mask.shape[0]:
                seen = np.any(full_mask, axis=1)[full_index].astype(np.uint8)
                key_mask = seen & key_mask if key_mask.size else seen
        return {
            "key_mask": read_only(key_mask),
            "row_mask": read_only(row_mask),
            "full_mask": read_only(full_mask),
            "full_index": read_only(full_index),
        }

    def _result_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of results for the array `name`: one sum per chunk for columns."""
        length, features = self.problem._asdict()[name].shape[1:]
        return self.batch * (self.chunks if name in _OF_COLUMNS else 1), length, features

    def _run(self, loop: Callable[..., None], *arguments: Any) -> None:
        def share(first: int, count: int) -> None:
            loop(self.problem, first, count, *arguments)

        self.spread(share, self.problem.value.shape[0] * self.chunks)

    def forward(self, out: Sequence[Array]) -> None:
        """Write M · value (B, T, V), and any Mᵀ · other_value (B, S, W), to `out`."""
        shapes: list[tuple[int, ...]] = [
            (self.batch, self.target, self.problem.value.shape[2]),
            (self.batch * self.chunks, self.source, self.problem.other_value.shape[2]),
        ]
        given = dict(enumerate(out))
        found = self._results(shapes, given)
        self._run(_LOOPS.forward, *found)
        self._finish(found, given)

    def backward(self, upstreams: Sequence[Array], out: Sequence[Array]) -> None:
        """Write the gradients of `names` to `out`; `upstreams` are the results'."""
        g, g_other = (*upstreams, self._nothing("value"))[:2]
        given = {GIVEN.index(name): x for name, x in zip(self.names, out, strict=True)}
        found = self._results([self._result_shape(name) for name in GIVEN], given)
        self._run(_LOOPS.backward, read_only(g), read_only(g_other), tuple(found))
        self._finish(found, given)

    def _results(self, shapes: list[tuple[int, ...]], given: dict[int, Array]) -> list[Array]:
        """Return arrays of `shapes` for results: given ones where they fit, otherwise new ones."""
        fitting = {place: x for place, x in given.items() if x.shape == shapes[place]}
        missing = [place for place in range(len(shapes)) if place not in fitting]
        new = empty([shapes[place] for place in missing], self.dtype)
        made = fitting | dict(zip(missing, new, strict=True))
        return [made[place] for place in range(len(shapes))]

    def _finish(self, found: list[Array], given: dict[int, Array]) -> None:
        """Add up chunks, (B · chunks, S, features), in the given arrays (B, S, features)."""
        for place, target in given.items():
            if found[place] is not target:
                shape = self.batch, self.chunks, *target.shape[1:]
                np.sum(found[place].reshape(shape), 1, out=target)
