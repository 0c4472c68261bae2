"""Short Triton kernels of transforms, stereo, gradients, sparse rows, runs, scans, sorts: a tenth zoo."""

import triton
import triton.language as tl


@triton.jit
def _across(x, r, c, high, wide, mask):
    """Four columns of a row of patches, as Winograd's input transform takes them."""
    x, mask = x + r * wide + c, mask & (r >= 0) & (r < high)
    a = tl.load(x, mask=mask & (c >= 0), other=0.0).to(tl.float32)
    b = tl.load(x + 1, mask=mask, other=0.0).to(tl.float32)
    d = tl.load(x + 2, mask=mask, other=0.0).to(tl.float32)
    e = tl.load(x + 3, mask=mask & (c + 3 < wide), other=0.0).to(tl.float32)
    return a - d, b + d, d - b, b - e


@triton.jit
def _down(y, a, b, c, d, apart, mask):
    """The same along columns, stored in four planes that are `apart`."""
    to = y.dtype.element_ty
    tl.store(y, (a - c).to(to), mask=mask)
    tl.store(y + 4 * apart, (b + c).to(to), mask=mask)
    tl.store(y + 8 * apart, (c - b).to(to), mask=mask)
    tl.store(y + 12 * apart, (b - d).to(to), mask=mask)


@triton.jit
def winograd_input(x_ptr, y_ptr, high, wide, BLOCK: tl.constexpr):
    """Patches of 4 x 4 that are 2 apart, as 16 planes of what Winograd's products take; even sizes, zeros outside."""
    t, tiles = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), (high // 2) * (wide // 2)
    r, c, mask = t // (wide // 2) * 2 - 1, t % (wide // 2) * 2 - 1, t < tiles
    x, apart = x_ptr + tl.program_id(1) * high * wide, tl.num_programs(1) * tiles
    a0, a1, a2, a3 = _across(x, r, c, high, wide, mask)
    b0, b1, b2, b3 = _across(x, r + 1, c, high, wide, mask)
    c0, c1, c2, c3 = _across(x, r + 2, c, high, wide, mask)
    d0, d1, d2, d3 = _across(x, r + 3, c, high, wide, mask)
    y = y_ptr + tl.program_id(1) * tiles + t
    _down(y, a0, b0, c0, d0, apart, mask)
    _down(y + apart, a1, b1, c1, d1, apart, mask)
    _down(y + 2 * apart, a2, b2, c2, d2, apart, mask)
    _down(y + 3 * apart, a3, b3, c3, d3, apart, mask)


@triton.jit
def cost_volume(a_ptr, b_ptr, y_ptr, high, wide, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """Products over channels of an image's pixels and those of another that lie further left: by how far."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, away, acc = tl.program_id(1), tl.program_id(2), tl.zeros((BLOCK,), tl.float32)
    for k in range(CHANNELS):
        at = (k * high + row) * wide + c
        a = tl.load(a_ptr + at, mask=c < wide, other=0.0).to(tl.float32)
        acc += a * tl.load(b_ptr + at - away, mask=(c < wide) & (c >= away), other=0.0).to(tl.float32)
    tl.store(y_ptr + (away * high + row) * wide + c, acc, mask=c < wide)


@triton.jit
def _pixel(x_ptr, r, c, high, wide):
    return tl.load(x_ptr + r * wide + c, mask=(r >= 0) & (r < high) & (c >= 0) & (c < wide), other=0).to(tl.int32)


@triton.jit
def demosaic(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Three colours from one of each pixel (red and green in even rows, green and blue in odd ones)."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    own = _pixel(x_ptr, r, c, high, wide)
    side = _pixel(x_ptr, r, c - 1, high, wide) + _pixel(x_ptr, r, c + 1, high, wide)
    above = _pixel(x_ptr, r - 1, c, high, wide) + _pixel(x_ptr, r + 1, c, high, wide)
    corner = _pixel(x_ptr, r - 1, c - 1, high, wide) + _pixel(x_ptr, r - 1, c + 1, high, wide)
    corner += _pixel(x_ptr, r + 1, c - 1, high, wide) + _pixel(x_ptr, r + 1, c + 1, high, wide)
    even_r, even_c = r % 2 == 0, c % 2 == 0
    red = tl.where(even_r, tl.where(even_c, own, side // 2), tl.where(even_c, above // 2, corner // 4))
    blue = tl.where(even_r, tl.where(even_c, corner // 4, above // 2), tl.where(even_c, side // 2, own))
    green = tl.where(even_r == even_c, (side + above) // 4, own)
    y, mask = y_ptr + (r * wide + c) * 3, (r < high) & (c < wide)
    tl.store(y, red.to(tl.uint8), mask=mask)
    tl.store(y + 1, green.to(tl.uint8), mask=mask)
    tl.store(y + 2, blue.to(tl.uint8), mask=mask)


@triton.jit
def enlarge_learned(x_ptr, w_ptr, y_ptr, channels, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A depthwise transposed convolution of 4 x 4 with stride 2; NCHW."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    plane, acc = tl.program_id(2), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for k in tl.static_range(4):
        i, j = (r + 1) // 2 - k // 2, (c + 1) // 2 - k % 2
        w = w_ptr + plane % channels * 16 + ((r + 1) % 2 + k // 2 * 2) * 4 + (c + 1) % 2 + k % 2 * 2
        inside = (i >= 0) & (i < high) & (j >= 0) & (j < wide)
        x = tl.load(x_ptr + (plane * high + i) * wide + j, mask=inside, other=0.0).to(tl.float32)
        acc += x * tl.load(w)
    y = y_ptr + (plane * 2 * high + r) * 2 * wide + c
    tl.store(y, acc.to(y_ptr.dtype.element_ty), mask=(r < 2 * high) & (c < 2 * wide))


@triton.jit
def sample_backward(g_ptr, u_ptr, v_ptr, y_ptr, n, high, wide, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of an image that was sampled between its pixels: each sample adds to four."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u, v = tl.load(u_ptr + i, mask=i < n, other=0.0), tl.load(v_ptr + i, mask=i < n, other=0.0)
    c, r = u.to(tl.int32), v.to(tl.int32)
    u, v, at = u - c, v - r, r * wide + c
    for k in range(CHANNELS):
        g, y = tl.load(g_ptr + k * n + i, mask=i < n, other=0.0), y_ptr + k * high * wide + at
        tl.atomic_add(y, g * (1 - u) * (1 - v), mask=i < n, sem="relaxed")
        tl.atomic_add(y + 1, g * u * (1 - v), mask=i < n, sem="relaxed")
        tl.atomic_add(y + wide, g * (1 - u) * v, mask=i < n, sem="relaxed")
        tl.atomic_add(y + wide + 1, g * u * v, mask=i < n, sem="relaxed")


@triton.jit
def rows_histogram(x_ptr, y_ptr, rows, cols, BINS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """How often each row has each value."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=mask, other=0).to(tl.int32)
    tl.atomic_add(y_ptr + r * BINS + x, 1, mask=mask, sem="relaxed")


@triton.jit
def coo_rows(row_ptr, col_ptr, v_ptr, x_ptr, y_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """A sparse matrix by a dense one: each entry adds a row, times its value, to a row."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    row, col = tl.load(row_ptr + t, mask=t < n, other=0), tl.load(col_ptr + t, mask=t < n, other=0)
    v, mask = tl.load(v_ptr + t, mask=t < n, other=0.0), (t < n)[:, None] & (c < width)
    x = tl.load(x_ptr + col[:, None] * width + c, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + row[:, None] * width + c, v[:, None] * x, mask=mask, sem="relaxed")


@triton.jit
def pool_gradient(g_ptr, at_ptr, y_ptr, n, size, BLOCK: tl.constexpr):
    """The gradient of a pooled image goes to the pixel that was the largest of each window."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.program_id(1) * n + i
    at = tl.load(at_ptr + own, mask=i < n, other=0)
    g = tl.load(g_ptr + own, mask=i < n, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + tl.program_id(1) * size + at, g, mask=i < n, sem="relaxed")


@triton.jit
def spmm_rows(start_ptr, col_ptr, v_ptr, x_ptr, y_ptr, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr,
              BLOCK_C: tl.constexpr):  # fmt: skip
    """A sparse matrix in rows by a dense one: a program has a row, and some columns of the result."""
    r, c = tl.program_id(0), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    first, last = tl.load(start_ptr + r), tl.load(start_ptr + r + 1)
    acc = tl.zeros((BLOCK_C,), tl.float32)
    for k in range(first, last, BLOCK_T):
        t = k + tl.arange(0, BLOCK_T)
        col, v = tl.load(col_ptr + t, mask=t < last, other=0), tl.load(v_ptr + t, mask=t < last, other=0.0)
        mask = (t < last)[:, None] & (c < WIDTH)[None, :]
        x = tl.load(x_ptr + col[:, None] * WIDTH + c[None, :], mask=mask, other=0.0)
        acc += tl.sum(v[:, None] * x.to(tl.float32), 0)
    tl.store(y_ptr + r * WIDTH + c, acc, mask=c < WIDTH)


@triton.jit
def expand_runs(end_ptr, value_ptr, y_ptr, n, runs, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Runs of equal values, of which it is known where each ends, written out."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low, high = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32) + runs
    for _ in range(STEPS):
        middle = (low + high) // 2
        ended = tl.load(end_ptr + middle, mask=low < high, other=0) <= i
        low, high = tl.where(ended & (low < high), middle + 1, low), tl.where(ended, high, middle)
    tl.store(y_ptr + i, tl.load(value_ptr + low, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def gathered_products(x_ptr, at_ptr, w_ptr, y_ptr, n, TAPS: tl.constexpr, WIDTH: tl.constexpr, OUT: tl.constexpr,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """A convolution over points: of each tap the neighbour's row, if there is one, times the tap's matrix."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    o, acc = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for tap in range(TAPS):
        at = tl.load(at_ptr + tap * n + m, mask=m < n, other=-1)
        for j in range(0, WIDTH, BLOCK_K):
            k = j + tl.arange(0, BLOCK_K)
            x = tl.load(x_ptr + at[:, None] * WIDTH + k[None, :], mask=(at >= 0)[:, None], other=0.0)
            acc = tl.dot(x, tl.load(w_ptr + (tap * WIDTH + k)[:, None] * OUT + o[None, :]), acc)
    y = y_ptr + m[:, None] * OUT + o[None, :]
    tl.store(y, acc.to(y_ptr.dtype.element_ty), mask=(m < n)[:, None])


@triton.jit
def fft_pass(re_ptr, im_ptr, cos_ptr, sin_ptr, y_ptr, z_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """One pass of a transform of Fourier by fours, which also sorts (Stockham)."""
    j, signal = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * n
    k, mask, to = j % STRIDE, j < n // 4, j // STRIDE * 4 * STRIDE
    re, im = re_ptr + signal + j, im_ptr + signal + j
    a, b = tl.load(re, mask=mask, other=0.0), tl.load(im, mask=mask, other=0.0)
    x, y = tl.load(re + n // 4, mask=mask, other=0.0), tl.load(im + n // 4, mask=mask, other=0.0)
    u, v = tl.load(cos_ptr + k), tl.load(sin_ptr + k)
    c, d = x * u - y * v, x * v + y * u
    x, y = tl.load(re + n // 2, mask=mask, other=0.0), tl.load(im + n // 2, mask=mask, other=0.0)
    u, v = tl.load(cos_ptr + 2 * k), tl.load(sin_ptr + 2 * k)
    e, f = x * u - y * v, x * v + y * u
    x, y = tl.load(re + n // 4 * 3, mask=mask, other=0.0), tl.load(im + n // 4 * 3, mask=mask, other=0.0)
    u, v = tl.load(cos_ptr + 3 * k), tl.load(sin_ptr + 3 * k)
    g, h = x * u - y * v, x * v + y * u
    y, z = y_ptr + signal + to + k, z_ptr + signal + to + k
    tl.store(y, a + c + e + g, mask=mask)
    tl.store(z, b + d + f + h, mask=mask)
    tl.store(y + STRIDE, a + d - e - h, mask=mask)
    tl.store(z + STRIDE, b - c - f + g, mask=mask)
    tl.store(y + 2 * STRIDE, a - c + e - g, mask=mask)
    tl.store(z + 2 * STRIDE, b - d + f - h, mask=mask)
    tl.store(y + 3 * STRIDE, a - d - e + h, mask=mask)
    tl.store(z + 3 * STRIDE, b + c - f - g, mask=mask)


@triton.jit
def _then(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence(a_ptr, b_ptr, y_ptr, rows, COLS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """h = a h + b along each row, some columns at once."""
    r, c = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_C)[None, :]
    h, mask = tl.zeros((BLOCK_R,), tl.float32), (r < rows)[:, None]
    for k in range(0, COLS, BLOCK_C):
        at = r[:, None] * COLS + k + c
        a, b = tl.load(a_ptr + at, mask=mask, other=0.0), tl.load(b_ptr + at, mask=mask, other=0.0)
        a, b = tl.associative_scan((a.to(tl.float32), b.to(tl.float32)), 1, _then)
        b += a * h[:, None]
        tl.store(y_ptr + at, b, mask=mask)
        h = tl.sum(tl.where(c == BLOCK_C - 1, b, 0.0), 1)


@triton.jit
def _within(a, x, b, y):
    return a | b, tl.where(b != 0, y, x + y)


@triton.jit
def runs_total(flag_ptr, x_ptr, y_ptr, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Sums so far, begun anew wherever a flag is set and with each program's first."""
    own, c = tl.program_id(0) * EACH, tl.arange(0, BLOCK)
    so_far = 0.0
    for k in range(0, EACH, BLOCK):
        flag, x = tl.load(flag_ptr + own + k + c).to(tl.int32), tl.load(x_ptr + own + k + c)
        flag, x = tl.associative_scan((flag, x), 0, _within)
        x += tl.where(flag != 0, 0.0, so_far)
        tl.store(y_ptr + own + k + c, x)
        so_far = tl.sum(tl.where(c == BLOCK - 1, x, 0.0))


@triton.jit
def sort_rows(x_ptr, y_ptr, rows, COLS: tl.constexpr, BLOCK_R: tl.constexpr):
    """Each row in order."""
    r, c = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None], tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + r * COLS + c, mask=r < rows, other=0.0)
    tl.store(y_ptr + r * COLS + c, tl.sort(x, 1), mask=r < rows)


@triton.jit
def threshold_rows(x_ptr, y_ptr, rows, cols, TOP: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK: tl.constexpr):
    """The TOP largest of each row, zeros elsewhere: what they lie above is found by halving."""
    r, c = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None], tl.arange(0, BLOCK)[None, :]
    mask = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=mask, other=-8.0).to(tl.float32)
    low, high = tl.zeros((BLOCK_R,), tl.float32) - 8.0, tl.zeros((BLOCK_R,), tl.float32) + 8.0
    for _ in range(16):
        middle = (low + high) * 0.5
        enough = tl.sum((x >= middle[:, None]).to(tl.int32), 1) >= TOP
        low, high = tl.where(enough, middle, low), tl.where(enough, high, middle)
    tl.store(y_ptr + r * cols + c, tl.where(x >= low[:, None], x, 0.0).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def lstm_cell(g_ptr, c_ptr, y_ptr, z_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """What follows from the four gates of each cell and its state."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask, g, at = (r < rows) & (c < cols), g_ptr + r * 4 * cols + c, r * cols + c
    a = tl.sigmoid(tl.load(g, mask=mask, other=0.0).to(tl.float32))
    b = tl.sigmoid(tl.load(g + cols, mask=mask, other=0.0).to(tl.float32))
    d = 2 * tl.sigmoid(2 * tl.load(g + 2 * cols, mask=mask, other=0.0).to(tl.float32)) - 1
    e = tl.sigmoid(tl.load(g + 3 * cols, mask=mask, other=0.0).to(tl.float32))
    z = b * tl.load(c_ptr + at, mask=mask, other=0.0) + a * d
    tl.store(z_ptr + at, z, mask=mask)
    tl.store(y_ptr + at, (e * (2 * tl.sigmoid(2 * z) - 1)).to(y_ptr.dtype.element_ty), mask=mask)
