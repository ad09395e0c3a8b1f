"""Operations that Keras lacks or computes badly on some backend; one module per backend.

- `absolute(x)`: |x|, with derivative 0 at 0.
- `add_rows(total, x)`: total + Σ_n x[n], in one pass over memory if the backend can.
- `arctan(x)`, `cos(x)`, `sin(x)`, `tanh(x)`, `maximum(x, y)`: elementwise, in the precision of
  their input.
- `cumsum(x)`: sums of the entries up to each, along the last axis, in the precision of its input.
- `functions_untraced()`: a context in which functions that the backend would trace, or has traced,
  run as plain Python.
- `in_turn(calls, inputs)`: the outputs of each call. If the backend would run calls at once, they
  run one at a time, forward and backward, so that only one call's tensors are in memory.
- `l1_distances(x, y)`, `l1_gradients(x, y, upstream)`: for (B, T, F) and (B, S, F), by a kernel of
  the backend; None if it has no such kernel, or if the kernel cannot serve this call.
- `keeps_loops(training)`: whether the computation may contain loops compiled for this process; a
  graph that may be exported, or run elsewhere, must not. `training()` says whether it is part of a
  training call; `torch.compile` cannot trace it.
- `known_content(x)`: `x` as an array, or None while it is traced, or on another device.
- `loop(lower, upper, body, start)`: `keras.ops.fori_loop` whose steps run one after the other.
- `map_tiles(function, count, tiles, shared)`: call function(index, **tile, **shared) for each index
  in turn and stack the results; the first axis of `tiles` has length `count`. The backward
  pass recomputes each tile.
- `may_branch(x)`: whether branching on the content of `x` is cheaper than computing both branches.
- `on_accelerator(x)`: whether `x` is, or will be, on a GPU or TPU.
- `obstacle_to_loops(x, features)`: why such loops cannot compute from `x` here, given the number of
  features of queries and values together; it completes "… cannot be exported"; None if they can.
- `put_row(rows, index, row)`: `rows` (n, m) with the row (m,) in place of row number `index`.
- `runs_op_by_op()`: whether every operation is a separate kernel call, not fused by a compiler.
  It decides how tiles are computed; results do not depend on it, up to rounding.
- `segment_sum(data, segment_ids, num_segments)`, `segment_max`: over rows with ascending ids. The
  maximum of a segment without rows differs between backends.
- `with_gradient(compute, gradient)`: the function compute(*tensors) → tuple of outputs, whose
  gradients are gradient(tensors, upstreams), a tuple with one for each tensor. The last tensors,
  such as masks, may have none. Neither function may capture a tensor, because JAX could not take
  the gradient of a compiled function, a loop or a rematerialized one.
- `needs_static_shapes(x)`: whether the code is traced for a compiler that must know all sizes, or
  mapped over examples, which must have the same.
"""

import contextlib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import keras

_backend = import_module(f"{__name__}.{keras.backend.backend()}")


def _put_row(rows: Any, index: Any, row: Any) -> Any:
    row = keras.ops.expand_dims(row, 0)
    if runs_op_by_op():
        return keras.ops.scatter_update(rows, keras.ops.reshape(index, (1, 1)), row)
    return keras.ops.slice_update(rows, (index, 0), row)


def _at_once(calls: Sequence[Callable[..., Any]], inputs: Sequence[Sequence[Any]]) -> list[Any]:
    return [call(*given) for call, given in zip(calls, inputs, strict=True)]


absolute = _backend.absolute
add_rows = _backend.add_rows
arctan = _backend.arctan
cos = _backend.cos
cumsum = _backend.cumsum
# Only on TensorFlow do models come with such functions.
functions_untraced = getattr(_backend, "functions_untraced", contextlib.nullcontext)
in_turn = getattr(_backend, "in_turn", _at_once)
# Tiles compute these themselves on TensorFlow and JAX.
l1_distances = getattr(_backend, "l1_distances", None)
l1_gradients = getattr(_backend, "l1_gradients", None)
keeps_loops = _backend.keeps_loops
known_content = _backend.known_content
loop = _backend.loop
map_tiles = _backend.map_tiles
may_branch = _backend.may_branch
maximum = _backend.maximum
on_accelerator = _backend.on_accelerator
needs_static_shapes = _backend.needs_static_shapes
obstacle_to_loops = _backend.obstacle_to_loops
put_row = getattr(_backend, "put_row", _put_row)
runs_op_by_op = _backend.runs_op_by_op
segment_max = _backend.segment_max
segment_sum = _backend.segment_sum
sin = _backend.sin
tanh = _backend.tanh
with_gradient = _backend.with_gradient
