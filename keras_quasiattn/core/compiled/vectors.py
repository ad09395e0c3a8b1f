"""Buffers of whole vectors, and inner loops in vector instructions with sums in registers.

Numba's own vectoriser stores and reloads a sum in every step and takes twice as long. The columns
of `y`, of the sums and, in `add_signs`, of `x` must be adjacent.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from keras_quasiattn.core.compiled.elementary import LOOP

ROWS = 8  # rows of a register tile; every matrix of sums has a multiple of this many rows
VECTORS = 2  # vectors per row of a register tile: 16 sums in all, for 32 registers
SIGN_ROWS = 4
_VECTOR_BYTES = 64 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 32
# Every matrix of sums has a multiple of this many columns, for any dtype.
LANES = _VECTOR_BYTES // 4


@njit(**LOOP)
def load(x: Any, start: int, out: Any) -> None:
    """Copy x (length, features) from row `start` on to `out`, and zeros beyond its end."""
    for i in range(out.shape[0]):
        if start + i < x.shape[0]:
            for f in range(x.shape[1]):
                out[i, f] = x[start + i, f]
        else:
            out[i] = 0


@njit(**LOOP)
def store(x: Any, start: int, adds: bool, out: Any) -> None:
    """Copy x without its padding to `out` (length, features) from row `start` on, or add it."""
    for i in range(min(x.shape[0], out.shape[0] - start)):
        if adds:
            for f in range(out.shape[1]):
                out[start + i, f] += x[i, f]
        else:
            for f in range(out.shape[1]):
                out[start + i, f] = x[i, f]


class _Matrix:
    """Vectors and scalars of a two-dimensional array in LLVM code."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        array = context.make_array(kind)(context, builder, value)
        self.builder, self.bytes = builder, kind.dtype.bitwidth // 8
        self.scalar = context.get_data_type(kind.dtype)
        self.lanes = _VECTOR_BYTES // self.bytes
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.bits = ir.VectorType(ir.IntType(kind.dtype.bitwidth), self.lanes)
        self.index = context.get_value_type(types.intp)
        self.start = builder.ptrtoint(array.data, self.index)
        self.rows, self.columns = cgutils.unpack_tuple(builder, array.shape)
        self.strides = cgutils.unpack_tuple(builder, array.strides)

    def _address(self, row: Any, column: Any, kind: Any) -> Any:
        steps = zip((row, column), self.strides, strict=True)
        down, right = (self.builder.mul(place, stride) for place, stride in steps)
        address = self.builder.add(self.start, self.builder.add(down, right))
        return self.builder.inttoptr(address, kind.as_pointer())

    def load(self, row: Any, column: Any) -> Any:
        return self.builder.load(self._address(row, column, self.vector), align=self.bytes)

    def store(self, value: Any, row: Any, column: Any) -> None:
        self.builder.store(value, self._address(row, column, self.vector), align=self.bytes)

    def broadcast(self, row: Any, column: Any) -> Any:
        """Return a vector whose lanes are all the same element."""
        element = self.builder.load(self._address(row, column, self.scalar), align=self.bytes)
        nothing = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(nothing, element, ir.Constant(ir.IntType(32), 0))
        first = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, nothing, first)

    def constant(self, bits: int) -> Any:
        return ir.Constant(self.bits, [bits] * self.lanes)

    @property
    def sign_bit(self) -> int:
        return 1 << (8 * self.bytes - 1)


def _column_tiles(builder: Any, sums: _Matrix, tile: Callable[[list[Any]], None]) -> None:
    """Call `tile` with the first column of each of `VECTORS` vectors, then of one at a time."""

    def columns(start: Any, count: int) -> list[Any]:
        return [builder.add(start, ir.Constant(sums.index, i * sums.lanes)) for i in range(count)]

    zero, one, wide = (ir.Constant(sums.index, n) for n in (0, sums.lanes, VECTORS * sums.lanes))
    whole = builder.mul(builder.udiv(sums.columns, wide), wide)
    with cgutils.for_range_slice(builder, zero, whole, wide) as (start, _):
        tile(columns(start, VECTORS))
    with cgutils.for_range_slice(builder, whole, sums.columns, one) as (start, _):
        tile(columns(start, 1))


def _row_tiles(builder: Any, matrix: _Matrix, size: int) -> Any:
    zero, step = (ir.Constant(matrix.index, n) for n in (0, size))
    return cgutils.for_range_slice(builder, zero, matrix.rows, step)


def _row_numbers(builder: Any, matrix: _Matrix, start: Any, size: int) -> list[Any]:
    return [builder.add(start, ir.Constant(matrix.index, r)) for r in range(size)]


Term = Callable[[Any, _Matrix, Any, Any, Any], Any]


def _sums(term: Term, meaning: str, *, adds: bool = False, scale: float = 1.0) -> Any:
    """Return a compiled function (x, y, sums) that writes to `sums`, or adds to it if `adds`.

    `term` adds `scale` times a term of x[r, f] and y[f, c] to a sum. `meaning` is the docstring.
    """

    def accumulate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y, sums = (
            _Matrix(context, builder, *pair) for pair in zip(signature.args, arguments, strict=True)
        )
        nothing, factor = (ir.Constant(sums.vector, [n] * sums.lanes) for n in (0.0, 1 / scale))

        def tile(columns: list[Any]) -> None:
            with _row_tiles(builder, sums, ROWS) as (start, _):
                rows = _row_numbers(builder, sums, start, ROWS)
                # A stack slot for each vector of sums, which LLVM keeps in a register.
                cells = {
                    (r, c): cgutils.alloca_once(builder, sums.vector) for r in rows for c in columns
                }
                for place, cell in cells.items():
                    builder.store(sums.load(*place) if adds else nothing, cell)
                with cgutils.for_range(builder, y.rows) as loop:
                    right = {c: y.load(loop.index, c) for c in columns}
                    for r in rows:
                        left = x.broadcast(r, loop.index)
                        for c in columns:
                            total = builder.load(cells[r, c])
                            builder.store(term(builder, sums, left, right[c], total), cells[r, c])
                for place, cell in cells.items():
                    total = builder.load(cell)
                    sums.store(total if scale == 1 else builder.fmul(total, factor), *place)

        _column_tiles(builder, sums, tile)
        return context.get_dummy_value()

    def typing(typing_context: Any, x: Any, y: Any, sums: Any) -> tuple[Any, Any]:
        return types.void(x, y, sums), accumulate

    typing.__doc__ = meaning
    return intrinsic(typing)


def _multiply_add(builder: Any, left: Any, right: Any, total: Any) -> Any:
    product = builder.fmul(left, right, flags=("contract",))
    return builder.fadd(total, product, flags=("contract",))


def _product(builder: Any, like: _Matrix, left: Any, right: Any, total: Any) -> Any:
    return _multiply_add(builder, left, right, total)


def _half_difference(builder: Any, like: _Matrix, left: Any, right: Any, total: Any) -> Any:
    # |left − right|: the sign bit is cleared.
    bits = builder.bitcast(builder.fsub(left, right), like.bits)
    size = builder.bitcast(builder.and_(bits, like.constant(like.sign_bit - 1)), like.vector)
    # Halving is exact and makes the sum a multiply-add. On some processors that runs in other units
    # than the difference, at the same time.
    return _multiply_add(builder, size, ir.Constant(like.vector, [0.5] * like.lanes), total)


products = _sums(_product, "sums[r, c] = Σ_f x[r, f] · y[f, c].")
add_products = _sums(_product, "sums[r, c] += Σ_f x[r, f] · y[f, c].", adds=True)
distances = _sums(_half_difference, "sums[r, c] = Σ_f |x[r, f] − y[f, c]|.", scale=0.5)


def _signs(
    typing_context: Any, factors: Any, x: Any, y: Any, of_x: Any, of_y: Any
) -> tuple[Any, Any]:
    """Return both gradients of an L1 distance in one pass, 0 at ties.

    of_x[r, f] += Σ_s factors[r, s] · sign(x[r, f] − y[s, f]); of_y[s, f] −= Σ_r of the same terms.
    """

    def accumulate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors, x, y, of_x, of_y = (
            _Matrix(context, builder, *pair) for pair in zip(signature.args, arguments, strict=True)
        )
        nothing = ir.Constant(x.vector, [0.0] * x.lanes)

        def signed(factor: Any, left: Any, right: Any) -> Any:
            difference = builder.fsub(left, right)
            # factor · sign(difference): a negative difference flips the factor's sign bit.
            sign = builder.and_(builder.bitcast(difference, x.bits), x.constant(x.sign_bit))
            value = builder.bitcast(builder.xor(factor, sign), x.vector)
            return builder.select(builder.fcmp_unordered("!=", difference, nothing), value, nothing)

        def tile(columns: list[Any]) -> None:
            with _row_tiles(builder, x, SIGN_ROWS) as (start, _):
                rows = _row_numbers(builder, x, start, SIGN_ROWS)
                points = {(r, c): x.load(r, c) for r in rows for c in columns}
                cells = {place: cgutils.alloca_once(builder, x.vector) for place in points}
                for place, cell in cells.items():
                    builder.store(of_x.load(*place), cell)
                with cgutils.for_range(builder, y.rows) as loop:
                    s = loop.index
                    others = {c: y.load(s, c) for c in columns}
                    totals = {c: of_y.load(s, c) for c in columns}
                    for r in rows:
                        factor = builder.bitcast(factors.broadcast(r, s), x.bits)
                        for c in columns:
                            value = signed(factor, points[r, c], others[c])
                            builder.store(
                                builder.fadd(builder.load(cells[r, c]), value), cells[r, c]
                            )
                            totals[c] = builder.fsub(totals[c], value)
                    for c in columns:
                        of_y.store(totals[c], s, c)
                for place, cell in cells.items():
                    of_x.store(builder.load(cell), *place)

        _column_tiles(builder, of_x, tile)
        return context.get_dummy_value()

    return types.void(factors, x, y, of_x, of_y), accumulate


add_signs: Any = intrinsic(_signs)


def _transposed(typing_context: Any, x: Any, out: Any) -> tuple[Any, Any]:
    """Set out[f, i] = x[i, f]; both lengths are multiples of `LANES`."""

    def transpose(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, out = (
            _Matrix(context, builder, *pair) for pair in zip(signature.args, arguments, strict=True)
        )
        lanes, half = x.lanes, x.lanes // 2
        halves = [
            ir.Constant(
                ir.VectorType(ir.IntType(32), lanes),
                [place for i in range(first, first + half) for place in (i, lanes + i)],
            )
            for first in (0, half)
        ]
        with (
            _row_tiles(builder, x, lanes) as (row, _),
            _row_tiles(builder, out, lanes) as (column, _),
        ):
            vectors = [x.load(i, column) for i in _row_numbers(builder, x, row, lanes)]
            # Each round interleaves the first half of the vectors with the second.
            for _ in range(lanes.bit_length() - 1):
                pairs = zip(vectors[:half], vectors[half:], strict=True)
                vectors = [builder.shuffle_vector(*pair, mask) for pair in pairs for mask in halves]
            numbers = _row_numbers(builder, out, column, lanes)
            for vector, f in zip(vectors, numbers, strict=True):
                out.store(vector, f, row)
        return context.get_dummy_value()

    return types.void(x, out), transpose


transpose: Any = intrinsic(_transposed)
