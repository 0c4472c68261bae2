"""Triton kernels of tables, hashes, splines, pages, meshes, codes, products, boxes and lattices: an eighteenth zoo."""

import triton
import triton.language as tl


@triton.jit
def _place(key, SEED: tl.constexpr, BITS: tl.constexpr):
    mixed = (key.to(tl.uint32) ^ SEED) * 2654435769
    return ((mixed ^ (mixed >> 15)) * 2246822519 >> (32 - BITS)).to(tl.int32)


@triton.jit
def cuckoo_lookup(key_ptr, slot_ptr, value_ptr, y_ptr, n, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """A key stands in one of two places of a table, or nowhere."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at, mask=at < n, other=0)
    a, b = _place(key, 0, BITS), _place(key, 77, BITS)
    in_a, in_b = tl.load(slot_ptr + a) == key, tl.load(slot_ptr + b) == key
    y = tl.load(value_ptr + tl.where(in_a, a, b), mask=(in_a | in_b) & (at < n), other=-1)
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def spline_edges(x_ptr, w_ptr, y_ptr, n, width, knots, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """A cubic spline for each feature: four of its coefficients, weighted by where between two knots the value is."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (t < n) & (c < width)
    x = tl.load(x_ptr + t * width + c, mask=mask, other=0.0).to(tl.float32)
    u = tl.minimum(tl.maximum(x * 0.25 + 0.5, 0.0), 0.9999) * knots
    i = u.to(tl.int32)
    u, at = u - i, w_ptr + c * (knots + 3) + i
    v = 1 - u
    y = v * v * v * tl.load(at, mask=mask, other=0.0)
    y += (3 * u * u * u - 6 * u * u + 4) * tl.load(at + 1, mask=mask, other=0.0)
    y += (3 * v * v * v - 6 * v * v + 4) * tl.load(at + 2, mask=mask, other=0.0)
    y += u * u * u * tl.load(at + 3, mask=mask, other=0.0)
    tl.store(y_ptr + t * width + c, (y / 6).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def tone_curves(x_ptr, table_ptr, y_ptr, area, levels, BLOCK: tl.constexpr):
    """A pixel of twelve or fewer bits becomes a byte by the table of its plane."""
    at, plane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    x = tl.load(x_ptr + plane * area + at, mask=at < area, other=0)
    tl.store(y_ptr + plane * area + at, tl.load(table_ptr + plane % 3 * levels + x), mask=at < area)


@triton.jit
def concat_ragged(a_ptr, b_ptr, from_a_ptr, from_b_ptr, y_ptr, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sequences of two lists, uneven in both, one behind the other."""
    c, seq = tl.arange(0, BLOCK_C), tl.program_id(0)
    a, b = tl.load(from_a_ptr + seq), tl.load(from_b_ptr + seq)
    in_a, in_b = tl.load(from_a_ptr + seq + 1) - a, tl.load(from_b_ptr + seq + 1) - b
    for first in range(0, in_a + in_b, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        of_a, of_b = t < in_a, (t >= in_a) & (t < in_a + in_b)
        x = tl.load(a_ptr + (a + t)[:, None] * width + c[None, :], mask=of_a[:, None] & (c < width)[None, :], other=0.0)
        z = tl.load(b_ptr + (b + t - in_a)[:, None] * width + c[None, :],
                    mask=of_b[:, None] & (c < width)[None, :], other=0.0)  # fmt: skip
        tl.store(y_ptr + (a + b + t)[:, None] * width + c[None, :], tl.where(of_a[:, None], x, z),
                 mask=(t < in_a + in_b)[:, None] & (c < width)[None, :])  # fmt: skip


@triton.jit
def sample_volume(place_ptr, x_ptr, y_ptr, n, SIDE: tl.constexpr, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Features at points in a volume, of the eight cells around each."""
    t, d = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)
    u = tl.load(place_ptr + t, mask=t < n, other=0.0) * (SIDE - 1)
    v = tl.load(place_ptr + n + t, mask=t < n, other=0.0) * (SIDE - 1)
    w = tl.load(place_ptr + 2 * n + t, mask=t < n, other=0.0) * (SIDE - 1)
    i, j, k = u.to(tl.int32), v.to(tl.int32), w.to(tl.int32)
    u, v, w = u - i, v - j, w - k
    y = tl.zeros((BLOCK_T, WIDTH), tl.float32)
    for corner in tl.static_range(8):
        a, b, c = corner // 4, corner // 2 % 2, corner % 2
        cell = ((i + a) * SIDE + j + b) * SIDE + k + c
        share = (u if a else 1 - u) * (v if b else 1 - v) * (w if c else 1 - w)
        x = tl.load(x_ptr + cell[:, None] * WIDTH + d[None, :], mask=(t < n)[:, None], other=0.0)
        y += share[:, None] * x.to(tl.float32)
    tl.store(y_ptr + t[:, None] * WIDTH + d[None, :], y.to(y_ptr.dtype.element_ty), mask=(t < n)[:, None])


@triton.jit
def page_walk(address_ptr, root_ptr, leaf_ptr, memory_ptr, y_ptr, n, LEAVES: tl.constexpr, PAGE: tl.constexpr,
              BLOCK: tl.constexpr):  # fmt: skip
    """Words at virtual addresses, by a table of tables of pages."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    address = tl.load(address_ptr + at, mask=at < n, other=0)
    table = tl.load(root_ptr + address // (LEAVES * PAGE))
    page = tl.load(leaf_ptr + table * LEAVES + address // PAGE % LEAVES)
    y = tl.load(memory_ptr + page * PAGE + address % PAGE, mask=at < n, other=0.0)
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def memory_values(row_ptr, col_ptr, score_ptr, value_ptr, y_ptr, side, width, EACH: tl.constexpr,
                  BLOCK_C: tl.constexpr):  # fmt: skip
    """Product keys: each of a token's chosen pairs names a row of values."""
    t, c = tl.program_id(0), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    y = tl.zeros((BLOCK_C,), tl.float32)
    for i in range(EACH):
        row = tl.load(row_ptr + t * EACH + i).to(tl.int64) * side + tl.load(col_ptr + t * EACH + i)
        x = tl.load(value_ptr + row * width + c, mask=c < width, other=0.0).to(tl.float32)
        y += tl.load(score_ptr + t * EACH + i) * x
    tl.store(y_ptr + t * width + c, y.to(y_ptr.dtype.element_ty), mask=c < width)


@triton.jit
def shade(face_ptr, share_ptr, corner_ptr, colour_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Pixels take the colours of their triangle's corners; those of no triangle are black."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    face = tl.load(face_ptr + at, mask=at < n, other=-1)
    red, green, blue = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(3):
        share = tl.load(share_ptr + k * n + at, mask=at < n, other=0.0)
        corner = tl.load(corner_ptr + 3 * face + k, mask=face >= 0, other=0)
        red += share * tl.load(colour_ptr + 3 * corner, mask=face >= 0, other=0.0)
        green += share * tl.load(colour_ptr + 3 * corner + 1, mask=face >= 0, other=0.0)
        blue += share * tl.load(colour_ptr + 3 * corner + 2, mask=face >= 0, other=0.0)
    tl.store(y_ptr + at, red, mask=at < n)
    tl.store(y_ptr + n + at, green, mask=at < n)
    tl.store(y_ptr + 2 * n + at, blue, mask=at < n)


@triton.jit
def rans_decode(state_ptr, word_ptr, slot_ptr, y_ptr, streams, count, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Streams side by side of an asymmetric numeral system: a slot holds its symbol, that one's share, and how far in;
    a state that runs low takes the stream's next 15 bits."""
    s = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.load(state_ptr + s, mask=s < streams, other=0)
    taken = tl.zeros((BLOCK,), tl.int32)
    for i in range(count):
        slot = tl.load(slot_ptr + (state & ((1 << BITS) - 1)))
        tl.store(y_ptr + i * streams + s, (slot & 255).to(tl.uint8), mask=s < streams)
        state = (state >> BITS) * ((slot >> 8) & 4095) + (slot >> 20)
        low = state < 65536
        word = tl.load(word_ptr + taken * streams + s, mask=low & (s < streams), other=0)
        state = tl.where(low, (state << 15) | word, state)
        taken += low.to(tl.int32)


@triton.jit
def act_order(q_ptr, group_ptr, scale_ptr, zero_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Four-bit weights whose rows lie in the order of their importance: each names its group."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < rows)[:, None] & (c < cols)[None, :]
    group = tl.load(group_ptr + r, mask=r < rows, other=0)
    word = tl.load(q_ptr + (r // 8)[:, None] * cols + c[None, :], mask=mask, other=0)
    zero = tl.load(zero_ptr + group[:, None] * (cols // 8) + (c // 8)[None, :], mask=mask, other=0)
    scale = tl.load(scale_ptr + group[:, None] * cols + c[None, :], mask=mask, other=0.0)
    w = ((word >> (r % 8 * 4)[:, None]) & 15) - ((zero >> (c % 8 * 4)[None, :]) & 15)
    tl.store(y_ptr + r[:, None] * cols + c[None, :], w.to(tl.float16) * scale, mask=mask)


@triton.jit
def scatter_top(value_ptr, id_ptr, y_ptr, n, width, EACH: tl.constexpr, BLOCK_T: tl.constexpr):
    """A token's largest activations back in its dense row."""
    t, k = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, EACH)
    at, mask = t[:, None] * EACH + k[None, :], (t < n)[:, None]
    id = tl.load(id_ptr + at, mask=mask, other=0)
    value = tl.load(value_ptr + at, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + t[:, None].to(tl.int64) * width + id, value, mask=mask, sem="relaxed")


@triton.jit
def spline_grad(x_ptr, g_ptr, y_ptr, n, width, knots, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """The gradient of each feature's coefficients: a value shares its own among the two knots next to it."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (t < n) & (c < width)
    x = tl.load(x_ptr + t * width + c, mask=mask, other=0.0)
    g = tl.load(g_ptr + t * width + c, mask=mask, other=0.0)
    u = tl.minimum(tl.maximum(x * 0.25 + 0.5, 0.0), 0.9999) * knots
    i = u.to(tl.int32)
    u, at = u - i, y_ptr + c * (knots + 1) + i
    tl.atomic_add(at, g * (1 - u), mask=mask, sem="relaxed")
    tl.atomic_add(at + 1, g * u, mask=mask, sem="relaxed")


@triton.jit
def group_products(x_ptr, group_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Products by group, less one, each compared and swapped until it is in."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0) * 0.01 + 1
    group = tl.load(group_ptr + at, mask=at < n, other=0)
    waits, old = at < n, tl.load(y_ptr + group)
    while tl.max(waits.to(tl.int32), 0) > 0:
        new = (old.to(tl.float32, bitcast=True) + 1) * x - 1
        there = tl.atomic_cas(y_ptr + group, tl.where(waits, old, -1), new.to(tl.int32, bitcast=True), sem="relaxed")
        waits &= there != old
        old = there


@triton.jit
def scatter_conv(x_ptr, w_ptr, in_ptr, out_ptr, first_ptr, y_ptr, INS: tl.constexpr, OUTS: tl.constexpr,
                 BLOCK_M: tl.constexpr):  # fmt: skip
    """A convolution of occupied voxels: the pairs of each tap are multiplied and added to their outputs."""
    tap, c, o = tl.program_id(1), tl.arange(0, INS), tl.arange(0, OUTS)
    m = tl.load(first_ptr + tap) + tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    mask = m < tl.load(first_ptr + tap + 1)
    row, to = tl.load(in_ptr + m, mask=mask, other=0), tl.load(out_ptr + m, mask=mask, other=0)
    x = tl.load(x_ptr + row[:, None] * INS + c[None, :], mask=mask[:, None], other=0.0)
    add = tl.dot(x, tl.load(w_ptr + (tap * INS + c[:, None]) * OUTS + o[None, :]))
    tl.atomic_add(y_ptr + to[:, None] * OUTS + o[None, :], add, mask=mask[:, None], sem="relaxed")


@triton.jit
def skip_gram(word_ptr, near_ptr, sign_ptr, a_ptr, b_ptr, ga_ptr, gb_ptr, n, WIDTH: tl.constexpr,
              BLOCK_T: tl.constexpr):  # fmt: skip
    """The gradients of both vectors of pairs of words, true and drawn."""
    t, d = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)
    mask = (t < n)[:, None]
    word, near = tl.load(word_ptr + t, mask=t < n, other=0), tl.load(near_ptr + t, mask=t < n, other=0)
    at, to = word[:, None] * WIDTH + d[None, :], near[:, None] * WIDTH + d[None, :]
    a, b = tl.load(a_ptr + at, mask=mask, other=0.0), tl.load(b_ptr + to, mask=mask, other=0.0)
    sign = tl.load(sign_ptr + t, mask=t < n, other=0).to(tl.float32)
    g = sign - 1 / (1 + tl.exp(-tl.sum(a * b, 1)))
    tl.atomic_add(ga_ptr + at, g[:, None] * b, mask=mask, sem="relaxed")
    tl.atomic_add(gb_ptr + to, g[:, None] * a, mask=mask, sem="relaxed")


@triton.jit
def running_boxes(x_ptr, y_ptr, high, wide, REACH: tl.constexpr, EACH: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums of columns of 2 REACH + 1 rows, run down a strip: a row comes in, one goes out."""
    c, first = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C), tl.program_id(1) * EACH
    total = tl.zeros((BLOCK_C,), tl.float32)
    for i in range(-REACH, REACH):
        inside = (first + i >= 0) & (first + i < high) & (c < wide)
        total += tl.load(x_ptr + (first + i) * wide + c, mask=inside, other=0.0).to(tl.float32)
    for i in range(EACH):
        r = first + i
        comes, goes = (r + REACH < high) & (c < wide), (r - REACH >= 0) & (r - REACH < high) & (c < wide)
        total += tl.load(x_ptr + (r + REACH) * wide + c, mask=comes, other=0.0).to(tl.float32)
        tl.store(y_ptr + r * wide + c, total.to(y_ptr.dtype.element_ty), mask=(r < high) & (c < wide))
        total -= tl.load(x_ptr + (r - REACH) * wide + c, mask=goes, other=0.0).to(tl.float32)


@triton.jit
def lattice_volume(x_ptr, y_ptr, deep, high, wide, BLOCK: tl.constexpr):
    """Seven directions of a lattice gas in a volume that closes on itself: streamed, then relaxed to their sum."""
    at, cells = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), deep * high * wide
    mask, z, r, c = at < cells, at // (high * wide), at // wide % high, at % wide
    f0 = tl.load(x_ptr + at, mask=mask, other=0.0)
    f1 = tl.load(x_ptr + cells + at + tl.where(c == 0, wide - 1, -1), mask=mask, other=0.0)
    f2 = tl.load(x_ptr + 2 * cells + at + tl.where(c == wide - 1, 1 - wide, 1), mask=mask, other=0.0)
    f3 = tl.load(x_ptr + 3 * cells + at + tl.where(r == 0, high - 1, -1) * wide, mask=mask, other=0.0)
    f4 = tl.load(x_ptr + 4 * cells + at + tl.where(r == high - 1, 1 - high, 1) * wide, mask=mask, other=0.0)
    f5 = tl.load(x_ptr + 5 * cells + at + tl.where(z == 0, deep - 1, -1) * high * wide, mask=mask, other=0.0)
    f6 = tl.load(x_ptr + 6 * cells + at + tl.where(z == deep - 1, 1 - deep, 1) * high * wide, mask=mask, other=0.0)
    mean = (f0 + f1 + f2 + f3 + f4 + f5 + f6) / 8
    tl.store(y_ptr + at, f0 + 0.8 * (2 * mean - f0), mask=mask)
    tl.store(y_ptr + cells + at, f1 + 0.8 * (mean - f1), mask=mask)
    tl.store(y_ptr + 2 * cells + at, f2 + 0.8 * (mean - f2), mask=mask)
    tl.store(y_ptr + 3 * cells + at, f3 + 0.8 * (mean - f3), mask=mask)
    tl.store(y_ptr + 4 * cells + at, f4 + 0.8 * (mean - f4), mask=mask)
    tl.store(y_ptr + 5 * cells + at, f5 + 0.8 * (mean - f5), mask=mask)
    tl.store(y_ptr + 6 * cells + at, f6 + 0.8 * (mean - f6), mask=mask)


@triton.jit
def enlarge_filtered(x_ptr, w_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Twice the rows and columns: zeros between pixels, then a filter of four by four, of which each output meets
    four."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    x, acc = x_ptr + tl.program_id(2) * high * wide, tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            u, v = (r + 1) // 2 - 1 + i, (c + 1) // 2 - 1 + j
            inside = (u >= 0) & (u < high) & (v >= 0) & (v < wide)
            w = tl.load(w_ptr + ((r + 1) % 2 + 2 - 2 * i) * 4 + (c + 1) % 2 + 2 - 2 * j)
            acc += w * tl.load(x + u * wide + v, mask=inside, other=0.0).to(tl.float32)
    at = tl.program_id(2) * 4 * high * wide + r * 2 * wide + c
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=(r < 2 * high) & (c < 2 * wide))


@triton.jit
def rebuild(marker_ptr, x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A step of a reconstruction: a marker grows by a pixel around, under the picture."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    first = tl.program_id(2) * high * wide
    mask, most = (r < high) & (c < wide), tl.zeros((BLOCK_R, BLOCK_C), tl.uint8)
    for i in tl.static_range(-1, 2):
        for j in tl.static_range(-1, 2):
            inside = (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
            most = tl.maximum(most, tl.load(marker_ptr + first + (r + i) * wide + c + j, mask=inside, other=0))
    x = tl.load(x_ptr + first + r * wide + c, mask=mask, other=0)
    tl.store(y_ptr + first + r * wide + c, tl.minimum(most, x), mask=mask)


@triton.jit
def red_black(x_ptr, b_ptr, high, wide, over, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Every second cell of a grid is relaxed by its four neighbours, in place."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None] + 1
    c = 2 * (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :] + 1 + r % 2
    mask, at = (r < high - 1) & (c < wide - 1), r * wide + c
    around = tl.load(x_ptr + at - wide, mask=mask, other=0.0) + tl.load(x_ptr + at + wide, mask=mask, other=0.0)
    around += tl.load(x_ptr + at - 1, mask=mask, other=0.0) + tl.load(x_ptr + at + 1, mask=mask, other=0.0)
    x, b = tl.load(x_ptr + at, mask=mask, other=0.0), tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(x_ptr + at, x + over * ((around - b) / 4 - x), mask=mask)


@triton.jit
def table_means(table_ptr, y_ptr, high, wide, REACH: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Means over boxes from a table of sums over all above and to the left; boxes end at the edges."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, first = (r < high) & (c < wide), table_ptr + tl.program_id(2) * (high + 1) * (wide + 1)
    top, left = tl.maximum(r - REACH, 0), tl.maximum(c - REACH, 0)
    low, right = tl.minimum(r + REACH + 1, high), tl.minimum(c + REACH + 1, wide)
    total = tl.load(first + low * (wide + 1) + right, mask=mask, other=0.0)
    total -= tl.load(first + low * (wide + 1) + left, mask=mask, other=0.0)
    total -= tl.load(first + top * (wide + 1) + right, mask=mask, other=0.0)
    total += tl.load(first + top * (wide + 1) + left, mask=mask, other=0.0)
    mean = total / ((low - top) * (right - left)).to(tl.float32)
    tl.store(y_ptr + tl.program_id(2) * high * wide + r * wide + c, mean, mask=mask)
