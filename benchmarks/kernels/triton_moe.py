"""A Triton matmul of serving engines, as it is written there: rows gathered by expert, weights of 4 or 8 bits."""

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
