"""What Keras' own operations lack, or do badly, on one of the backends; each has a module for what it needs.

- `arctan(x)`, `tanh(x)`, `maximum(x, y)`: elementwise, in the precision of their input.
- `add_all(tensors)`: the sum of a list, in one pass over memory where the backend can.
- `in_turn(calls, inputs)`: the outputs of each call, of which one has its tensors in memory at a time, backward as well.
- `loop(lower, upper, body, start)`: `keras.ops.fori_loop`, whose steps run one after the other.
- `runs_op_by_op()`: whether every operation is a kernel call of its own, rather than fused by a compiler. It decides
  how tiles are best made; results never depend on it.
- `segment_sum(data, segment_ids, num_segments)`, `segment_max`: over runs of rows, whose ids ascend.
- `needs_static_shapes(x)`: whether the code around is traced for a compiler that must know all sizes.
"""

from importlib import import_module

import keras

_backend = import_module(f"{__name__}.{keras.backend.backend()}")

add_all = _backend.add_all
arctan = _backend.arctan
in_turn = _backend.in_turn
loop = _backend.loop
maximum = _backend.maximum
needs_static_shapes = _backend.needs_static_shapes
runs_op_by_op = _backend.runs_op_by_op
segment_max = _backend.segment_max
segment_sum = _backend.segment_sum
tanh = _backend.tanh
