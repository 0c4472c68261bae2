"""The Triton transpose that templates/transpose/triton.toml describes: y[b,j,i] = x[b,i,j].

Launched as `transpose[(tiles of one matrix, batch)](x, y, rows, cols, BLOCK_R=, BLOCK_C=, num_warps=)`.
"""

import triton
import triton.language as tl


@triton.jit
def transpose(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    tiles = tl.cdiv(cols, BLOCK_C)
    r = (tl.program_id(0) // tiles).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = (tl.program_id(0) % tiles).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)
    matrix = tl.program_id(1).to(tl.int64) * rows * cols
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    tile = tl.load(x_ptr + matrix + r[:, None] * cols + c[None, :], inside)
    tl.store(y_ptr + matrix + c[:, None] * rows + r[None, :], tl.trans(tile), tl.trans(inside))
