"""Kernels before and after a change, for `compare_changes.py`; those of its second list begin with `gated`."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
           MASK_K: tl.constexpr, B_BY_ROWS: tl.constexpr, GELU: tl.constexpr):  # fmt: skip
    """c = a @ b; B_BY_ROWS: b is kept as [N, K]."""
    pid = tl.program_id(0)
    tall, wide = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP_M * wide) * GROUP_M
    height = min(tall - first, GROUP_M)
    rm = (first + pid % (GROUP_M * wide) % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid % (GROUP_M * wide) // height * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        at_a = a + rm[:, None] * K + (k + rk)[None, :]
        at_b = b + (rn[None, :] * K + (k + rk)[:, None] if B_BY_ROWS else (k + rk)[:, None] * N + rn[None, :])
        if MASK_K:
            x = tl.load(at_a, mask=(k + rk)[None, :] < K, other=0.0)
            y = tl.load(at_b, mask=(k + rk)[:, None] < K, other=0.0)
        else:
            x, y = tl.load(at_a), tl.load(at_b)
        acc = tl.dot(x, y, acc)
    if GELU:
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def normalise_twice(x, w, y, cols, BLOCK: tl.constexpr):
    """Root mean square norm of a row: x is read once for the sum and once for the result."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
        total += v * v
    scale = 1.0 / tl.sqrt(tl.sum(total) / cols + 1e-6)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
        tl.store(y + row * cols + i, (v * scale * tl.load(w + i, mask=i < cols)).to(y.dtype.element_ty), mask=i < cols)


@triton.jit
def normalise_once(x, w, y, cols, BLOCK: tl.constexpr):
    """The same with the row kept in registers."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(v * v) / cols + 1e-6)
    tl.store(y + row * cols + i, (v * scale * tl.load(w + i, mask=i < cols)).to(y.dtype.element_ty), mask=i < cols)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def turn(x, y, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, TILED: tl.constexpr):
    """y = x transposed, a tile a program; not TILED: elements are written a column at a time."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    v = tl.load(x + r[:, None] * cols + c[None, :])
    if TILED:
        tl.store(y + c[:, None] * rows + r[None, :], tl.trans(v))
    else:
        tl.store(y + c[None, :] * rows + r[:, None], v)


@triton.jit
def column_sums(x, y, rows, cols, BLOCK_C: tl.constexpr, UNROLL: tl.constexpr):
    """One column a lane, one row a pass."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_C,), tl.float32)
    for r in tl.range(0, rows, loop_unroll_factor=UNROLL):
        acc += tl.load(x + r * cols + c)
    tl.store(y + c, acc)


@triton.jit
def take_rows(x, index, y, cols, BLOCK: tl.constexpr, BY_INDEX: tl.constexpr):
    """y[i] = x[index[i]], or y[i] = x[i]."""
    row = tl.program_id(0)
    source = tl.load(index + row) if BY_INDEX else row
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + row * cols + i, tl.load(x + source * cols + i))


@triton.jit
def attention(q, k, v, o, LENGTH, scale, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              TO_DIAGONAL: tl.constexpr):  # fmt: skip
    """Causal attention; not TO_DIAGONAL: blocks that are masked whole are computed too."""
    block, head = tl.program_id(0), tl.program_id(1)
    base = head * LENGTH * HEAD
    rm, rd, rn = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, HEAD), tl.arange(0, BLOCK_N)
    x = tl.load(q + base + rm[:, None] * HEAD + rd[None, :])
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    end = (block + 1) * BLOCK_M if TO_DIAGONAL else LENGTH
    for start in range(0, end, BLOCK_N):
        at = base + (start + rn)[:, None] * HEAD + rd[None, :]
        s = tl.dot(x, tl.trans(tl.load(k + at))) * scale
        s = tl.where(rm[:, None] >= (start + rn)[None, :], s, -1e30)
        above = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - above[:, None])
        old = tl.exp2(top - above)
        total = total * old + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(v + at), acc * old[:, None])
        top = above
    tl.store(o + base + rm[:, None] * HEAD + rd[None, :], (acc / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def count_each(x, bins, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """A histogram: an atomic an element."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def count_first(x, bins, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """The same counted by the block first: an atomic a bin."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counted = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(bins + tl.arange(0, BINS), counted)


@triton.jit
def gated(x, u, g, y, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """y = (x @ u) * silu(x @ g)."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    gate = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(x + rm[:, None] * K + (k + rk)[None, :])
        up = tl.dot(a, tl.load(u + (k + rk)[:, None] * N + rn[None, :]), up)
        gate = tl.dot(a, tl.load(g + (k + rk)[:, None] * N + rn[None, :]), gate)
    tl.store(y + rm[:, None] * N + rn[None, :], (up * gate * tl.sigmoid(gate)).to(y.dtype.element_ty))


@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + i, mask=i < cols, other=-float("inf")).to(tl.float32)
    v = tl.exp(v - tl.max(v))
    tl.store(y + row * cols + i, (v / tl.sum(v)).to(y.dtype.element_ty), mask=i < cols)


@triton.jit
def padded(x, length, y, cols, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """A smooth step of rows, as far as they are long; not MASKED: of whole rows."""
    row, i = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < tl.load(length + row) if MASKED else tl.full((BLOCK,), True, tl.int1)
    v = tl.load(x + row * cols + i, mask=inside, other=0.0)
    tl.store(y + row * cols + i, v * v * (3.0 - 2.0 * v), mask=inside)


@triton.jit
def matvec(w, x, y, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, UNROLL: tl.constexpr):
    r, c = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for start in tl.range(0, cols, BLOCK_C, loop_unroll_factor=UNROLL):
        v = tl.load(w + r[:, None] * cols + (start + c)[None, :]).to(tl.float32)
        acc += v * tl.load(x + start + c).to(tl.float32)[None, :]
    tl.store(y + r, tl.sum(acc, 1).to(y.dtype.element_ty))


@triton.jit
def pulled(px, py, mass, out, n, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """The first component of gravity on points of a plane."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(px + i)[:, None], tl.load(py + i)[:, None]
    acc = tl.zeros((BLOCK, CHUNK), tl.float32)
    for start in range(0, n, CHUNK):
        j = start + tl.arange(0, CHUNK)
        dx, dy = tl.load(px + j)[None, :] - x, tl.load(py + j)[None, :] - y
        near = tl.rsqrt(dx * dx + dy * dy + 0.01)
        acc += tl.load(mass + j)[None, :] * dx * near * near * near
    tl.store(out + i, tl.sum(acc, 1))


@triton.jit
def lengths(points, out, n, BLOCK: tl.constexpr, TOGETHER: tl.constexpr):
    """Of vectors of three; TOGETHER: the numbers of a vector side by side, else each component for itself."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    step, apart = (3, 1) if TOGETHER else (1, n)
    x = tl.load(points + i * step)
    y = tl.load(points + i * step + apart)
    z = tl.load(points + i * step + 2 * apart)
    tl.store(out + i, tl.sqrt(x * x + y * y + z * z))


@triton.jit
def bias_gradient(x, y, rows, cols, EACH: tl.constexpr, BLOCK_C: tl.constexpr, ATOMIC: tl.constexpr):
    """Sums of columns: of EACH rows a program, added to y[0]; not ATOMIC: kept in a row of y for each program."""
    part, c = tl.program_id(1), tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_C,), tl.float32)
    for r in range(part * EACH, part * EACH + EACH):
        acc += tl.load(x + r * cols + c).to(tl.float32)
    if ATOMIC:
        tl.atomic_add(y + c, acc)
    else:
        tl.store(y + part * cols + c, acc)
