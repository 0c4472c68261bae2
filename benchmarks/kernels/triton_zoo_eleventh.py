"""Short Triton kernels of flows, clusters, graphs, colours, caches, records and columns: an eleventh zoo."""

import triton
import triton.language as tl


@triton.jit
def lattice_step(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Nine planes of a lattice gas: each is fetched from the neighbour it comes from, then all relax to their mean."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, cells, total = (r < high) & (c < wide), high * wide, tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for k in tl.static_range(9):
        a, b = (r + high + k // 3 - 1) % high, (c + wide + k % 3 - 1) % wide
        total += tl.load(x_ptr + k * cells + a * wide + b, mask=mask, other=0.0)
    for k in tl.static_range(9):
        a, b = (r + high + k // 3 - 1) % high, (c + wide + k % 3 - 1) % wide
        x = tl.load(x_ptr + k * cells + a * wide + b, mask=mask, other=0.0)
        tl.store(y_ptr + k * cells + r * wide + c, x + 0.6 * (total / 9 - x), mask=mask)


@triton.jit
def likeness(a_ptr, b_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Structural similarity of two pictures in windows of 5 x 5 that lie inside."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high - 4) & (c < wide - 4)
    sa, sb, saa, sbb, sab = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in tl.static_range(5):
        for j in tl.static_range(5):
            a = tl.load(a_ptr + (r + i) * wide + c + j, mask=mask, other=0.0).to(tl.float32)
            b = tl.load(b_ptr + (r + i) * wide + c + j, mask=mask, other=0.0).to(tl.float32)
            sa, sb, saa, sbb, sab = sa + a, sb + b, saa + a * a, sbb + b * b, sab + a * b
    ma, mb = sa / 25, sb / 25
    va, vb, cov = saa / 25 - ma * ma, sbb / 25 - mb * mb, sab / 25 - ma * mb
    top = (2 * ma * mb + 0.01) * (2 * cov + 0.03)
    tl.store(y_ptr + r * (wide - 4) + c, top / ((ma * ma + mb * mb + 0.01) * (va + vb + 0.03)), mask=mask)


@triton.jit
def patches(x_ptr, y_ptr, high, wide, SIDE: tl.constexpr, STEP: tl.constexpr, BLOCK_T: tl.constexpr,
            BLOCK_C: tl.constexpr):  # fmt: skip
    """Square patches of a picture that overlap, a row each."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    e = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    across, down = (wide - SIDE) // STEP + 1, (high - SIDE) // STEP + 1
    mask = (t < across * down) & (e < SIDE * SIDE)
    at = (t // across * STEP + e // SIDE) * wide + t % across * STEP + e % SIDE
    tl.store(y_ptr + t * SIDE * SIDE + e, tl.load(x_ptr + at, mask=mask), mask=mask)


@triton.jit
def labelled_sums(x_ptr, label_ptr, y_ptr, m_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Points are added to the sums of their clusters, and counted."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    to = tl.load(label_ptr + t, mask=t < n, other=0)
    mask = (t < n)[:, None] & (c < width)
    x = tl.load(x_ptr + t[:, None] * width + c, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + to[:, None] * width + c, x, mask=mask, sem="relaxed")
    if tl.program_id(1) == 0:
        tl.atomic_add(m_ptr + to, 1.0, mask=t < n, sem="relaxed")


@triton.jit
def degrees(from_ptr, to_ptr, w_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """Weights of edges, summed over those that leave a node and over those that reach it."""
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(w_ptr + e, mask=e < n, other=0.0)
    tl.atomic_add(y_ptr + tl.load(from_ptr + e, mask=e < n, other=0), w, mask=e < n, sem="relaxed")
    tl.atomic_add(z_ptr + tl.load(to_ptr + e, mask=e < n, other=0), w, mask=e < n, sem="relaxed")


@triton.jit
def pillars(x_ptr, cell_ptr, y_ptr, n, CHANNELS: tl.constexpr, BLOCK_T: tl.constexpr):
    """The largest of each feature over the points of a cell."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    c = tl.arange(0, CHANNELS)[None, :]
    x = tl.load(x_ptr + t * CHANNELS + c, mask=t < n, other=0)
    to = tl.load(cell_ptr + t, mask=t < n, other=0)
    tl.atomic_max(y_ptr + to * CHANNELS + c, x, mask=(t < n) & (c < CHANNELS), sem="relaxed")


@triton.jit
def interpolate(at_ptr, w_ptr, x_ptr, y_ptr, n, width, NEAR: tl.constexpr, BLOCK_T: tl.constexpr,
                BLOCK_C: tl.constexpr):  # fmt: skip
    """Features of each point's nearest neighbours, weighted and summed."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    acc = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in range(NEAR):
        at = tl.load(at_ptr + t * NEAR + k, mask=t < n, other=0)
        w = tl.load(w_ptr + t * NEAR + k, mask=t < n, other=0.0)
        mask = (t < n)[:, None] & (c < width)
        acc += w[:, None] * tl.load(x_ptr + at[:, None] * width + c, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + t[:, None] * width + c, acc.to(y_ptr.dtype.element_ty), mask=(t < n)[:, None] & (c < width))


@triton.jit
def edge_softmax(start_ptr, to_ptr, a_ptr, b_ptr, y_ptr, BLOCK: tl.constexpr):
    """Shares of a node's edges: the exponentials of a score of both ends, over their sum. A program a node."""
    node = tl.program_id(0)
    first, last = tl.load(start_ptr + node), tl.load(start_ptr + node + 1)
    own, total = tl.load(a_ptr + node), 0.0
    for e in range(first, last, BLOCK):
        at = e + tl.arange(0, BLOCK)
        score = own + tl.load(b_ptr + tl.load(to_ptr + at, mask=at < last, other=0), mask=at < last, other=-1e30)
        total += tl.sum(tl.exp(tl.maximum(score, 0.2 * score)))
    for e in range(first, last, BLOCK):
        at = e + tl.arange(0, BLOCK)
        score = own + tl.load(b_ptr + tl.load(to_ptr + at, mask=at < last, other=0), mask=at < last, other=-1e30)
        tl.store(y_ptr + at, tl.exp(tl.maximum(score, 0.2 * score)) / total, mask=at < last)


@triton.jit
def graded(x_ptr, table_ptr, y_ptr, n, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Colours of bytes, looked up between the eight corners of a cell of a table of SIDE^3."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, step = i < n, (SIDE - 1) / 255.0
    r = tl.load(x_ptr + 3 * i, mask=mask, other=0).to(tl.float32) * step
    g = tl.load(x_ptr + 3 * i + 1, mask=mask, other=0).to(tl.float32) * step
    b = tl.load(x_ptr + 3 * i + 2, mask=mask, other=0).to(tl.float32) * step
    r0, g0 = tl.minimum(r.to(tl.int32), SIDE - 2), tl.minimum(g.to(tl.int32), SIDE - 2)
    b0 = tl.minimum(b.to(tl.int32), SIDE - 2)
    r, g, b = r - r0, g - g0, b - b0
    red, green, blue = 0.0, 0.0, 0.0
    for k in tl.static_range(8):
        at = ((r0 + k // 4) * SIDE + g0 + k // 2 % 2) * SIDE + b0 + k % 2
        w = (r if k // 4 else 1 - r) * (g if k // 2 % 2 else 1 - g) * (b if k % 2 else 1 - b)
        red += w * tl.load(table_ptr + 3 * at, mask=mask, other=0.0)
        green += w * tl.load(table_ptr + 3 * at + 1, mask=mask, other=0.0)
        blue += w * tl.load(table_ptr + 3 * at + 2, mask=mask, other=0.0)
    tl.store(y_ptr + 3 * i, red, mask=mask)
    tl.store(y_ptr + 3 * i + 1, green, mask=mask)
    tl.store(y_ptr + 3 * i + 2, blue, mask=mask)


@triton.jit
def pages_copied(x_ptr, page_ptr, y_ptr, PAGE: tl.constexpr, BLOCK: tl.constexpr):
    """Pages of a cache, each from where a table has it."""
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    page = tl.load(page_ptr + tl.program_id(0)).to(tl.int64)
    x = tl.load(x_ptr + page * PAGE + at, mask=at < PAGE)
    tl.store(y_ptr + tl.program_id(0).to(tl.int64) * PAGE + at, x, mask=at < PAGE)


@triton.jit
def inverted(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """Inverses and determinants of symmetric 3 x 3 matrices, of which six numbers are kept side by side."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, x, y = i < n, x_ptr + 6 * i, y_ptr + 6 * i
    a, b = tl.load(x, mask=mask, other=1.0), tl.load(x + 1, mask=mask, other=0.0)
    c, d = tl.load(x + 2, mask=mask, other=0.0), tl.load(x + 3, mask=mask, other=1.0)
    e, f = tl.load(x + 4, mask=mask, other=0.0), tl.load(x + 5, mask=mask, other=1.0)
    a, d, f = a + 9.0, d + 9.0, f + 9.0
    p, q, r = d * f - e * e, c * e - b * f, b * e - c * d
    det = a * p + b * q + c * r
    tl.store(y, p / det, mask=mask)
    tl.store(y + 1, q / det, mask=mask)
    tl.store(y + 2, r / det, mask=mask)
    tl.store(y + 3, (a * f - c * c) / det, mask=mask)
    tl.store(y + 4, (b * c - a * e) / det, mask=mask)
    tl.store(y + 5, (a * d - b * b) / det, mask=mask)
    tl.store(z_ptr + i, det, mask=mask)


@triton.jit
def split_columns(x_ptr, y_ptr, z_ptr, rows, cols, SPLIT: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums of columns and of their squares, over one of SPLIT parts of the rows."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    total, squares, each = tl.zeros((BLOCK_C,), tl.float32), tl.zeros((BLOCK_C,), tl.float32), rows // SPLIT
    for r in range(0, each, BLOCK_R):
        at = r + tl.arange(0, BLOCK_R)[:, None]
        mask = (at < each) & (c < cols)[None, :]
        x = tl.load(x_ptr + (tl.program_id(1) * each + at) * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(x, 0)
        squares += tl.sum(x * x, 0)
    tl.store(y_ptr + tl.program_id(1) * cols + c, total, mask=c < cols)
    tl.store(z_ptr + tl.program_id(1) * cols + c, squares, mask=c < cols)
