"""Triton kernels as libraries write them: likeness and variation of pictures, a block of ConvNeXt, profiles, gradients
of attention, messages, pages, states, adapters, neighbours, divergences, sparsemax, products that stay, rows: a
twenty-seventh zoo."""

import triton
import triton.language as tl


@triton.jit
def structural_similarity(a_ptr, b_ptr, y_ptr, high, wide, SIDE: tl.constexpr, BLOCK_R: tl.constexpr,
                          BLOCK_C: tl.constexpr):  # fmt: skip
    """How alike two pictures are around each pixel: means, variances and covariance of windows."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    out = wide - SIDE + 1
    mask, total = (r < high - SIDE + 1) & (c < out), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    sa, sb, saa, sbb, sab = total, total, total, total, total
    for i in range(SIDE):
        for j in tl.static_range(SIDE):
            at = (r + i) * wide + c + j
            a, b = tl.load(a_ptr + at, mask=mask, other=0.0), tl.load(b_ptr + at, mask=mask, other=0.0)
            sa += a
            sb += b
            saa += a * a
            sbb += b * b
            sab += a * b
    n = SIDE * SIDE
    ma, mb = sa / n, sb / n
    va, vb, both = saa / n - ma * ma, sbb / n - mb * mb, sab / n - ma * mb
    y = (2 * ma * mb + 1e-4) * (2 * both + 9e-4) / ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4))
    tl.store(y_ptr + r * out + c, y, mask=mask)


@triton.jit
def normed_depthwise(x_ptr, w_ptr, gain_ptr, y_ptr, high, wide, width, SIDE: tl.constexpr, WIDTH: tl.constexpr,
                     BLOCK_P: tl.constexpr):  # fmt: skip
    """A depthwise convolution of channels that lie together, and their layer norm."""
    at, image, c = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P), tl.program_id(1), tl.arange(0, WIDTH)
    r, q, total = at // wide, at % wide, tl.zeros((BLOCK_P, WIDTH), tl.float32)
    for i in range(SIDE):
        for j in tl.static_range(SIDE):
            row, col = r + i - SIDE // 2, q + j - SIDE // 2
            there = (at < high * wide) & (row >= 0) & (row < high) & (col >= 0) & (col < wide)
            from_ = ((image * high + row) * wide + col) * width
            x = tl.load(x_ptr + from_[:, None] + c, mask=there[:, None] & (c < width), other=0.0)
            w = tl.load(w_ptr + (i * SIDE + j) * width + c, mask=c < width, other=0.0)
            total += x.to(tl.float32) * w.to(tl.float32)
    mean = tl.sum(total, 1) / width
    apart = tl.where(c < width, total - mean[:, None], 0.0)
    by = tl.rsqrt(tl.sum(apart * apart, 1) / width + 1e-6)
    y = apart * by[:, None] * tl.load(gain_ptr + c, mask=c < width, other=0.0)
    to = (image * high * wide + at)[:, None] * width + c
    tl.store(y_ptr + to, y.to(y_ptr.dtype.element_ty), mask=(at < high * wide)[:, None] & (c < width))


@triton.jit
def total_variation(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """The sum of differences to the right and down, of each picture: one addition a program."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c, image = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :], tl.program_id(2)
    at, mask = (image * high + r) * wide + c, (r < high) & (c < wide)
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(x_ptr + at + 1, mask=mask & (c + 1 < wide), other=0.0).to(tl.float32)
    down = tl.load(x_ptr + at + wide, mask=(r + 1 < high) & (c < wide), other=0.0).to(tl.float32)
    both = tl.where(c + 1 < wide, tl.abs(right - x), 0.0) + tl.where(r + 1 < high, tl.abs(down - x), 0.0)
    tl.atomic_add(y_ptr + image, tl.sum(tl.where(mask, both, 0.0)), sem="relaxed")


@triton.jit
def radial_profile(x_ptr, y_ptr, count_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums and counts of a picture's pixels by how far they lie from its middle."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, i, j = (r < high) & (c < wide), r - high // 2, c - wide // 2
    x = tl.load(x_ptr + r * wide + c, mask=mask, other=0.0)
    bin = tl.sqrt((i * i + j * j).to(tl.float32)).to(tl.int32)
    tl.atomic_add(y_ptr + bin, x, mask=mask, sem="relaxed")
    tl.atomic_add(count_ptr + bin, tl.full((BLOCK_R, BLOCK_C), 1, tl.int32), mask=mask, sem="relaxed")


@triton.jit
def added_queries_grad(q_ptr, k_ptr, v_ptr, g_ptr, lse_ptr, delta_ptr, y_ptr, length, scale, WIDTH: tl.constexpr,
                       BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """What attention asks of its queries, each block of keys adding its part."""
    head, d = tl.program_id(1), tl.arange(0, WIDTH)[None, :]
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    base, there = head * length * WIDTH, (n < length)[:, None]
    k = tl.load(k_ptr + base + n[:, None] * WIDTH + d, mask=there, other=0.0)
    v = tl.load(v_ptr + base + n[:, None] * WIDTH + d, mask=there, other=0.0)
    for m0 in range(0, length, BLOCK_M):
        m = m0 + tl.arange(0, BLOCK_M)
        inside, at = (m < length)[:, None], base + m[:, None] * WIDTH + d
        q, g = tl.load(q_ptr + at, mask=inside, other=0.0), tl.load(g_ptr + at, mask=inside, other=0.0)
        lse = tl.load(lse_ptr + head * length + m, mask=m < length, other=0.0)
        delta = tl.load(delta_ptr + head * length + m, mask=m < length, other=0.0)
        p = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
        s = tl.where(n[None, :] < length, p * (tl.dot(g, tl.trans(v)) - delta[:, None]) * scale, 0.0)
        tl.atomic_add(y_ptr + at, tl.dot(s.to(k.dtype), k), mask=inside, sem="relaxed")


@triton.jit
def edge_messages(from_ptr, to_ptr, a_ptr, x_ptr, y_ptr, n, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                  BLOCK_E: tl.constexpr):  # fmt: skip
    """Adds what each edge carries to the node it ends in: rows of its start, by a weight for each head."""
    e, c = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E), tl.arange(0, HEADS * WIDTH)[None, :]
    source, to = tl.load(from_ptr + e, mask=e < n, other=0), tl.load(to_ptr + e, mask=e < n, other=0)
    mask = (e < n)[:, None]
    a = tl.load(a_ptr + e[:, None] * HEADS + c // WIDTH, mask=mask, other=0.0)
    x = tl.load(x_ptr + source[:, None] * (HEADS * WIDTH) + c, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + to[:, None] * (HEADS * WIDTH) + c, a * x.to(tl.float32), mask=mask, sem="relaxed")


@triton.jit
def paged_context(q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, y_ptr, asked, most, heads, kv_heads, scale,
                  PAGE: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """Attention of some queries of each sequence to the pages of what came before them."""
    m, head, seq = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1), tl.program_id(2)
    d, mine = tl.arange(0, WIDTH), head // (heads // kv_heads)
    at, there = ((seq * asked + m)[:, None] * heads + head) * WIDTH + d, (m < asked)[:, None]
    q, length = tl.load(q_ptr + at, mask=there, other=0.0), tl.load(length_ptr + seq)
    acc, total = tl.zeros((BLOCK_M, WIDTH), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    best = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    for n0 in range(0, length, BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        page = tl.load(table_ptr + seq * most + n // PAGE, mask=n < length, other=0)
        row = ((page * PAGE + n % PAGE) * kv_heads + mine) * WIDTH
        k = tl.load(k_ptr + row[None, :] + d[:, None], mask=(n < length)[None, :], other=0.0)
        s = tl.where((n < length)[None, :], tl.dot(q, k) * scale, float("-inf"))
        new = tl.maximum(best, tl.max(s, 1))
        p, by = tl.exp(s - new[:, None]), tl.exp(best - new)
        v = tl.load(v_ptr + row[:, None] + d[None, :], mask=(n < length)[:, None], other=0.0)
        acc = acc * by[:, None] + tl.dot(p.to(v.dtype), v)
        total, best = total * by + tl.sum(p, 1), new
    tl.store(y_ptr + at, (acc / total[:, None]).to(y_ptr.dtype.element_ty), mask=there)


@triton.jit
def update_states(state_ptr, slot_ptr, x_ptr, step_ptr, a_ptr, b_ptr, c_ptr, y_ptr, heads, groups, dim,
                  STATES: tl.constexpr, BLOCK_D: tl.constexpr):  # fmt: skip
    """One token more for the states of a state space that lie in slots of a cache."""
    d, head, token = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D), tl.program_id(1), tl.program_id(2)
    s, slot, group = tl.arange(0, STATES)[None, :], tl.load(slot_ptr + token), head // (heads // groups)
    mask, at = (d < dim)[:, None], ((slot * heads + head) * dim + d)[:, None] * STATES + s
    state, here = tl.load(state_ptr + at, mask=mask, other=0.0), (token * heads + head) * dim + d
    x = tl.load(x_ptr + here, mask=d < dim, other=0.0).to(tl.float32)
    step = tl.load(step_ptr + token * heads + head).to(tl.float32)
    step = tl.log(1 + tl.exp(step))
    decay = tl.exp(-step * tl.load(a_ptr + head))
    b = tl.load(b_ptr + (token * groups + group) * STATES + s).to(tl.float32)
    c = tl.load(c_ptr + (token * groups + group) * STATES + s).to(tl.float32)
    state = state * decay + b * (x * step)[:, None]
    tl.store(state_ptr + at, state, mask=mask)
    tl.store(y_ptr + here, tl.sum(state * c, 1).to(y_ptr.dtype.element_ty), mask=d < dim)


@triton.jit
def grow_by_adapter(x_ptr, w_ptr, adapter_ptr, first_ptr, y_ptr, width, RANK: tl.constexpr, BLOCK_M: tl.constexpr,
                    BLOCK_N: tl.constexpr):  # fmt: skip
    """Adds to rows of tokens what the adapter of their sequence makes of RANK numbers each."""
    seq, n, k = tl.program_id(2), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, RANK)
    first, last = tl.load(first_ptr + seq), tl.load(first_ptr + seq + 1)
    m = first + tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    if first + tl.program_id(1) * BLOCK_M >= last:
        return
    adapter = tl.load(adapter_ptr + seq)
    x = tl.load(x_ptr + m[:, None] * RANK + k[None, :], mask=(m < last)[:, None], other=0.0)
    w = tl.load(w_ptr + (adapter * width + n)[None, :] * RANK + k[:, None], mask=(n < width)[None, :], other=0.0)
    at, mask = y_ptr + m[:, None] * width + n[None, :], (m < last)[:, None] & (n < width)[None, :]
    y = tl.load(at, mask=mask, other=0.0).to(tl.float32) + tl.dot(x, w)
    tl.store(at, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def mean_and_most(start_ptr, col_ptr, x_ptr, y_ptr, width, BLOCK_C: tl.constexpr):
    """The mean and the largest of the rows of each node's neighbours, side by side."""
    node, c = tl.program_id(0), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    first, last = tl.load(start_ptr + node), tl.load(start_ptr + node + 1)
    total, most = tl.zeros((BLOCK_C,), tl.float32), tl.full((BLOCK_C,), -1e30, tl.float32)
    for e in range(first, last):
        x = tl.load(x_ptr + tl.load(col_ptr + e) * width + c, mask=c < width, other=0.0).to(tl.float32)
        total += x
        most = tl.maximum(most, x)
    mean, most = total / tl.maximum(last - first, 1), tl.where(last > first, most, 0.0)
    tl.store(y_ptr + node * 2 * width + c, mean.to(y_ptr.dtype.element_ty), mask=c < width)
    tl.store(y_ptr + node * 2 * width + width + c, most.to(y_ptr.dtype.element_ty), mask=c < width)


@triton.jit
def divergence(x_ptr, t_ptr, y_ptr, rows, cols, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Kullback's and Leibler's divergence of rows of logits, all of a row at once."""
    r, c = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None], tl.arange(0, WIDTH)[None, :]
    mask = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=mask, other=float("-inf")).to(tl.float32)
    t = tl.load(t_ptr + r * cols + c, mask=mask, other=float("-inf")).to(tl.float32)
    x -= tl.max(x, 1)[:, None]
    t -= tl.max(t, 1)[:, None]
    x -= tl.log(tl.sum(tl.exp(x), 1))[:, None]
    t -= tl.log(tl.sum(tl.exp(t), 1))[:, None]
    y = tl.sum(tl.where(mask, tl.exp(t) * (t - x), 0.0), 1)
    row = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    tl.store(y_ptr + row, y, mask=row < rows)


@triton.jit
def sparsemax(x_ptr, y_ptr, rows, cols, STEPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """The nearest probabilities to rows, whose threshold is halved in on, all of a row at once."""
    r, c = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None], tl.arange(0, WIDTH)[None, :]
    mask = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=mask, other=-1e30).to(tl.float32)
    high = tl.max(x, 1)
    low = high - 1
    for _ in range(STEPS):
        middle = (low + high) * 0.5
        more = tl.sum(tl.maximum(x - middle[:, None], 0.0), 1) >= 1
        low, high = tl.where(more, middle, low), tl.where(more, high, middle)
    y = tl.maximum(x - low[:, None], 0.0)
    y = y / tl.sum(y, 1)[:, None]
    tl.store(y_ptr + r * cols + c, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def staying_bytes(a_ptr, b_ptr, scale_ptr, y_ptr, M, N, K, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr,
                  BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """x W by weights of 8 bits that become 16, with a scale for each column; programs stay."""
    down, across = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), down * across, PROGRAMS):
        m, n = tile % down * BLOCK_M + tl.arange(0, BLOCK_M), tile // down * BLOCK_N + tl.arange(0, BLOCK_N)
        k, acc = tl.arange(0, BLOCK_K), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k0 in range(0, K, BLOCK_K):
            a = tl.load(a_ptr + m[:, None] * K + (k0 + k)[None, :], mask=m[:, None] < M, other=0.0)
            b = tl.load(b_ptr + (k0 + k)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0)
            acc = tl.dot(a, b.to(a.dtype), acc)
        acc *= tl.load(scale_ptr + n, mask=n < N, other=0.0)[None, :]
        mask = (m[:, None] < M) & (n[None, :] < N)
        tl.store(y_ptr + m[:, None] * N + n[None, :], acc.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def staying_batches(a_ptr, b_ptr, y_ptr, batches, M, N, K, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr,
                    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """A^T B of each of many pairs; programs stay, and walk tiles of one pair after another."""
    down, across = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), batches * down * across, PROGRAMS, flatten=True):
        pair, i, j = tile // (down * across), tile % (down * across) // across, tile % across
        m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
        k, acc = tl.arange(0, BLOCK_K), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        a_at, b_at = a_ptr + pair * K * M + m[:, None], b_ptr + pair * K * N + n[None, :]
        for k0 in range(0, K, BLOCK_K):
            a = tl.load(a_at + (k0 + k)[None, :] * M, mask=m[:, None] < M, other=0.0)
            b = tl.load(b_at + (k0 + k)[:, None] * N, mask=n[None, :] < N, other=0.0)
            acc = tl.dot(a, b, acc)
        mask = (m[:, None] < M) & (n[None, :] < N)
        to = y_ptr + pair * M * N + m[:, None] * N + n[None, :]
        tl.store(to, acc.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_gradient(y_ptr, g_ptr, d_ptr, rows, cols, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """What a softmax of rows asks of its input: two walks over each row."""
    r = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for c0 in range(0, cols, BLOCK_C):
        c = c0 + tl.arange(0, BLOCK_C)[None, :]
        at, mask = r * cols + c, (r < rows) & (c < cols)
        y = tl.load(y_ptr + at, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        total += y * tl.load(g_ptr + at, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
    by = tl.sum(total, 1)[:, None]
    for c0 in range(0, cols, BLOCK_C):
        c = c0 + tl.arange(0, BLOCK_C)[None, :]
        at, mask = r * cols + c, (r < rows) & (c < cols)
        y = tl.load(y_ptr + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        g = tl.load(g_ptr + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        tl.store(d_ptr + at, (y * (g - by)).to(d_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gate_to_bytes(x_ptr, y_ptr, scale_ptr, width, BLOCK: tl.constexpr):
    """silu(x) z of rows that hold x and z, in bytes with a scale for each row: two walks."""
    row, most = tl.program_id(0).to(tl.int64), tl.zeros((BLOCK,), tl.float32)
    for c0 in range(0, width, BLOCK):
        c = c0 + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * 2 * width + c, mask=c < width, other=0.0).to(tl.float32)
        z = tl.load(x_ptr + row * 2 * width + width + c, mask=c < width, other=0.0).to(tl.float32)
        most = tl.maximum(most, tl.abs(x / (1 + tl.exp(-x)) * z))
    scale = tl.maximum(tl.max(most), 1e-8) / 127
    tl.store(scale_ptr + row, scale)
    for c0 in range(0, width, BLOCK):
        c = c0 + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * 2 * width + c, mask=c < width, other=0.0).to(tl.float32)
        z = tl.load(x_ptr + row * 2 * width + width + c, mask=c < width, other=0.0).to(tl.float32)
        y = x / (1 + tl.exp(-x)) * z / scale
        tl.store(y_ptr + row * width + c, tl.where(y < 0, y - 0.5, y + 0.5).to(tl.int8), mask=c < width)


@triton.jit
def _joined(mean, square, n, other, squares, m):
    apart, both = other - mean, n + m
    share = tl.where(both == 0.0, 0.0, m / both)
    return mean + apart * share, square + squares + apart * apart * n * share, both


@triton.jit
def welford_norm(x_ptr, w_ptr, b_ptr, y_ptr, rows, cols, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """A layer norm of rows by Welford's means and squares, as compilers of graphs write it."""
    r = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    mean = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    square, n = mean, mean
    for c0 in range(0, cols, BLOCK_C):
        c = c0 + tl.arange(0, BLOCK_C)[None, :]
        mask = (r < rows) & (c < cols)
        x = tl.load(x_ptr + r * cols + c, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        more, apart = n + 1, x - mean
        new = mean + apart / more
        square = tl.where(mask, square + apart * (x - new), square)
        mean, n = tl.where(mask, new, mean), tl.where(mask, more, n)
    mean, square, n = tl.reduce((mean, square, n), 1, _joined)
    mean, by = mean[:, None], tl.rsqrt(square / cols + 1e-5)[:, None]
    for c0 in range(0, cols, BLOCK_C):
        c = c0 + tl.arange(0, BLOCK_C)[None, :]
        mask = (r < rows) & (c < cols)
        x = tl.load(x_ptr + r * cols + c, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        w, b = tl.load(w_ptr + c, mask=c < cols, other=0.0), tl.load(b_ptr + c, mask=c < cols, other=0.0)
        y = (x - mean) * by * w.to(tl.float32) + b.to(tl.float32)
        tl.store(y_ptr + r * cols + c, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def pixel_entropy(x_ptr, label_ptr, y_ptr, area, classes, BLOCK_K: tl.constexpr, BLOCK_P: tl.constexpr):
    """The cross entropy of each pixel, whose classes lie a picture apart; 255 counts for nothing."""
    p, image = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P), tl.program_id(1)
    best, total = tl.full((BLOCK_P,), -1e30, tl.float32), tl.zeros((BLOCK_P,), tl.float32)
    for k0 in range(0, classes, BLOCK_K):
        k = (k0 + tl.arange(0, BLOCK_K))[:, None]
        mask = (k < classes) & (p < area)[None, :]
        x = tl.load(x_ptr + (image * classes + k) * area + p[None, :], mask=mask, other=-1e30).to(tl.float32)
        new = tl.maximum(best, tl.max(x, 0))
        total = total * tl.exp(best - new) + tl.sum(tl.exp(x - new[None, :]), 0)
        best = new
    label = tl.load(label_ptr + image * area + p, mask=p < area, other=255).to(tl.int32)
    right = tl.load(x_ptr + (image * classes + label) * area + p, mask=label != 255, other=0.0).to(tl.float32)
    y = tl.where(label != 255, best + tl.log(total) - right, 0.0)
    tl.store(y_ptr + image * area + p, y, mask=p < area)
