"""Triton kernels of features, palettes, cells, neighbours, tables, pages, edges, pictures and signals: a nineteenth
zoo."""

import triton
import triton.language as tl


@triton.jit
def cross_features(a_ptr, b_ptr, row_ptr, y_ptr, n, rows, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Two features of a sample name a row together, by their hash."""
    t, d = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)
    a, b = tl.load(a_ptr + t, mask=t < n, other=0), tl.load(b_ptr + t, mask=t < n, other=0)
    row = (a * 31_337 + b * 7919) % rows
    x = tl.load(row_ptr + row[:, None] * WIDTH + d[None, :], mask=(t < n)[:, None], other=0.0)
    tl.store(y_ptr + t[:, None] * WIDTH + d[None, :], x, mask=(t < n)[:, None])


@triton.jit
def palette(x_ptr, colour_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Labels become three bytes of colour side by side."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(x_ptr + at, mask=at < n, other=0).to(tl.int32)
    for k in tl.static_range(3):
        tl.store(y_ptr + 3 * at + k, tl.load(colour_ptr + 3 * label + k), mask=at < n)


@triton.jit
def occupied(place_ptr, bit_ptr, y_ptr, n, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Whether the cell of a point is taken, a bit for each."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cell = tl.zeros((BLOCK,), tl.int32)
    for axis in tl.static_range(3):
        cell = cell * SIDE + (tl.load(place_ptr + axis * n + at, mask=at < n, other=0.0) * SIDE).to(tl.int32)
    word = tl.load(bit_ptr + cell // 32)
    tl.store(y_ptr + at, (word >> (cell % 32) & 1).to(tl.uint8), mask=at < n)


@triton.jit
def edge_lengths(x_ptr, id_ptr, y_ptr, n, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """How far each point's neighbours are."""
    t, k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, EACH)
    mask = (t < n)[:, None]
    id = tl.load(id_ptr + t[:, None] * EACH + k[None, :], mask=mask, other=0)
    total = tl.zeros((BLOCK, EACH), tl.float32)
    for axis in tl.static_range(3):
        own = tl.load(x_ptr + 3 * t + axis, mask=t < n, other=0.0)
        away = tl.load(x_ptr + 3 * id + axis, mask=mask, other=0.0) - own[:, None]
        total += away * away
    tl.store(y_ptr + t[:, None] * EACH + k[None, :], tl.sqrt(total), mask=mask)


@triton.jit
def state_table(u_ptr, v_ptr, table_ptr, y_ptr, n, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """A state by two others, between the four entries of a table around it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(u_ptr + at, mask=at < n, other=0.0) * (SIDE - 1)
    v = tl.load(v_ptr + at, mask=at < n, other=0.0) * (SIDE - 1)
    i, j = u.to(tl.int32), v.to(tl.int32)
    u, v, first = u - i, v - j, table_ptr + i * SIDE + j
    low = tl.load(first) * (1 - v) + tl.load(first + 1) * v
    high = tl.load(first + SIDE) * (1 - v) + tl.load(first + SIDE + 1) * v
    tl.store(y_ptr + at, low * (1 - u) + high * u, mask=at < n)


@triton.jit
def page_scores(q_ptr, k_ptr, scale_ptr, table_ptr, y_ptr, pages, PAGE: tl.constexpr, WIDTH: tl.constexpr,
                EACH: tl.constexpr):  # fmt: skip
    """A query against keys of a byte, page by page, each row by its scale."""
    seq, p, d = tl.program_id(1), tl.arange(0, PAGE), tl.arange(0, WIDTH)
    q = tl.load(q_ptr + seq * WIDTH + d).to(tl.float32)
    for i in range(EACH):
        one = tl.program_id(0) * EACH + i
        page = tl.load(table_ptr + seq * pages + one, mask=one < pages, other=0)
        k = tl.load(k_ptr + (page * PAGE + p[:, None]) * WIDTH + d[None, :]).to(tl.float32)
        y = tl.sum(k * q[None, :], 1) * tl.load(scale_ptr + page * PAGE + p)
        tl.store(y_ptr + (seq * pages + one) * PAGE + p, y, mask=one < pages)


@triton.jit
def turn_sequences(x_ptr, first_ptr, y_ptr, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Each of uneven sequences from its end to its beginning."""
    seq, c = tl.program_id(0), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    first, end = tl.load(first_ptr + seq), tl.load(first_ptr + seq + 1)
    for begin in range(first, end, BLOCK_T):
        t = begin + tl.arange(0, BLOCK_T)
        mask = (t < end)[:, None] & (c < width)[None, :]
        x = tl.load(x_ptr + (end - 1 - t + first)[:, None] * width + c[None, :], mask=mask, other=0.0)
        tl.store(y_ptr + t[:, None] * width + c[None, :], x, mask=mask)


@triton.jit
def decode_column(code_ptr, entry_ptr, y_ptr, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """A column of a dictionary's entries, by codes of two bytes."""
    t, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    code = tl.load(code_ptr + t, mask=t < n, other=0).to(tl.int32)
    entry = tl.load(entry_ptr + code[:, None] * WIDTH + d[None, :], mask=(t < n)[:, None], other=0)
    tl.store(y_ptr + t[:, None] * WIDTH + d[None, :], entry, mask=(t < n)[:, None])


@triton.jit
def best_of_splits(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    """The largest of each row and its column in eight bytes, of columns that programs share out."""
    row, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0)
    best = tl.max((x.to(tl.int64) << 32) | at, 0)
    tl.atomic_max(y_ptr + row, best, sem="relaxed")


@triton.jit
def seen_bits(id_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Which of all are in a list, a bit for each."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    id = tl.load(id_ptr + at, mask=at < n, other=0)
    tl.atomic_or(y_ptr + id // 32, (1 << (id % 32)).to(tl.int32), mask=at < n, sem="relaxed")


@triton.jit
def attend_edges(from_ptr, to_ptr, share_ptr, v_ptr, y_ptr, n, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                 BLOCK: tl.constexpr):  # fmt: skip
    """Each edge adds its source's values to its target, each head by its own share."""
    e, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, HEADS * WIDTH)
    mask = (e < n)[:, None]
    source, target = tl.load(from_ptr + e, mask=e < n, other=0), tl.load(to_ptr + e, mask=e < n, other=0)
    share = tl.load(share_ptr + e[:, None] * HEADS + (d // WIDTH)[None, :], mask=mask, other=0.0)
    v = tl.load(v_ptr + source[:, None] * HEADS * WIDTH + d[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + target[:, None] * HEADS * WIDTH + d[None, :], share * v, mask=mask, sem="relaxed")


@triton.jit
def capped_sums(x_ptr, group_ptr, y_ptr, n, most, BLOCK: tl.constexpr):
    """Sums by group that stop at a bound, each compared and swapped until it is in."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, group = tl.load(x_ptr + at, mask=at < n, other=0), tl.load(group_ptr + at, mask=at < n, other=0)
    waits, old = at < n, tl.load(y_ptr + group)
    while tl.max(waits.to(tl.int32), 0) > 0:
        new = tl.minimum(old + (x & 7), most)
        there = tl.atomic_cas(y_ptr + group, tl.where(waits, old, -1), new, sem="relaxed")
        waits &= there != old
        old = there


@triton.jit
def sharpen(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Bytes of a picture less what a window of five by five has around them; edges repeat."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, first = (r < high) & (c < wide), tl.program_id(2) * high * wide
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for i in tl.static_range(-2, 3):
        for j in tl.static_range(-2, 3):
            u, v = tl.minimum(tl.maximum(r + i, 0), high - 1), tl.minimum(tl.maximum(c + j, 0), wide - 1)
            total += tl.load(x_ptr + first + u * wide + v, mask=mask, other=0).to(tl.int32)
    x = tl.load(x_ptr + first + r * wide + c, mask=mask, other=0).to(tl.int32)
    y = tl.minimum(tl.maximum(2 * x - total // 25, 0), 255)
    tl.store(y_ptr + first + r * wide + c, y.to(tl.uint8), mask=mask)


@triton.jit
def block_moments(x_ptr, y_ptr, high, wide, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Mean square of each block of SIDE by SIDE of planes."""
    o, plane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    r, c = o // (wide // SIDE) * SIDE, o % (wide // SIDE) * SIDE
    outs = (high // SIDE) * (wide // SIDE)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            x = tl.load(x_ptr + (plane * high + r + i) * wide + c + j, mask=o < outs, other=0.0).to(tl.float32)
            total += x * x
    tl.store(y_ptr + plane * outs + o, total / (SIDE * SIDE), mask=o < outs)


@triton.jit
def diffuse_masked(x_ptr, solid_ptr, y_ptr, deep, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A step of heat in a volume with walls, which let nothing through."""
    z = tl.program_id(2) + 1
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None] + 1
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :] + 1
    mask, at = (r < high - 1) & (c < wide - 1), (z * high + r) * wide + c
    x, flow = tl.load(x_ptr + at, mask=mask, other=0.0), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for axis in tl.static_range(3):
        step = 1 if axis == 0 else (wide if axis == 1 else high * wide)
        for way in tl.static_range(2):
            beside = at + step * (2 * way - 1)
            open = tl.load(solid_ptr + beside, mask=mask, other=1) == 0
            flow += tl.where(open, tl.load(x_ptr + beside, mask=mask, other=0.0) - x, 0.0)
    tl.store(y_ptr + at, x + 0.1 * flow, mask=mask)


@triton.jit
def enlarge_signal(x_ptr, w_ptr, y_ptr, length, channels, STEP: tl.constexpr, TAPS: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    """STEP samples for each, by a filter whose taps are every STEP-th of its own."""
    o, row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS // STEP):
        t = o // STEP - k
        x = tl.load(x_ptr + row * length + t, mask=(t >= 0) & (o < STEP * length), other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + row % channels * TAPS + o % STEP + STEP * k)
    tl.store(y_ptr + row * STEP * length + o, total.to(y_ptr.dtype.element_ty), mask=o < STEP * length)
