"""Triton matmuls of serving engines, as they are written there: rows gathered by expert, and scales within the sum."""

import triton
import triton.language as tl


@triton.jit
def place(tile, row_tiles, column_tiles, group):
    """Row and column of a tile: down `group` rows of tiles, then on to the next column."""
    panel = tile // (group * column_tiles)
    first = panel * group
    height = min(row_tiles - first, group)
    inside = tile % (group * column_tiles)
    return first + inside % height, inside // height


@triton.jit(do_not_specialize=["real", "topk", "group", "row_tiles", "stride_xs", "stride_wse", "stride_wsn"])
def grouped_matmul(
    x_ptr, w_ptr, out_ptr, xs_ptr, ws_ptr, gate_ptr, slot_ptr, expert_ptr, slots_used_ptr, N, K, real, topk,
    group, row_tiles, stride_x, stride_we, stride_wn, stride_out, stride_xs, stride_wse, stride_wsn,
    KIND: tl.constexpr, WHOLE_K: tl.constexpr, SCALE_N: tl.constexpr, SCALE_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Each tile of slots belongs to one expert; a slot holds the number of a row of the output, or one past them all.

    `KIND`: "plain" operands of one type, with one scale where they are of 8 bits; "block", scales within the sum;
    "int8", weights with a scale a column.
    """
    row, col = place(tl.program_id(0), row_tiles, tl.cdiv(N, BLOCK_N), group)
    if row * BLOCK_M >= tl.load(slots_used_ptr):
        return
    rows = tl.load(slot_ptr + row * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)).to(tl.int64)
    is_real = rows < real
    expert = tl.load(expert_ptr + row).to(tl.int64)
    n = (col * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (rows // topk)[:, None] * stride_x + k[None, :]
    w_ptrs = w_ptr + expert * stride_we + n[None, :] * stride_wn + k[:, None]
    if KIND == "block":
        xs_ptrs = xs_ptr + rows // topk * stride_xs
        block = n // SCALE_N if BLOCK_N > SCALE_N else col * BLOCK_N // SCALE_N
        ws_ptrs = ws_ptr + expert * stride_wse + block * stride_wsn
    if KIND == "int8":
        each = tl.load(ws_ptr + expert * stride_wse + n[None, :])
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        if WHOLE_K:
            x = tl.load(x_ptrs, mask=is_real[:, None], other=0.0)
            w = tl.load(w_ptrs)
        else:
            x = tl.load(x_ptrs, mask=is_real[:, None] & (k[None, :] < K - start), other=0.0)
            w = tl.load(w_ptrs, mask=k[:, None] < K - start, other=0)
        if KIND == "plain":
            acc = tl.dot(x, w, acc)
        elif KIND == "int8":
            acc = tl.dot(x, w.to(x.dtype), acc)
        else:
            of_rows = tl.load(xs_ptrs + start // SCALE_K, mask=is_real, other=0.0)
            of_columns = tl.load(ws_ptrs + start // SCALE_K)
            if BLOCK_N > SCALE_N:
                acc += tl.dot(x, w) * of_rows[:, None] * of_columns[None, :]
            else:
                acc += tl.dot(x, w) * (of_rows * of_columns)[:, None]
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    if KIND == "int8":
        acc *= each
    if KIND == "plain" and SCALE_N > 0:
        acc *= tl.load(xs_ptr) * tl.load(ws_ptr + expert)
    acc *= tl.load(gate_ptr + rows, mask=is_real, other=0.0)[:, None]
    n = col * BLOCK_N + tl.arange(0, BLOCK_N)
    out = out_ptr + rows[:, None] * stride_out + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=is_real[:, None] & (n[None, :] < N))


@triton.jit(do_not_specialize=["real", "topk", "group", "row_tiles"])
def grouped_weights(
    x_ptr, w_ptr, out_ptr, scale_ptr, zero_ptr, gate_ptr, slot_ptr, expert_ptr, slots_used_ptr, real, topk,
    group, row_tiles, stride_x, stride_we, stride_wn, stride_out, stride_se, stride_sn, stride_ze, stride_zn,
    N: tl.constexpr, K: tl.constexpr, BITS: tl.constexpr, GROUP: tl.constexpr, ZEROS: tl.constexpr,
    GATED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`grouped_matmul` of weights of `BITS` 4 or 8, unsigned, with a scale a column and `GROUP` of K.

    Two weights of 4 bits along K lie in a byte, and with `ZEROS` two zero points along N. Each element of a tile reads
    its byte, its scale and its zero point by itself, as the engines' kernel does.
    """
    row, col = place(tl.program_id(0), row_tiles, tl.cdiv(N, BLOCK_N), group)
    if row * BLOCK_M >= tl.load(slots_used_ptr):
        return
    rows = tl.load(slot_ptr + row * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64))
    is_real = rows < real
    expert = tl.load(expert_ptr + row).to(tl.int64)
    n = ((col * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N)[None, :]
    k = tl.arange(0, BLOCK_K)
    EACH: tl.constexpr = 8 // BITS
    x_ptrs = x_ptr + (rows[:, None] // topk * stride_x + k[None, :])
    w_ptrs = w_ptr + expert * stride_we + (k[:, None] // EACH) + n * stride_wn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        inside = None if K % BLOCK_K == 0 else k[:, None] < K - step * BLOCK_K
        other = None if K % BLOCK_K == 0 else 0.0
        x = tl.load(x_ptrs, mask=is_real[:, None] & (k[None, :] < K - step * BLOCK_K), other=0.0)
        w = tl.load(w_ptrs)
        if BITS == 4:
            w = (w >> (k[:, None] % 2 * 4)) & 15
        deep = (k[:, None] + BLOCK_K * step) // GROUP
        scale = tl.load(scale_ptr + expert * stride_se + n * stride_sn + deep, mask=inside, other=other)
        if ZEROS:
            zero = tl.load(zero_ptr + expert * stride_ze + n // EACH * stride_zn + deep, mask=inside, other=other)
            if BITS == 4:
                zero = (zero >> (n % 2 * 4)) & 15
            w = w.to(tl.float32) - zero.to(tl.float32)
        else:
            w = w.to(tl.float32) - (1 << (BITS - 1))
        acc = tl.dot(x, (w * scale.to(tl.float32)).to(x.dtype), acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K // EACH
    if GATED:
        acc *= tl.load(gate_ptr + rows, mask=is_real, other=0.0)[:, None]
    n = col * BLOCK_N + tl.arange(0, BLOCK_N)
    out = out_ptr + stride_out * rows[:, None] + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=is_real[:, None] & (n[None, :] < N))


@triton.jit(do_not_specialize=["M", "group", "stride_xs", "stride_ws"])
def scaled_matmul(
    x_ptr, w_ptr, out_ptr, xs_ptr, ws_ptr, M, N, K, group, stride_x, stride_w, stride_out, stride_xs, stride_ws,
    WHOLE_K: tl.constexpr, SCALE_N: tl.constexpr, SCALE_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One scale a row and `SCALE_K` of K of the first operand, a block of `SCALE_N` x `SCALE_K` of the second."""
    row, col = place(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), group)
    m = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (col * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * stride_x + k[None, :]
    w_ptrs = w_ptr + n[None, :] * stride_w + k[:, None]
    xs_ptrs = xs_ptr + m * stride_xs
    ws_ptrs = ws_ptr + n // SCALE_N * stride_ws
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        if WHOLE_K:
            x, w = tl.load(x_ptrs), tl.load(w_ptrs)
        else:
            left = K - step * BLOCK_K
            x = tl.load(x_ptrs, mask=k[None, :] < left, other=0.0)
            w = tl.load(w_ptrs, mask=k[:, None] < left, other=0.0)
        of_rows, of_columns = tl.load(xs_ptrs), tl.load(ws_ptrs)
        acc += tl.dot(x, w) * of_rows[:, None] * of_columns[None, :]
        on = tl.where((step + 1) % (SCALE_K // BLOCK_K) == 0, 1, 0)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
        xs_ptrs += on
        ws_ptrs += on
    m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    n = col * BLOCK_N + tl.arange(0, BLOCK_N)
    out = out_ptr + m[:, None] * stride_out + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
