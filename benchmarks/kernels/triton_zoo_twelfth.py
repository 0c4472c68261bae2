"""Short Triton kernels of corners, lists, graphs, words, beams, lenses, short rows, products, scans: a twelfth zoo."""

import triton
import triton.language as tl


@triton.jit
def peaks(x_ptr, y_ptr, high, wide, reach, least, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Values that are the largest of their neighbourhood and above a threshold stay, all others become 0."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    x = tl.load(x_ptr + r * wide + c, mask=mask, other=0.0)
    most = x
    for i in range(-reach, reach + 1):
        for j in range(-reach, reach + 1):
            near = mask & (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
            most = tl.maximum(most, tl.load(x_ptr + (r + i) * wide + c + j, mask=near, other=0.0))
    tl.store(y_ptr + r * wide + c, tl.where((x == most) & (x > least), x, 0.0), mask=mask)


@triton.jit
def compact(x_ptr, y_ptr, count_ptr, n, least, BLOCK: tl.constexpr):
    """Values above a threshold, one after another in any order of the blocks; a list that is full begins anew."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=float("-inf"))
    kept = (x > least).to(tl.int32)
    place = tl.cumsum(kept, 0) - kept
    first = tl.atomic_add(count_ptr, tl.sum(kept, 0), sem="relaxed")
    tl.store(y_ptr + (first + place) % n, x, mask=kept == 1)


@triton.jit
def matvec_transposed(value_ptr, row_ptr, col_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """A sparse matrix by places, transposed, times a vector."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    row = tl.load(row_ptr + at, mask=mask, other=0)
    col = tl.load(col_ptr + at, mask=mask, other=0)
    product = tl.load(value_ptr + at, mask=mask, other=0.0) * tl.load(x_ptr + row, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + col, product, mask=mask, sem="relaxed")


@triton.jit
def bigrams(word_ptr, y_ptr, n, WORDS: tl.constexpr, BLOCK: tl.constexpr):
    """How often a word follows another."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n - 1
    a = tl.load(word_ptr + at, mask=mask, other=0)
    b = tl.load(word_ptr + at + 1, mask=mask, other=0)
    tl.atomic_add(y_ptr + a * WORDS + b, 1, mask=mask, sem="relaxed")


@triton.jit
def reorder_beams(x_ptr, beam_ptr, y_ptr, heads, length, filled, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """The filled part of a cache of keys [beam, head, place, width] in the order of the beams that are kept."""
    beam, head = tl.program_id(1), tl.program_id(2)
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    c = tl.arange(0, WIDTH)[None, :]
    old = tl.load(beam_ptr + beam).to(tl.int64)
    x = tl.load(x_ptr + ((old * heads + head) * length + t) * WIDTH + c, mask=t < filled, other=0.0)
    tl.store(y_ptr + ((beam.to(tl.int64) * heads + head) * length + t) * WIDTH + c, x, mask=t < filled)


@triton.jit
def undistort(x_ptr, y_ptr, high, wide, bend, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A picture of three colours a pixel, seen through a lens, made straight: four neighbours of a computed place."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    v, u = 2.0 * r / high - 1.0, 2.0 * c / wide - 1.0
    scale = 1.0 - bend * (u * u + v * v)
    b, a = (v * scale + 1.0) * 0.5 * (high - 2), (u * scale + 1.0) * 0.5 * (wide - 2)
    top, left = b.to(tl.int32), a.to(tl.int32)
    b, a = b - top, a - left
    for k in tl.static_range(3):
        p = x_ptr + (top * wide + left) * 3 + k
        near = tl.load(p, mask=mask).to(tl.float32) * (1 - a) + tl.load(p + 3, mask=mask).to(tl.float32) * a
        p += wide * 3
        far = tl.load(p, mask=mask).to(tl.float32) * (1 - a) + tl.load(p + 3, mask=mask).to(tl.float32) * a
        tl.store(y_ptr + (r * wide + c) * 3 + k, (near * (1 - b) + far * b).to(tl.uint8), mask=mask)


@triton.jit
def walk(next_ptr, start_ptr, y_ptr, n, steps, DEGREE: tl.constexpr, BLOCK: tl.constexpr):
    """Walks over a graph whose nodes have as many neighbours each: the turn at each step is by a running hash."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    node, turn = tl.load(start_ptr + at, mask=mask, other=0), at
    for _ in range(steps):
        turn = turn * 1664525 + 1013904223
        node = tl.load(next_ptr + node * DEGREE + ((turn >> 16) & (DEGREE - 1)), mask=mask, other=0)
    tl.store(y_ptr + at, node, mask=mask)


@triton.jit
def short_rows(x_ptr, w_ptr, y_ptr, rows, WIDTH: tl.constexpr, PADDED: tl.constexpr, BLOCK_R: tl.constexpr):
    """Short rows, each by its root mean square and a learned weight: heads of an attention's queries and keys."""
    r = (tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = tl.arange(0, PADDED)[None, :]
    mask = (r < rows) & (c < WIDTH)
    x = tl.load(x_ptr + r * WIDTH + c, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 1) / WIDTH + 1e-6)
    w = tl.load(w_ptr + c, mask=c < WIDTH, other=0.0).to(tl.float32)
    tl.store(y_ptr + r * WIDTH + c, (x * scale[:, None] * w).to(tl.bfloat16), mask=mask)


@triton.jit
def gram(x_ptr, y_ptr, rows, width, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Products of all pairs of columns: tiles that lie whole below the diagonal are left to their mirror images."""
    first_m, first_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    if first_m >= first_n + BLOCK_N:
        return
    m, n, k = first_m + tl.arange(0, BLOCK_M), first_n + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, rows, BLOCK_K):
        at = first + k
        a = tl.load(x_ptr + at[None, :] * width + m[:, None], mask=(at[None, :] < rows) & (m[:, None] < width), other=0)
        b = tl.load(x_ptr + at[:, None] * width + n[None, :], mask=(at[:, None] < rows) & (n[None, :] < width), other=0)
        total = tl.dot(a, b, total)
    mask = (m[:, None] < width) & (n[None, :] < width)
    tl.store(y_ptr + m[:, None] * width + n[None, :], total, mask=mask & (m[:, None] <= n[None, :]))
    tl.store(y_ptr + n[None, :] * width + m[:, None], total, mask=mask & (m[:, None] < n[None, :]))


@triton.jit
def weight_gradient(dy_ptr, x_ptr, y_ptr, rows, outs, ins, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                    BLOCK_K: tl.constexpr):  # fmt: skip
    """dW = dY^T X of a linear layer, written as bfloat16."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptr, b_ptr = dy_ptr + k[None, :] * outs + m[:, None], x_ptr + k[:, None] * ins + n[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, rows, BLOCK_K):
        a = tl.load(a_ptr, mask=(first + k[None, :] < rows) & (m[:, None] < outs), other=0.0)
        b = tl.load(b_ptr, mask=(first + k[:, None] < rows) & (n[None, :] < ins), other=0.0)
        total = tl.dot(a, b, total)
        a_ptr += BLOCK_K * outs
        b_ptr += BLOCK_K * ins
    mask = (m[:, None] < outs) & (n[None, :] < ins)
    tl.store(y_ptr + m[:, None] * ins + n[None, :], total.to(tl.bfloat16), mask=mask)


@triton.jit
def later(flag_a, sum_a, flag_b, sum_b):
    return flag_a | flag_b, tl.where(flag_b, sum_b, sum_a + sum_b)


@triton.jit
def flagged_scan(x_ptr, flag_ptr, y_ptr, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Running sums along each row that begin anew at every flag."""
    r = (tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    held = tl.zeros((BLOCK_R,), tl.float32)
    for first in range(0, cols, BLOCK_C):
        at = r * cols + first + tl.arange(0, BLOCK_C)[None, :]
        flag = tl.load(flag_ptr + at).to(tl.int1)
        x = tl.load(x_ptr + at)
        seen, total = tl.associative_scan((flag, x), 1, later)
        total += tl.where(seen, 0.0, held[:, None])
        tl.store(y_ptr + at, total)
        held = tl.sum(tl.where(tl.arange(0, BLOCK_C)[None, :] == BLOCK_C - 1, total, 0.0), 1)


@triton.jit
def split_heads(x_ptr, q_ptr, k_ptr, v_ptr, tokens, HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Rows of queries, keys and values of all heads become three tensors [head, token, width]."""
    head = tl.program_id(1)
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    c = tl.arange(0, WIDTH)[None, :]
    mask, p = t < tokens, x_ptr + t * (3 * HEADS * WIDTH) + head * WIDTH + c
    to = (head * tokens + t) * WIDTH + c
    tl.store(q_ptr + to, tl.load(p, mask=mask), mask=mask)
    tl.store(k_ptr + to, tl.load(p + HEADS * WIDTH, mask=mask), mask=mask)
    tl.store(v_ptr + to, tl.load(p + 2 * HEADS * WIDTH, mask=mask), mask=mask)
