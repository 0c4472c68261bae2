"""Short Triton kernels of dilation, resampling, sorting, voting, graphs, bits, random numbers: a ninth zoo."""

import triton
import triton.language as tl


@triton.jit
def atrous(x_ptr, w_ptr, y_ptr, channels, high, wide, APART: tl.constexpr, BLOCK_R: tl.constexpr,
           BLOCK_C: tl.constexpr):  # fmt: skip
    """A depthwise filter of 3 x 3 whose taps are APART rows and columns from each other; zeros outside; NCHW."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    plane = tl.program_id(2)
    acc, x = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), x_ptr + plane * high * wide
    for k in tl.static_range(9):
        a, b = r + (k // 3 - 1) * APART, c + (k % 3 - 1) * APART
        inside = (a >= 0) & (a < high) & (b >= 0) & (b < wide)
        w = tl.load(w_ptr + plane % channels * 9 + k)
        acc += w * tl.load(x + a * wide + b, mask=inside, other=0.0).to(tl.float32)
    y = y_ptr + plane * high * wide + r * wide + c
    tl.store(y, acc.to(y_ptr.dtype.element_ty), mask=(r < high) & (c < wide))


@triton.jit
def resample(x_ptr, h_ptr, y_ptr, length, out, UP: tl.constexpr, DOWN: tl.constexpr, TAPS: tl.constexpr,
             BLOCK: tl.constexpr):  # fmt: skip
    """A sound at UP / DOWN times its rate: each phase has a filter of its own."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at, phase, mask = i * DOWN // UP, i * DOWN % UP, i < out
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        x = tl.load(x_ptr + tl.program_id(1) * length + at + k, mask=mask & (at + k < length), other=0.0)
        acc += x * tl.load(h_ptr + phase * TAPS + k, mask=mask, other=0.0)
    tl.store(y_ptr + tl.program_id(1) * out + i, acc, mask=mask)


@triton.jit
def butterfly(x_ptr, y_ptr, n, APART: tl.constexpr, BLOCK: tl.constexpr):
    """One pass of a Hadamard transform: sums and differences of elements that are APART."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, other = tl.load(x_ptr + i, mask=i < n), tl.load(x_ptr + (i ^ APART), mask=i < n)
    tl.store(y_ptr + i, tl.where((i & APART) > 0, other - x, x + other), mask=i < n)


@triton.jit
def scatter_mean(x_ptr, to_ptr, sum_ptr, count_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows added to the row of their group, and how many each has."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask, to = (t < n)[:, None] & (c < width), tl.load(to_ptr + t, mask=t < n, other=0)
    x = tl.load(x_ptr + t[:, None] * width + c, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(sum_ptr + to[:, None] * width + c, x, mask=mask, sem="relaxed")
    tl.atomic_add(count_ptr + to, 1.0, mask=(t < n) & (tl.program_id(1) == 0), sem="relaxed")


@triton.jit
def sort_pass(key_ptr, first_ptr, y_ptr, n, SHIFT: tl.constexpr, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Keys to where two of their bits put them: after those of the same bits in programs before and in this one."""
    own = tl.program_id(0)
    a, b = tl.load(first_ptr + 4 * own), tl.load(first_ptr + 4 * own + 1)
    c, d = tl.load(first_ptr + 4 * own + 2), tl.load(first_ptr + 4 * own + 3)
    for k in range(0, EACH, BLOCK):
        i = own * EACH + k + tl.arange(0, BLOCK)
        key = tl.load(key_ptr + i, mask=i < n, other=0)
        digit = (key >> SHIFT) & 3
        zero, one = ((digit == 0) & (i < n)).to(tl.int32), ((digit == 1) & (i < n)).to(tl.int32)
        two, three = ((digit == 2) & (i < n)).to(tl.int32), ((digit == 3) & (i < n)).to(tl.int32)
        low = tl.where(digit == 0, a + tl.cumsum(zero, 0), b + tl.cumsum(one, 0))
        high = tl.where(digit == 2, c + tl.cumsum(two, 0), d + tl.cumsum(three, 0))
        tl.store(y_ptr + tl.where(digit < 2, low, high) - 1, key, mask=i < n)
        a, b, c, d = a + tl.sum(zero), b + tl.sum(one), c + tl.sum(two), d + tl.sum(three)


@triton.jit
def vote_lines(x_ptr, cos_ptr, sin_ptr, y_ptr, n, DISTANCES: tl.constexpr, ANGLES: tl.constexpr, BLOCK: tl.constexpr):
    """Each point votes for the lines through it: one of each angle, by its distance (Hough)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x_ptr + i, mask=i < n, other=0.0), tl.load(x_ptr + n + i, mask=i < n, other=0.0)
    for k in range(ANGLES):
        away = (a * tl.load(cos_ptr + k) + b * tl.load(sin_ptr + k)) * (DISTANCES // 3) + DISTANCES // 3
        tl.atomic_add(y_ptr + k * DISTANCES + away.to(tl.int32), 1, mask=i < n, sem="relaxed")


@triton.jit
def score_edges(x_ptr, from_ptr, to_ptr, y_ptr, n, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Products of the rows of both ends of each edge."""
    t, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)[None, :]
    mask = t < n
    a, b = tl.load(from_ptr + t, mask=mask, other=0), tl.load(to_ptr + t, mask=mask, other=0)
    one = tl.load(x_ptr + a[:, None] * WIDTH + c, mask=mask[:, None], other=0.0).to(tl.float32)
    other = tl.load(x_ptr + b[:, None] * WIDTH + c, mask=mask[:, None], other=0.0).to(tl.float32)
    tl.store(y_ptr + t, tl.sum(one * other, 1), mask=mask)


@triton.jit
def sparse_ell(value_ptr, col_ptr, x_ptr, y_ptr, rows, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """A sparse matrix by a vector: EACH entries a row, stored column by column."""
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc, mask = tl.zeros((BLOCK,), tl.float32), r < rows
    for k in range(EACH):
        col = tl.load(col_ptr + k * rows + r, mask=mask, other=0)
        acc += tl.load(value_ptr + k * rows + r, mask=mask, other=0.0) * tl.load(x_ptr + col, mask=mask, other=0.0)
    tl.store(y_ptr + r, acc, mask=mask)


@triton.jit
def add_position_bias(x_ptr, table_ptr, at_ptr, y_ptr, cells, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    """Scores of windows, and what a table of relative places has for each pair of cells and head."""
    i, head = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) % HEADS
    mask, at = i < cells * cells, tl.load(at_ptr + i, mask=i < cells * cells, other=0)
    bias = tl.load(table_ptr + at * HEADS + head, mask=mask, other=0.0)
    place = tl.program_id(1) * cells * cells + i
    x = tl.load(x_ptr + place, mask=mask, other=0.0)
    tl.store(y_ptr + place, x + bias.to(x.dtype), mask=mask)


@triton.jit
def top_of_rows(x_ptr, y_ptr, rows, cols, TOP: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK: tl.constexpr):
    """The TOP largest of each row, largest first."""
    r, c = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R), tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + r[:, None] * cols + c, mask=(r < rows)[:, None] & (c < cols), other=float("-inf"))
    for k in tl.static_range(TOP):
        most, at = tl.max(x, 1), tl.argmax(x, 1)
        tl.store(y_ptr + r * TOP + k, most, mask=r < rows)
        x = tl.where(c == at[:, None], float("-inf"), x)


@triton.jit
def pack_bits(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """A bit of each of 32 numbers: whether it is above 0."""
    i, k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + i[:, None] * 32 + k, mask=(i < n)[:, None], other=0.0)
    tl.store(y_ptr + i, tl.sum((x > 0).to(tl.int32) << k, 1), mask=i < n)


@triton.jit
def dropout(x_ptr, r_ptr, y_ptr, n, seed, BLOCK: tl.constexpr):
    """Residual and what is left of a tensor where each element is kept with a chance of 0.9."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, r = tl.load(x_ptr + i, mask=i < n).to(tl.float32), tl.load(r_ptr + i, mask=i < n).to(tl.float32)
    y = tl.where(tl.rand(seed, i) < 0.9, x * (1 / 0.9), 0.0) + r
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def ternary_gemv(w_ptr, x_ptr, s_ptr, y_ptr, rows, COLS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr):
    """Weights of two bits, 16 in a word, by a vector, times a scale of each row."""
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    acc, bit = tl.zeros((BLOCK_R,), tl.float32), tl.arange(0, 16)
    for k in range(0, COLS // 16, BLOCK_K):
        word = k + tl.arange(0, BLOCK_K)
        packed = tl.load(w_ptr + r[:, None] * (COLS // 16) + word[None, :], mask=(r < rows)[:, None], other=0)
        x = tl.load(x_ptr + word[:, None] * 16 + bit[None, :]).to(tl.float32)
        w = ((packed[:, :, None] >> (2 * bit)[None, None, :]) & 3) - 1
        acc += tl.sum(tl.sum(w.to(tl.float32) * x[None, :, :], 2), 1)
    tl.store(y_ptr + r, acc * tl.load(s_ptr + r, mask=r < rows, other=0.0), mask=r < rows)


@triton.jit
def adam_chunks(p_ptr, g_ptr, m_ptr, v_ptr, first_ptr, size_ptr, y_ptr, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """A step of Adam over many tensors: a program has a chunk of one, whose begin and size tables say."""
    first, size = tl.load(first_ptr + tl.program_id(0)), tl.load(size_ptr + tl.program_id(0))
    for k in range(0, CHUNK, BLOCK):
        i = k + tl.arange(0, BLOCK)
        mask, at = i < size, first + i
        g = tl.load(g_ptr + at, mask=mask, other=0.0).to(tl.float32)
        m = 0.9 * tl.load(m_ptr + at, mask=mask, other=0.0) + 0.1 * g
        v = 0.999 * tl.load(v_ptr + at, mask=mask, other=0.0) + 0.001 * g * g
        y = tl.load(p_ptr + at, mask=mask, other=0.0) - 1e-3 * m / (tl.sqrt(tl.abs(v)) + 1e-3)
        tl.store(m_ptr + at, m, mask=mask)
        tl.store(v_ptr + at, v, mask=mask)
        tl.store(y_ptr + at, y, mask=mask)
