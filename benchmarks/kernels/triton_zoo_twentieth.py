"""Triton kernels of blocks, caches, buckets, splats, spectra, sketches, gradients, wavelets and sequences: a twentieth
zoo."""

import triton
import triton.language as tl


@triton.jit
def _bucket(key, BITS: tl.constexpr):
    mixed = key.to(tl.uint32) * 2246822519
    return ((mixed ^ (mixed >> 13)) * 3266489917 >> (32 - BITS)).to(tl.int32)


@triton.jit
def bsr_rows(start_ptr, col_ptr, block_ptr, x_ptr, y_ptr, SIZE: tl.constexpr, EACH: tl.constexpr):
    """A matrix of dense blocks in sparse rows, times a vector; a row of blocks a program, EACH at once."""
    row, b = tl.program_id(0), tl.arange(0, EACH)
    s = tl.arange(0, SIZE)
    first, end = tl.load(start_ptr + row), tl.load(start_ptr + row + 1)
    total = tl.zeros((EACH, SIZE, SIZE), tl.float32)
    for begin in range(first, end, EACH):
        mask = begin + b < end
        col = tl.load(col_ptr + begin + b, mask=mask, other=0)
        x = tl.load(x_ptr + col[:, None] * SIZE + s[None, :], mask=mask[:, None], other=0.0).to(tl.float32)
        at = (begin + b)[:, None, None] * (SIZE * SIZE) + s[None, :, None] * SIZE + s[None, None, :]
        block = tl.load(block_ptr + at, mask=mask[:, None, None], other=0.0).to(tl.float32)
        total += block * x[:, None, :]
    tl.store(y_ptr + row * SIZE + s, tl.sum(tl.sum(total, 2), 0))


@triton.jit
def cache_of_tokens(seq_ptr, place_ptr, table_ptr, cache_ptr, y_ptr, n, width, pages, PAGE: tl.constexpr,
                    BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Rows of a paged cache one behind another: a token knows its sequence and its place there."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    seq, place = tl.load(seq_ptr + t, mask=t < n, other=0), tl.load(place_ptr + t, mask=t < n, other=0)
    page = tl.load(table_ptr + seq * pages + place // PAGE, mask=t < n, other=0)
    mask, row = (t < n)[:, None] & (c < width)[None, :], page * PAGE + place % PAGE
    x = tl.load(cache_ptr + row[:, None] * width + c[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + t[:, None] * width + c[None, :], x, mask=mask)


@triton.jit
def bucket_probe(key_ptr, slot_ptr, value_ptr, y_ptr, n, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """A key is one of the four of its bucket, or of none."""
    at, k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 4)
    key = tl.load(key_ptr + at, mask=at < n, other=0)
    slot = _bucket(key, BITS)[:, None] * 4 + k[None, :]
    found = (tl.load(slot_ptr + slot) == key[:, None]) & (at < n)[:, None]
    value = tl.load(value_ptr + slot, mask=found, other=-1)
    tl.store(y_ptr + at, tl.max(value, 1), mask=at < n)


@triton.jit
def rasterise(start_ptr, id_ptr, middle_ptr, shape_ptr, colour_ptr, y_ptr, across, BLOCK: tl.constexpr):
    """Pixels of a tile of 16 by 16 under the splats of its list, front to back."""
    tile, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u = (tile % across * 16 + at % 16).to(tl.float32)
    v = (tile // across * 16 + at // 16).to(tl.float32)
    red, green, blue = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    left = tl.zeros((BLOCK,), tl.float32) + 1.0
    for i in range(tl.load(start_ptr + tile), tl.load(start_ptr + tile + 1)):
        one = tl.load(id_ptr + i)
        du, dv = u - tl.load(middle_ptr + 2 * one), v - tl.load(middle_ptr + 2 * one + 1)
        power = tl.load(shape_ptr + 3 * one) * du * du + tl.load(shape_ptr + 3 * one + 2) * dv * dv
        power = 0.5 * power + tl.load(shape_ptr + 3 * one + 1) * du * dv
        share = tl.minimum(tl.load(colour_ptr + 4 * one + 3) * tl.exp(-power), 0.99) * left
        red += share * tl.load(colour_ptr + 4 * one)
        green += share * tl.load(colour_ptr + 4 * one + 1)
        blue += share * tl.load(colour_ptr + 4 * one + 2)
        left -= share
    first = y_ptr + (tile * 256 + at) * 3
    tl.store(first, red)
    tl.store(first + 1, green)
    tl.store(first + 2, blue)


@triton.jit
def renormalise_top(logit_ptr, id_ptr, y_ptr, n, words, EACH: tl.constexpr, BLOCK_T: tl.constexpr):
    """The shares of a row's chosen words among themselves."""
    t, k = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, EACH)
    mask, at = (t < n)[:, None], t[:, None] * EACH + k[None, :]
    id = tl.load(id_ptr + at, mask=mask, other=0)
    x = tl.load(logit_ptr + t[:, None] * words + id, mask=mask, other=0.0).to(tl.float32)
    share = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(y_ptr + at, share / tl.sum(share, 1)[:, None], mask=mask)


@triton.jit
def unpack_symmetric(x_ptr, y_ptr, n, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Symmetric matrices from the rows of their lower halves."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    plane, mask = tl.program_id(2), (r < n) & (c < n)
    low, high = tl.minimum(r, c), tl.maximum(r, c)
    x = tl.load(x_ptr + plane * (n * (n + 1) // 2) + high * (high + 1) // 2 + low, mask=mask)
    tl.store(y_ptr + (plane * n + r) * n + c, x, mask=mask)


@triton.jit
def _spread(x):
    x = (x | (x << 8)) & 0x00FF00FF
    x = (x | (x << 4)) & 0x0F0F0F0F
    x = (x | (x << 2)) & 0x33333333
    return (x | (x << 1)) & 0x55555555


@triton.jit
def from_morton(x_ptr, y_ptr, SIDE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A picture whose pixels lie along a curve of Z's, in rows."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    tl.store(y_ptr + r * SIDE + c, tl.load(x_ptr + (_spread(r) * 2 | _spread(c))))


@triton.jit
def polar_view(x_ptr, y_ptr, angles, SIDE: tl.constexpr, RADII: tl.constexpr, BLOCK: tl.constexpr):
    """A picture by angle and distance from its middle, between the four pixels around each."""
    plane, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, angle = at < RADII * angles, (at % angles).to(tl.float32) * (6.2831853 / angles)
    radius = (at // angles).to(tl.float32) * (SIDE / 2 - 1.5) / RADII
    u, v = SIDE / 2 + radius * tl.cos(angle), SIDE / 2 + radius * tl.sin(angle)
    i, j = u.to(tl.int32), v.to(tl.int32)
    u, v, first = u - i, v - j, x_ptr + (plane * SIDE + i) * SIDE + j
    low = tl.load(first, mask=mask) * (1 - v) + tl.load(first + 1, mask=mask) * v
    high = tl.load(first + SIDE, mask=mask) * (1 - v) + tl.load(first + SIDE + 1, mask=mask) * v
    tl.store(y_ptr + plane * RADII * angles + at, low * (1 - u) + high * u, mask=mask)


@triton.jit
def int4_rows(id_ptr, table_ptr, y_ptr, n, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Rows of four bits a number; the word before them has their scale and their least."""
    t, d = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)
    mask = (t < n)[:, None]
    first = table_ptr + tl.load(id_ptr + t, mask=t < n, other=0) * (WIDTH // 8 + 1)
    head = tl.load(first, mask=t < n, other=0)
    scale, least = (head & 0xFFFF).to(tl.float32) / 65536, (head >> 16).to(tl.float32) / 256
    word = tl.load(first[:, None] + 1 + d[None, :] // 8, mask=mask, other=0)
    y = ((word >> (d % 8 * 4)[None, :]) & 15).to(tl.float32) * scale[:, None] + least[:, None]
    tl.store(y_ptr + t[:, None] * WIDTH + d[None, :], y.to(tl.float16), mask=mask)


@triton.jit
def sample_neighbours(seed_ptr, u_ptr, start_ptr, col_ptr, y_ptr, n, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """EACH of a node's neighbours by chance; none of a node that has none."""
    t, k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, EACH)
    seed = tl.load(seed_ptr + t, mask=t < n, other=0)
    first = tl.load(start_ptr + seed)
    has = tl.load(start_ptr + seed + 1) - first
    at = t[:, None] * EACH + k[None, :]
    u = tl.load(u_ptr + at, mask=(t < n)[:, None], other=0.0)
    pick = first[:, None] + (u * has[:, None]).to(tl.int32)
    y = tl.load(col_ptr + pick, mask=((t < n) & (has > 0))[:, None], other=-1)
    tl.store(y_ptr + at, y, mask=(t < n)[:, None])


@triton.jit
def take_strings(id_ptr, from_ptr, to_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Strings of a column in another order, a string a program."""
    one, at = tl.program_id(0), tl.arange(0, BLOCK)
    id, first = tl.load(id_ptr + one), tl.load(to_ptr + one)
    begin = tl.load(from_ptr + id)
    size = tl.load(from_ptr + id + 1) - begin
    for k in range(0, size, BLOCK):
        x = tl.load(x_ptr + begin + k + at, mask=k + at < size)
        tl.store(y_ptr + first + k + at, x, mask=k + at < size)


@triton.jit
def last_norms(x_ptr, start_ptr, w_ptr, y_ptr, width, BLOCK_C: tl.constexpr):
    """The last row of each sequence over the root of its mean square."""
    seq, c = tl.program_id(0), tl.arange(0, BLOCK_C)
    row = x_ptr + (tl.load(start_ptr + seq + 1) - 1) * width
    total = tl.zeros((BLOCK_C,), tl.float32)
    for k in range(0, width, BLOCK_C):
        x = tl.load(row + k + c, mask=k + c < width, other=0.0).to(tl.float32)
        total += x * x
    scale = tl.rsqrt(tl.sum(total, 0) / width + 1e-6)
    for k in range(0, width, BLOCK_C):
        x = tl.load(row + k + c, mask=k + c < width, other=0.0).to(tl.float32)
        y = x * scale * tl.load(w_ptr + k + c, mask=k + c < width, other=0.0)
        tl.store(y_ptr + seq * width + k + c, y.to(y_ptr.dtype.element_ty), mask=k + c < width)


@triton.jit
def transposed_csr(start_ptr, col_ptr, v_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    """The transpose of sparse rows times a vector: a row a program adds to where its columns say."""
    row = tl.program_id(0)
    first, end, x = tl.load(start_ptr + row), tl.load(start_ptr + row + 1), tl.load(x_ptr + row)
    for k in range(first, end, BLOCK):
        at = k + tl.arange(0, BLOCK)
        col, v = tl.load(col_ptr + at, mask=at < end, other=0), tl.load(v_ptr + at, mask=at < end, other=0.0)
        tl.atomic_add(y_ptr + col, v * x, mask=at < end, sem="relaxed")


@triton.jit
def magnitude_bins(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """How many numbers are of each size, eight bins an octave."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(y_ptr + ((x.to(tl.int32, bitcast=True) >> 20) & 2047), 1, mask=at < n, sem="relaxed")


@triton.jit
def spread_spectrum(u_ptr, v_ptr, re_ptr, im_ptr, y_ptr, n, SIDE: tl.constexpr, WIDE: tl.constexpr,
                    BLOCK: tl.constexpr):  # fmt: skip
    """Complex samples at uneven places onto WIDE by WIDE cells of a grid that closes around."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u, v = tl.load(u_ptr + at, mask=at < n, other=0.0), tl.load(v_ptr + at, mask=at < n, other=0.0)
    re, im = tl.load(re_ptr + at, mask=at < n, other=0.0), tl.load(im_ptr + at, mask=at < n, other=0.0)
    i, j = u.to(tl.int32), v.to(tl.int32)
    for a in tl.static_range(WIDE):
        du = (u - i - (a - WIDE // 2)) * (2.0 / WIDE)
        for b in tl.static_range(WIDE):
            dv = (v - j - (b - WIDE // 2)) * (2.0 / WIDE)
            share = (1.5 - du * du) * (1.5 - dv * dv)
            cell = (i + SIDE + a - WIDE // 2) % SIDE * SIDE + (j + SIDE + b - WIDE // 2) % SIDE
            tl.atomic_add(y_ptr + 2 * cell, share * re, mask=at < n, sem="relaxed")
            tl.atomic_add(y_ptr + 2 * cell + 1, share * im, mask=at < n, sem="relaxed")


@triton.jit
def chamfer_grad(a_ptr, b_ptr, near_ptr, g_ptr, own_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The gradient of each point's distance to its nearest of another cloud, in both clouds."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    near, g = tl.load(near_ptr + at, mask=at < n, other=0), tl.load(g_ptr + at, mask=at < n, other=0.0)
    for k in tl.static_range(3):
        away = tl.load(a_ptr + 3 * at + k, mask=at < n, other=0.0) - tl.load(b_ptr + 3 * near + k)
        tl.store(own_ptr + 3 * at + k, 2 * g * away, mask=at < n)
        tl.atomic_add(y_ptr + 3 * near + k, -2 * g * away, mask=at < n, sem="relaxed")


@triton.jit
def token_counts(token_ptr, length_ptr, y_ptr, most, words, BLOCK: tl.constexpr):
    """How often each word is in each of uneven sequences."""
    seq, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < tl.load(length_ptr + seq)
    token = tl.load(token_ptr + seq * most + at, mask=mask, other=0)
    tl.atomic_add(y_ptr + seq * words + token, 1, mask=mask, sem="relaxed")


@triton.jit
def queries_grad(q_ptr, k_ptr, v_ptr, g_ptr, lse_ptr, delta_ptr, y_ptr, n, scale, WIDTH: tl.constexpr,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """Attention's gradient of queries, to which each block of keys adds its part."""
    head, d, m = tl.program_id(1), tl.arange(0, WIDTH), tl.arange(0, BLOCK_M)
    keys = (head * n + tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[:, None] * WIDTH + d[None, :]
    k, v = tl.load(k_ptr + keys), tl.load(v_ptr + keys)
    for first in range(0, n, BLOCK_M):
        row = head * n + first + m
        at = row[:, None] * WIDTH + d[None, :]
        p = tl.exp(tl.dot(tl.load(q_ptr + at), tl.trans(k)) * scale - tl.load(lse_ptr + row)[:, None])
        ds = p * (tl.dot(tl.load(g_ptr + at), tl.trans(v)) - tl.load(delta_ptr + row)[:, None]) * scale
        tl.atomic_add(y_ptr + at, tl.dot(ds.to(tl.float16), k), sem="relaxed")


@triton.jit
def channel_peaks(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """The largest magnitude of each column, as the bits of a float."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    x = tl.load(x_ptr + r * cols + c[None, :], mask=(r < rows) & (c < cols)[None, :], other=0.0).to(tl.float32)
    peak = tl.max(tl.abs(x), 0).to(tl.int32, bitcast=True)
    tl.atomic_max(y_ptr + c, peak, mask=c < cols, sem="relaxed")


@triton.jit
def sketch_distinct(key_ptr, y_ptr, n, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Of the keys that fall to a register, the most zeros that one's hash begins with."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = tl.load(key_ptr + at, mask=at < n, other=0).to(tl.uint32) * 2246822519
    mixed = (mixed ^ (mixed >> 13)) * 3266489917
    rest = ((mixed & 0xFFFF) | 1).to(tl.float32).to(tl.int32, bitcast=True) >> 23
    tl.atomic_max(y_ptr + (mixed >> (32 - BITS)).to(tl.int32), 143 - rest, mask=at < n, sem="relaxed")


@triton.jit
def lift_rows(x_ptr, low_ptr, high_ptr, n, BLOCK: tl.constexpr):
    """A row's reversible wavelet: differences from the mean of two neighbours, and what they leave; edges repeat."""
    row, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, mask = x_ptr + row * 2 * n, i < n
    before = tl.load(x + 2 * tl.maximum(i - 1, 0), mask=mask, other=0).to(tl.int32)
    odd = tl.load(x + 2 * tl.maximum(i - 1, 0) + 1, mask=mask, other=0).to(tl.int32)
    even = tl.load(x + 2 * i, mask=mask, other=0).to(tl.int32)
    own = tl.load(x + 2 * i + 1, mask=mask, other=0).to(tl.int32)
    after = tl.load(x + 2 * tl.minimum(i + 1, n - 1), mask=mask, other=0).to(tl.int32)
    behind = odd - ((before + even) >> 1)
    high = own - ((even + after) >> 1)
    low = even + ((tl.where(i > 0, behind, high) + high + 2) >> 2)
    tl.store(low_ptr + row * n + i, low.to(low_ptr.dtype.element_ty), mask=mask)
    tl.store(high_ptr + row * n + i, high.to(high_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _slope(a, b):
    return tl.where(a * b > 0, tl.where(tl.abs(a) < tl.abs(b), a, b), 0.0)


@triton.jit
def limited_advection(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A step along both axes, its slopes the smaller of two differences."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None] + 2
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :] + 2
    mask, at = (r < high - 1) & (c < wide - 1), r * wide + c
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    y = x
    for axis in tl.static_range(2):
        step = 1 if axis == 0 else wide
        far = tl.load(x_ptr + at - 2 * step, mask=mask, other=0.0)
        near = tl.load(x_ptr + at - step, mask=mask, other=0.0)
        after = tl.load(x_ptr + at + step, mask=mask, other=0.0)
        out = x + 0.35 * _slope(x - near, after - x)
        y -= 0.3 * (out - near - 0.35 * _slope(near - far, x - near))
    tl.store(y_ptr + at, y, mask=mask)


@triton.jit
def median_of_frames(x_ptr, y_ptr, area, BLOCK: tl.constexpr):
    """Each pixel's median of five frames."""
    frame, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, mask = x_ptr + frame * area + at, at < area
    a, b = tl.load(first, mask=mask), tl.load(first + area, mask=mask)
    c, d = tl.load(first + 2 * area, mask=mask), tl.load(first + 3 * area, mask=mask)
    e = tl.load(first + 4 * area, mask=mask)
    a, b = tl.minimum(a, b), tl.maximum(a, b)
    d, e = tl.minimum(d, e), tl.maximum(d, e)
    low, high = tl.maximum(a, d), tl.minimum(b, e)
    y = tl.maximum(tl.minimum(low, high), tl.minimum(c, tl.maximum(low, high)))
    tl.store(y_ptr + frame * area + at, y, mask=mask)


@triton.jit
def gated_taps(x_ptr, w_ptr, y_ptr, channels, length, APART: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Two causal filters with gaps, one of which lets the other through."""
    batch, channel = tl.program_id(1) // channels, tl.program_id(1) % channels
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    row = x_ptr + (batch * 2 * channels + channel) * length
    for k in tl.static_range(TAPS):
        t = at - k * APART
        mask = (t >= 0) & (at < length)
        a += tl.load(row + t, mask=mask, other=0.0).to(tl.float32) * tl.load(w_ptr + channel * TAPS + k)
        x = tl.load(row + channels * length + t, mask=mask, other=0.0).to(tl.float32)
        b += x * tl.load(w_ptr + (channels + channel) * TAPS + k)
    y = (2 * tl.sigmoid(2 * a) - 1) * tl.sigmoid(b)
    tl.store(y_ptr + tl.program_id(1) * length + at, y.to(y_ptr.dtype.element_ty), mask=at < length)


@triton.jit
def soft_pool(x_ptr, y_ptr, high, wide, out_high, out_wide, SIDE: tl.constexpr, STEP: tl.constexpr,
              BLOCK: tl.constexpr):  # fmt: skip
    """Means of windows in which larger values weigh more."""
    o, plane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    mask, first = o < out_high * out_wide, x_ptr + plane * high * wide
    first += o // out_wide * STEP * wide + o % out_wide * STEP
    total, weight = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            x = tl.load(first + i * wide + j, mask=mask, other=0.0).to(tl.float32)
            total += tl.exp(x) * x
            weight += tl.exp(x)
    tl.store(y_ptr + plane * out_high * out_wide + o, (total / weight).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def stream_27(x_ptr, y_ptr, deep, high, wide, BLOCK: tl.constexpr):
    """Each of 27 populations moves a cell in its own direction; the box closes around."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cells = deep * high * wide
    i, j, k = at // (high * wide), at // wide % high, at % wide
    for way in tl.static_range(27):
        a, b, c = way // 9 - 1, way // 3 % 3 - 1, way % 3 - 1
        cell = ((i + deep - a) % deep * high + (j + high - b) % high) * wide + (k + wide - c) % wide
        x = tl.load(x_ptr + way * cells + cell, mask=at < cells)
        tl.store(y_ptr + way * cells + at, x, mask=at < cells)


@triton.jit
def overlap_add(frame_ptr, w_ptr, y_ptr, frames, samples, SIZE: tl.constexpr, HOP: tl.constexpr, BLOCK: tl.constexpr):
    """A signal from frames that overlap, each under a window."""
    batch, t = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(SIZE // HOP):
        frame, place = t // HOP - k, t % HOP + k * HOP
        mask = (frame >= 0) & (frame < frames) & (t < samples)
        x = tl.load(frame_ptr + (batch * frames + frame) * SIZE + place, mask=mask, other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + place)
    tl.store(y_ptr + batch * samples + t, total, mask=t < samples)


@triton.jit
def conv_of_sequences(x_ptr, seq_ptr, w_ptr, y_ptr, n, width, TAPS: tl.constexpr, BLOCK_T: tl.constexpr,
                      BLOCK_C: tl.constexpr):  # fmt: skip
    """A short causal filter that does not reach into the sequence before."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    own = tl.load(seq_ptr + t, mask=t < n, other=-1)
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in tl.static_range(TAPS):
        same = tl.load(seq_ptr + t - k, mask=(t >= k) & (t < n), other=-2) == own
        mask = same[:, None] & (c < width)[None, :]
        x = tl.load(x_ptr + (t - k)[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + c * TAPS + k, mask=c < width, other=0.0)[None, :]
    y = (total * tl.sigmoid(total)).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + t[:, None] * width + c[None, :], y, mask=(t < n)[:, None] & (c < width)[None, :])
