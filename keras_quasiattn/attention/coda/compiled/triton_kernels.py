# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""CoDA's two kernels for NVIDIA GPUs, in Triton: sums by M, and gradients.

A program owns `own_size` positions of one sequence, a thread each, and goes through the other in
tiles, so that a thread keeps its column of a tile in registers. The backward pass computes every
tile twice, for the gradients of queries and of keys: nothing is added atomically, and results do
not change from run to run. No (T, S) matrix is in memory.
"""

import triton
from triton import language as tl


@triton.jit
def _tanh(x):
    # The odd series keeps relative precision up to 0.625, and 1 − 2/(e^2x + 1) does above.
    size = tl.abs(x)
    square = x * x
    series = -5.70498872745e-3
    series = series * square + 2.06390887954e-2
    series = series * square - 5.37397155531e-2
    series = series * square + 1.33314422036e-1
    series = series * square - 3.33332819422e-1
    small = series * square * x + x
    large = 1 - 2 / (tl.exp(tl.minimum(size + size, 80.0)) + 1)
    return tl.where(size > 0.625, tl.where(x < 0, -large, large), small)


@triton.jit
def _sigmoid(x):
    small = tl.exp(-tl.abs(x))
    upper = 1 / (1 + small)
    return tl.where(x < 0, small * upper, upper)


@triton.jit
def _arctan(x):
    size = tl.abs(x)
    high, middle = size > 2.414213562373095, size > 0.4142135623730950
    start = tl.where(high, 1.5707963267948966, tl.where(middle, 0.7853981633974483, 0.0))
    above = -1 / tl.where(high, size, 1.0)
    rest = tl.where(high, above, tl.where(middle, (size - 1) / (size + 1), size))
    square = rest * rest
    series = 8.05374449538e-2
    series = series * square - 1.38776856032e-1
    series = series * square + 1.99777106478e-1
    series = series * square - 3.33329491539e-1
    found = start + (series * square * rest + rest)
    return tl.where(x < 0, -found, found)


@triton.jit
def _algebraic(x):
    # x / √(1 + x²), scaled so that the square does not overflow.
    size = tl.maximum(tl.abs(x), 1.0)
    low, ratio = 1 / size, x / size
    return ratio / tl.sqrt(low * low + ratio * ratio)


@triton.jit
def _value(function: tl.constexpr, x):
    if function == "tanh":
        return _tanh(x)
    elif function == "sigmoid":
        return _sigmoid(x)
    elif function == "arctan":
        return _arctan(x)
    elif function == "algebraic":
        return _algebraic(x)
    elif function == "identity":
        return x
    else:
        return x * 0 + 1


@triton.jit
def _slope(function: tl.constexpr, x, y):
    if function == "tanh":
        return 1 - y * y
    elif function == "sigmoid":
        return y * (1 - y)
    elif function == "arctan":
        return 1 / (1 + x * x)
    elif function == "algebraic":
        reciprocal = 1 / tl.sqrt(1 + x * x)
        return reciprocal * reciprocal * reciprocal
    elif function == "identity":
        return x * 0 + 1
    else:
        return x * 0


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _of_queries(factors, number: tl.constexpr, own, others, length, own_is_query: tl.constexpr):
    """Load one number for each query, as (1, own) or (tile, 1)."""
    if own_is_query:
        return tl.load(factors + number * length + own)[None, :]
    else:
        return tl.load(factors + number * length + others)[:, None]


@triton.jit
def _across(pointer, positions, features, width: tl.constexpr):
    """Load rows of (positions, width) as (width, positions)."""
    return tl.load(pointer + positions[None, :] * width + features[:, None])


@triton.jit
def _along(pointer, positions, features, width: tl.constexpr):
    """Load rows of (positions, width)."""
    return tl.load(pointer + positions[:, None] * width + features[None, :])


@triton.jit
def _distances(
    own_features, other_features, own, others, own_length, other_length, features: tl.constexpr,
    own_size: tl.constexpr, tile_size: tl.constexpr,
):  # fmt: skip
    """Compute ‖own − other‖₁ of a tile from (features, positions) of both."""
    total = tl.zeros((tile_size, own_size), tl.float32)
    for feature in tl.range(0, features, loop_unroll_factor=4):
        x = tl.load(own_features + feature * own_length + own)
        y = tl.load(other_features + feature * other_length + others)
        total += tl.abs(y[:, None] - x[None, :])
    return total


@triton.jit
def _add_signs(
    slopes, gradients, own_features, other_features, own, others, own_length, other_length,
    features: tl.constexpr, on_device: tl.constexpr,
):  # fmt: skip
    """Add to gradients[feature, own]: Σ slopes · sign(own − other), with sign(0) = 0.

    The sign is 2·s − 1, with s = 2⁶⁴·(own − other) + ½ cut to [0, 1]: one instruction.
    """
    total = tl.sum(slopes, axis=0)
    for feature in tl.range(0, features, loop_unroll_factor=4, num_stages=1):
        x = tl.load(own_features + feature * own_length + own)
        y = tl.load(other_features + feature * other_length + others)
        difference = x[None, :] - y[:, None]
        if on_device:
            step = tl.inline_asm_elementwise(
                "fma.rn.sat.f32 $0, $1, 0f5F800000, 0f3F000000;", "=f,f", [difference],
                dtype=tl.float32, is_pure=True, pack=1,
            )  # fmt: skip
        else:
            step = tl.minimum(tl.maximum(difference * 18446744073709551616.0 + 0.5, 0.0), 1.0)
        at = gradients + feature * own_length + own
        tl.store(at, tl.load(at) + 2 * tl.sum(slopes * step, axis=0) - total)


@triton.jit
def _visible(
    own_mask, other_mask, full_mask, own, others, own_stride, other_stride,
    own_is_query: tl.constexpr, is_causal: tl.constexpr, has_full_mask: tl.constexpr,
):  # fmt: skip
    """Return which pairs of a tile attend."""
    found = (tl.load(other_mask + others) != 0)[:, None] & (tl.load(own_mask + own) != 0)[None, :]
    if is_causal:
        if own_is_query:
            found = found & (others[:, None] <= own[None, :])
        else:
            found = found & (own[None, :] <= others[:, None])
    if has_full_mask:
        at = own.to(tl.int64)[None, :] * own_stride + others.to(tl.int64)[:, None] * other_stride
        found = found & (tl.load(full_mask + at, mask=found, other=0) != 0)
    return found


@triton.jit
def _kept(key, own, others, own_is_query: tl.constexpr, threshold, factor):
    """Return the dropout of `core.randomness` as one factor for each weight of a tile."""
    own, others = own.to(tl.uint32)[None, :], others.to(tl.uint32)[:, None]
    if own_is_query:
        bits = _mix(_mix(key + own * 0x9E3779B1) + others * 0x85EBCA77)
    else:
        bits = _mix(_mix(key + others * 0x9E3779B1) + own * 0x85EBCA77)
    return tl.where((bits >> 8) >= threshold, factor, 0.0)


@triton.jit
def _program(own_length, own_size: tl.constexpr):
    """Return the batch of this program, and the first position that it owns."""
    blocks = own_length // own_size
    return (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * own_size


@triton.jit
def _range(
    first, other_length, own_size: tl.constexpr, own_is_query: tl.constexpr,
    is_causal: tl.constexpr,
):  # fmt: skip
    """Return the range of other positions that matter: to the last query, or from the first key."""
    begin, end = 0, other_length
    if is_causal:
        if own_is_query:
            end = tl.minimum(other_length, first + own_size)
        else:
            begin = tl.minimum(other_length, first)
    return begin, end


@triton.jit
def sums_kernel(
    own_side, other_side, own_features, other_features, own_mask, other_mask, factors, full_mask,
    full_index, dropout_keys, values, output,
    own_length, other_length, own_stride, other_stride, mask_size, threshold, kept_factor,
    similarity: tl.constexpr, gate: tl.constexpr, scale: tl.constexpr, own_is_query: tl.constexpr,
    is_causal: tl.constexpr, has_full_mask: tl.constexpr, has_dropout: tl.constexpr,
    width: tl.constexpr, feature_count: tl.constexpr, value_width: tl.constexpr,
    own_size: tl.constexpr, tile_size: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    """Write output[own] = Σ M[own, other] · values[other], or Mᵀ · values where keys are owned."""
    batch, first = _program(own_length, own_size)
    own_side += batch * own_length * width
    other_side += batch * other_length * width
    own_features += batch * own_length * feature_count
    other_features += batch * other_length * feature_count
    own_mask += batch * own_length
    other_mask += batch * other_length
    length = own_length if own_is_query else other_length
    factors += batch * 4 * length
    own = first + tl.arange(0, own_size)
    numbers, columns = tl.arange(0, width), tl.arange(0, value_width)
    values += batch * other_length * value_width
    if has_full_mask:
        full_mask += tl.load(full_index + batch).to(tl.int64) * mask_size
    if has_dropout:
        key = tl.load(dropout_keys + batch).to(tl.uint32, bitcast=True)
    begin, end = _range(first, other_length, own_size, own_is_query, is_causal)
    own_row = _across(own_side, own, numbers, width)
    total = tl.zeros((value_width, own_size), tl.float32)
    for start in tl.range(begin, end, tile_size):
        others = start + tl.arange(0, tile_size)
        visible = _visible(
            own_mask, other_mask, full_mask, own, others, own_stride, other_stride,
            own_is_query, is_causal, has_full_mask,
        )  # fmt: skip
        weights = tl.full((tile_size, own_size), scale, tl.float32)
        if gate is not None:
            distance = _distances(
                own_features, other_features, own, others, own_length, other_length, feature_count,
                own_size, tile_size,
            )  # fmt: skip
            beta = _of_queries(factors, 1, own, others, length, own_is_query)
            offset = _of_queries(factors, 3, own, others, length, own_is_query)
            weights *= _value(gate, -beta * distance - offset)
        if similarity is not None:
            rows = _along(other_side, others, numbers, width)
            products = tl.dot(rows, own_row, input_precision=precision)
            alpha = _of_queries(factors, 0, own, others, length, own_is_query)
            offset = _of_queries(factors, 2, own, others, length, own_is_query)
            weights *= _value(similarity, alpha * products - offset)
        weights = tl.where(visible, weights, 0.0)
        if has_dropout:
            weights *= _kept(key, own, others, own_is_query, threshold, kept_factor)
        pooled = _across(values, others, columns, value_width)
        total += tl.dot(pooled, weights, input_precision=precision)
    output += batch * own_length * value_width
    tl.store(output + own[None, :] * value_width + columns[:, None], total)


@triton.jit
def gradients_kernel(
    own_side, other_side, own_features, other_features, own_mask, other_mask, factors, full_mask,
    full_index, dropout_keys, own_slopes, other_slopes, pooled_slopes,
    side_gradient, feature_gradient, factor_gradient, value_gradient, scratch,
    own_length, other_length, own_stride, other_stride, mask_size, threshold, kept_factor,
    similarity: tl.constexpr, gate: tl.constexpr, scale: tl.constexpr, own_is_query: tl.constexpr,
    is_causal: tl.constexpr, has_full_mask: tl.constexpr, has_dropout: tl.constexpr,
    has_values: tl.constexpr, width: tl.constexpr, feature_count: tl.constexpr,
    slope_width: tl.constexpr, value_width: tl.constexpr, own_size: tl.constexpr,
    tile_size: tl.constexpr, scratch_row, precision: tl.constexpr, on_device: tl.constexpr,
):  # fmt: skip
    """Write the gradients of the owned positions, and of the factors if these are queries."""
    batch, first = _program(own_length, own_size)
    own_side += batch * own_length * width
    other_side += batch * other_length * width
    own_features += batch * own_length * feature_count
    other_features += batch * other_length * feature_count
    own_mask += batch * own_length
    other_mask += batch * other_length
    length = own_length if own_is_query else other_length
    factors += batch * 4 * length
    own = first + tl.arange(0, own_size)
    numbers, columns = tl.arange(0, width), tl.arange(0, value_width)
    slope_columns = tl.arange(0, slope_width)
    scratch += tl.program_id(0).to(tl.int64) * tile_size * scratch_row
    scratch += tl.arange(0, tile_size)[:, None] * scratch_row + tl.arange(0, own_size)[None, :]
    feature_gradient += batch * own_length * feature_count
    own_slopes += batch * own_length * slope_width
    other_slopes += batch * other_length * slope_width
    pooled_slopes += batch * other_length * value_width
    if has_full_mask:
        full_mask += tl.load(full_index + batch).to(tl.int64) * mask_size
    if has_dropout:
        key = tl.load(dropout_keys + batch).to(tl.uint32, bitcast=True)
    begin, end = _range(first, other_length, own_size, own_is_query, is_causal)
    own_row = _across(own_side, own, numbers, width)
    own_slope = _across(own_slopes, own, slope_columns, slope_width)
    side_total = tl.zeros((width, own_size), tl.float32)
    value_total = tl.zeros((value_width, own_size), tl.float32)
    alpha_total = tl.zeros((own_size,), tl.float32)
    beta_total = tl.zeros((own_size,), tl.float32)
    similarity_total = tl.zeros((own_size,), tl.float32)
    distance_total = tl.zeros((own_size,), tl.float32)
    for start in tl.range(begin, end, tile_size):
        others = start + tl.arange(0, tile_size)
        visible = _visible(
            own_mask, other_mask, full_mask, own, others, own_stride, other_stride,
            own_is_query, is_causal, has_full_mask,
        )  # fmt: skip
        left = tl.full((tile_size, own_size), scale, tl.float32)
        right = tl.full((tile_size, own_size), 1.0, tl.float32)
        if gate is not None:
            distance = _distances(
                own_features, other_features, own, others, own_length, other_length, feature_count,
                own_size, tile_size,
            )  # fmt: skip
            beta = _of_queries(factors, 1, own, others, length, own_is_query)
            offset = _of_queries(factors, 3, own, others, length, own_is_query)
            negative_distance = -beta * distance - offset
            right = _value(gate, negative_distance)
        rows = _along(other_side, others, numbers, width)
        if similarity is not None:
            products = tl.dot(rows, own_row, input_precision=precision)
            alpha = _of_queries(factors, 0, own, others, length, own_is_query)
            offset = _of_queries(factors, 2, own, others, length, own_is_query)
            similarities = alpha * products - offset
            value = _value(similarity, similarities)
            left = scale * value
        slopes = tl.dot(
            _along(other_slopes, others, slope_columns, slope_width), own_slope,
            input_precision=precision,
        )  # fmt: skip
        slopes = tl.where(visible, slopes, 0.0)
        weights = tl.where(visible, left * right, 0.0)
        if has_dropout:
            kept = _kept(key, own, others, own_is_query, threshold, kept_factor)
            slopes *= kept
            weights *= kept
        if has_values:
            pooled = _across(pooled_slopes, others, columns, value_width)
            value_total += tl.dot(pooled, weights, input_precision=precision)
        if similarity is not None:
            by_similarity = slopes * scale * _slope(similarity, similarities, value) * right
            by_similarity = tl.where(visible, by_similarity, 0.0)
            if own_is_query:
                alpha_total += tl.sum(tl.where(visible, by_similarity * products, 0.0), axis=0)
                similarity_total -= tl.sum(by_similarity, axis=0)
            side_total += tl.dot(tl.trans(rows), by_similarity * alpha, input_precision=precision)
        if gate is not None:
            by_distance = slopes * left * _slope(gate, negative_distance, right)
            by_distance = tl.where(visible, by_distance, 0.0)
            if own_is_query:
                beta_total -= tl.sum(tl.where(visible, by_distance * distance, 0.0), axis=0)
                distance_total -= tl.sum(by_distance, axis=0)
            # Through memory, so that a thread gets the column of the position that it owns.
            tl.debug_barrier()
            tl.store(scratch, -beta * by_distance)
            tl.debug_barrier()
            _add_signs(
                tl.load(scratch), feature_gradient, own_features, other_features, own, others,
                own_length, other_length, feature_count, on_device,
            )  # fmt: skip
    side_gradient += batch * own_length * width
    tl.store(side_gradient + own[None, :] * width + numbers[:, None], side_total)
    if has_values:
        value_gradient += batch * own_length * value_width
        tl.store(value_gradient + own[None, :] * value_width + columns[:, None], value_total)
    if own_is_query:
        factor_gradient += batch * 4 * own_length + own
        tl.store(factor_gradient, alpha_total)
        tl.store(factor_gradient + own_length, beta_total)
        tl.store(factor_gradient + 2 * own_length, similarity_total)
        tl.store(factor_gradient + 3 * own_length, distance_total)
