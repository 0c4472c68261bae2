"""Short Triton kernels that overlap loads, add, gather, spill, stay, and step: an eighth zoo."""

import triton
import triton.language as tl


@triton.jit
def smooth_down(x_ptr, w_ptr, y_ptr, rows, cols, taps, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A filter along the rows below each place, as many taps as an argument says."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    acc, inside = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), (r < rows) & (c < cols)
    for k in range(taps):
        x = tl.load(x_ptr + (r + k) * cols + c, mask=inside & (r + k < rows), other=0.0)
        acc += tl.load(w_ptr + k) * x.to(tl.float32)
    tl.store(y_ptr + r * cols + c, acc.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def pool_three_by_two(x_ptr, y_ptr, high, wide, out_high, out_wide, BLOCK: tl.constexpr):
    """Largest of 3 x 3, two apart and padded by one, of planes whose places are counted through."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, plane = i < out_high * out_wide, tl.program_id(1)
    r, c = i // out_wide * 2 - 1, i % out_wide * 2 - 1
    y = tl.full((BLOCK,), float("-inf"), tl.float32)
    for k in tl.static_range(9):
        a, b = r + k // 3, c + k % 3
        inside = mask & (a >= 0) & (a < high) & (b >= 0) & (b < wide)
        y = tl.maximum(y, tl.load(x_ptr + (plane * high + a) * wide + b, mask=inside, other=float("-inf")))
    tl.store(y_ptr + plane * out_high * out_wide + i, y, mask=mask)


@triton.jit
def cut_frames(x_ptr, w_ptr, y_ptr, length, frames, hop, width, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Windows of a sound that overlap, each times a shape, one after another."""
    f = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask, sound = (f < frames) & (c < width), tl.program_id(2)
    x = tl.load(x_ptr + sound * length + f * hop + c, mask=mask, other=0.0)
    w = tl.load(w_ptr + c, mask=c < width, other=0.0)
    tl.store(y_ptr + (sound * frames + f) * width + c, x * w, mask=mask)


@triton.jit
def count_points(x_ptr, y_ptr, n, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """How many points of a square fall into each of its cells."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x_ptr + 2 * i, mask=i < n, other=0.0), tl.load(x_ptr + 2 * i + 1, mask=i < n, other=0.0)
    tl.atomic_add(y_ptr + (a * SIDE).to(tl.int32) * SIDE + (b * SIDE).to(tl.int32), 1, mask=i < n, sem="relaxed")


@triton.jit
def add_sorted_rows(x_ptr, to_ptr, y_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows added to the row of their segment; segments lie one after another."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask, to = (t < n)[:, None] & (c < width), tl.load(to_ptr + t, mask=t < n, other=0)[:, None]
    x = tl.load(x_ptr + t[:, None] * width + c, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + to * width + c, x, mask=mask, sem="relaxed")


@triton.jit
def moments_of_columns(x_ptr, y_ptr, rows, cols, EACH: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sum and sum of squares of each column; a program adds up EACH tiles of rows first."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    one, two = tl.zeros((BLOCK_C,), tl.float32), tl.zeros((BLOCK_C,), tl.float32)
    for k in range(EACH):
        r = (tl.program_id(1) * EACH + k) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
        x = tl.load(x_ptr + r * cols + c[None, :], mask=(r < rows) & (c < cols)[None, :], other=0.0).to(tl.float32)
        one, two = one + tl.sum(x, 0), two + tl.sum(x * x, 0)
    tl.atomic_add(y_ptr + c, one, mask=c < cols, sem="relaxed")
    tl.atomic_add(y_ptr + cols + c, two, mask=c < cols, sem="relaxed")


@triton.jit
def bags(table_ptr, id_ptr, y_ptr, count, width, EACH: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums of as many rows of a table for each bag."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask, acc = (t < count)[:, None] & (c < width), tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in tl.static_range(EACH):
        row = tl.load(id_ptr + t * EACH + k, mask=t < count, other=0)[:, None]
        acc += tl.load(table_ptr + row * width + c, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + t[:, None] * width + c, acc.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def curve(x_ptr, table_ptr, y_ptr, n, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """A function by its table, linear between two entries."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0) * (SIZE - 1)
    k = x.to(tl.int32)
    a, b = tl.load(table_ptr + k, mask=i < n, other=0.0), tl.load(table_ptr + k + 1, mask=i < n, other=0.0)
    tl.store(y_ptr + i, a + (b - a) * (x - k), mask=i < n)


@triton.jit
def read_pages(x_ptr, page_ptr, y_ptr, length, width, PAGE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sequences whose tokens lie in pages, one after another."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask, own = (t < length)[:, None] & (c < width), tl.program_id(2)
    page = tl.load(page_ptr + own * (length // PAGE) + t // PAGE, mask=t < length, other=0)
    x = tl.load(x_ptr + (page * PAGE + t % PAGE)[:, None] * width + c, mask=mask, other=0.0)
    tl.store(y_ptr + (own * length + t[:, None]) * width + c, x, mask=mask)


@triton.jit
def norm_of_gated(x_ptr, g_ptr, w_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    """A row times its gate, over its root of mean squares; all of a row in registers."""
    c, row = tl.arange(0, BLOCK), tl.program_id(0) * cols
    x = tl.load(x_ptr + row + c, mask=c < cols, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + row + c, mask=c < cols, other=0.0).to(tl.float32)
    x = x * g * tl.sigmoid(g)
    w = tl.load(w_ptr + c, mask=c < cols, other=0.0)
    y = x * w * tl.rsqrt(tl.sum(x * x) / cols + 1e-6)
    tl.store(y_ptr + row + c, y.to(y_ptr.dtype.element_ty), mask=c < cols)


@triton.jit
def softmax_in_turn(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of rows; programs that stay take every so many."""
    c = tl.arange(0, BLOCK)[None, :]
    for tile in range(tl.program_id(0), tl.cdiv(rows, BLOCK_R), tl.num_programs(0)):
        r = tile * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
        mask = (r < rows) & (c < cols)
        x = tl.load(x_ptr + r * cols + c, mask=mask, other=float("-inf")).to(tl.float32)
        x = tl.exp(x - tl.max(x, 1)[:, None])
        tl.store(y_ptr + r * cols + c, (x / tl.sum(x, 1)[:, None]).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def swap_heads(x_ptr, y_ptr, tokens, heads, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr):
    """Tokens of heads become heads of tokens."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)[:, None, None]
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)[None, :, None]
    d, mask = tl.arange(0, WIDTH)[None, None, :], (t < tokens) & (h < heads)
    x = tl.load(x_ptr + (t * heads + h) * WIDTH + d, mask=mask)
    tl.store(y_ptr + (h * tokens + t) * WIDTH + d, x, mask=mask)
