"""Triton kernels whose code and loops can be counted by hand; compiled, never run."""

import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def spread(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """To all of y the one number of x."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.full((BLOCK,), 0, tl.float32) + tl.load(x_ptr), mask=i < n)


class Forwarding:
    """As packages wrap a kernel to keep what they launched: all but that is the kernel's."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __getattr__(self, name):
        return getattr(self._kernel, name)


@Forwarding
@triton.jit
def forwarded(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def pushed(x_ptr, to_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Half of the places are beyond the end, if no mask on what is loaded leaves them out."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (i < n) & (tl.load(to_ptr + i, mask=i < n, other=0) > 0)
    tl.store(y_ptr + i + n // 2, tl.load(x_ptr + i, mask=i < n), mask=mask)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = tl.cdiv(N, BN)
    m = tl.program_id(0) // columns * BM + tl.arange(0, BM)
    n = tl.program_id(0) % columns * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a = a_ptr + m[:, None] * K + k[None, :]
    b = b_ptr + n[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += BK
        b += BK
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def described(a_desc, y_ptr, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for row in range(0, rows, BLOCK):
        total += a_desc.load([row, tl.program_id(0) * BLOCK]).to(tl.float32)
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i[:, None] * BLOCK + i[None, :], total)


@triton.jit
def described_in_batches(a_desc, y_ptr, rows, BLOCK: tl.constexpr):
    """Triton loads a tile of two axes from a descriptor of three."""
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for row in range(0, rows, BLOCK):
        tile = a_desc.load([tl.program_id(1), row, tl.program_id(0) * BLOCK])
        total += tile.reshape(BLOCK, BLOCK).to(tl.float32)
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(1) * BLOCK * BLOCK + i[:, None] * BLOCK + i[None, :], total)


@triton.jit
def rows_in_turn(x_ptr, y_ptr, rows, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """The inner loop has so few passes that compilers leave none of it."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        total = tl.zeros((BLOCK,), tl.float32)
        for column in range(0, COLUMNS, BLOCK):
            total += tl.load(x_ptr + row * COLUMNS + column + tl.arange(0, BLOCK)).to(tl.float32)
        tl.store(y_ptr + row, tl.sum(total))


@triton.jit
def wrong(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.arange(0, 2 * BLOCK))


@triton.jit
def misnamed(x_ptr):
    """An error function that this language does not have."""
    tl.store(x_ptr, tl.no_error_function(1.0))


def outer():
    @triton.jit
    def inner(x_ptr):
        tl.store(x_ptr, 1)

    return inner


@triton.jit
def kind(x, y, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, 2 * value if KIND == "DOUBLED" else value, mask=i < n)


@triton.jit
def ragged(x, y, lengths, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, tl.load(lengths + row), BLOCK):
        total += tl.load(x + row * 4096 + start + tl.arange(0, BLOCK)).to(tl.float32)
    tl.store(y + row * BLOCK + tl.arange(0, BLOCK), total.to(tl.float16))


@triton.jit
def declared(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    matmul(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)


@triton.jit
def rows(x, y, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * 4096 + tl.arange(0, 4096)[None, :]
    tl.store(y + at, 2 * tl.load(x + at))


@triton.jit
def products_beside(a, b, c, d, K, TRIANGLE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """A loop of products, and another product behind it; with TRIANGLE only programs below the diagonal."""
    m, n = tl.program_id(0), tl.program_id(1)
    if TRIANGLE and n > m:
        return
    i, j, k = m * BM + tl.arange(0, BM), n * BM + tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for start in range(0, K, BK):
        rows = tl.load(a + i[:, None] * K + start + k[None, :])
        acc = tl.dot(rows, tl.load(b + j[None, :] * K + start + k[:, None]), acc)
    acc = tl.dot(acc.to(tl.float16), tl.load(d + tl.arange(0, BM)[:, None] * BM + tl.arange(0, BM)[None, :]))
    tl.store(c + i[:, None] * K + j[None, :], acc.to(tl.float16))


@triton.jit
def added(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + i, tl.load(x + i))


@triton.jit
def counted(x, y, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + tl.arange(0, BINS), tl.histogram(tl.load(x + i), BINS), sem="relaxed")


@triton.jit
def turned(x, y, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    tile = tl.load(x + r[:, None] * columns + c[None, :])
    tl.store(y + c[:, None] * rows + r[None, :], tl.trans(tile))


@triton.jit
def turned_far(x, y, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    """The next program stores other rows than this one's."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    r = tl.program_id(1) * BR + tl.arange(0, BR)
    tile = tl.load(x + r[:, None] * columns + c[None, :])
    tl.store(y + c[:, None] * rows + r[None, :], tl.trans(tile))


@triton.jit
def scanned(x, y, steps, BLOCK: tl.constexpr):
    """One row after another, of which each thread holds many columns again: a loop that nobody unrolls."""
    i = tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK, BLOCK), tl.float32)
    for t in range(steps):
        row = tl.load(x + t * BLOCK + i).to(tl.float32)
        state += row[:, None] * row[None, :]
        tl.store(y + t * BLOCK + i, tl.sum(state, 0))


@triton.jit
def scaled(x, y, factor, BLOCK: tl.constexpr):
    by = tl.load(factor)
    if by == 1.0:
        return
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * by)


@triton.jit
def longest(x, y, lengths, BLOCK: tl.constexpr):
    """Rows of several lengths at once, as far as the longest of them reaches."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    length = tl.load(lengths + row)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.max(length, 0)):
        total += tl.load(x + row * 4096 + i, mask=i < length).to(tl.float32)
    tl.store(y + row, total)


@triton.jit
def between(x, y, offsets, BLOCK: tl.constexpr):
    """The sum of each piece of x, from an offset to the next."""
    last = tl.load(offsets + tl.program_id(0) + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.load(offsets + tl.program_id(0)), last, BLOCK):
        at = i + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < last, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def decayed(x, k, g, y, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each row of a chunk with those before it, which have decayed. Threads load their part of a row several times."""
    rows, columns, first = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.program_id(0) * ROWS
    at = (first + rows[:, None]) * COLUMNS + columns[None, :]
    here, total = tl.load(g + at), tl.zeros((ROWS, COLUMNS), tl.float32)
    for j in range(0, min(ROWS, n - first)):
        weight, row = tl.load(x + (first + rows) * ROWS + j), (first + j) * COLUMNS + columns
        decay = tl.exp2(here - tl.load(g + row)[None, :])
        total += tl.where(rows[:, None] >= j, weight[:, None] * tl.load(k + row)[None, :] * decay, 0.0)
    tl.store(y + at, total)


@triton.jit
def waves(x, y, n, SINE: tl.constexpr, BLOCK: tl.constexpr):
    """A sine has a loop for large numbers in NVIDIA's code, a remainder one for large quotients in AMD's."""
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        each = tl.load(x + tl.program_id(0) * n + i + tl.arange(0, BLOCK))
        total += tl.sin(each) if SINE else each % 3.7
    tl.store(y + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def neighbours(x, w, y, K, ROW, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Products with the neighbours of each row: LLVM unrolls the loop in the middle for AMD, and no other."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(3):
        for j in range(3):
            for start in range(0, K, BK):
                here = tl.load(x + (m + i * ROW + j)[:, None] * K + start + k[None, :], mask=(start + k < K)[None, :])
                there = tl.load(w + n[None, :] * K * 9 + (i * 3 + j) * K + start + k[:, None])
                acc = tl.dot(here, there, acc)
    tl.store(y + m[:, None] * BN + n[None, :], acc.to(tl.float16))


@triton.jit
def refined(x, y, steps, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """Passes over a row in blocks, between two more: compilers unroll all loops but the one around them."""
    row, i = x + tl.program_id(0) * COLUMNS, tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, COLUMNS, BLOCK):
        largest = tl.maximum(largest, tl.load(row + start + i))
    bound = tl.max(largest, 0)
    for _ in range(steps):
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, COLUMNS, BLOCK):
            total += tl.sqrt(tl.maximum(tl.load(row + start + i) - bound, 0.0))
        bound += tl.sum(total, 0)
    for start in range(0, COLUMNS, BLOCK):
        tl.store(y + tl.program_id(0) * COLUMNS + start + i, tl.load(row + start + i) - bound)


@triton.jit
def looked_up(codes, table, y, sums, BLOCK: tl.constexpr):
    """A table of a few lines, which every element asks for one number, and a sum through shared memory."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(table + tl.load(codes + i))
    tl.store(y + i, value)
    tl.store(sums + tl.program_id(0), tl.sum(value, 0))


@triton.jit
def searched(x, y, sizes, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of groups of several sizes: a program looks for its group, and ends where there is none for it."""
    place, group, first, before = tl.program_id(0), -1, 0, 0
    for g in range(GROUPS):
        behind = before + tl.cdiv(tl.load(sizes + g), BLOCK)
        here = (group < 0) & (place < behind)
        group = tl.where(here, g, group)
        first = tl.where(here, before, first)
        before = behind
    if group < 0:
        return
    row = (place - first) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < tl.load(sizes + group))[:, None]
    at = (group * N + row[:, None]) * N + tl.arange(0, BLOCK)[None, :]
    for start in range(0, N, BLOCK):
        tl.store(y + at + start, 2 * tl.load(x + at + start, mask=inside), mask=inside)


@triton.jit
def flattened(
    a_desc, b_desc, c_desc, scale, M, N, K, FLAT: tl.constexpr, SCALED: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Tiles that a program walks; with FLAT the compiler makes one loop of tiles and steps."""
    columns = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0), flatten=FLAT):
        m, n = tile // columns * BM, tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([n, k]).T, acc)
        if SCALED:
            acc = acc * tl.load(scale + m + tl.arange(0, BM))[:, None]
        c_desc.store([m, n], acc.to(tl.float16))


@triton.jit
def taps(x, y, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Each sum has most of its terms in common with its neighbours'."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        acc += tl.load(x + i + k, mask=i + k < n, other=0.0)
    tl.store(y + i, acc, mask=i < n)


@triton.jit
def taken(x, key, y, places, BLOCK: tl.constexpr):
    """Numbers at random places."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + (tl.load(key + i) & (places - 1))))


@triton.jit
def largest(key, y, places, BLOCK: tl.constexpr):
    """Atomics at random places."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(y + (tl.load(key + i) & (places - 1)), i, sem="relaxed")


@triton.jit
def total(x, y, BLOCK: tl.constexpr):
    """All programs add to one number."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y, tl.sum(tl.load(x + i), 0), sem="relaxed")


@triton.jit
def lanes_added(x, y, BLOCK: tl.constexpr):
    """All lanes add to one number."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + i * 0, tl.load(x + i), sem="relaxed")


@triton.jit
def segments(x, y, length, BLOCK: tl.constexpr):
    """Sums of `length` numbers in a row, one atomic a number."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + i // length, tl.load(x + i), sem="relaxed")


@triton.jit
def turned_over(x, y, rows, cols, BLOCK: tl.constexpr):
    """A transpose by computed index: neighbours read from different rows."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i % rows * cols + i // rows))


@triton.jit
def distances(x, y, out, N, D, BM: tl.constexpr, BN: tl.constexpr):
    """Squares of them, of all pairs of rows. Threads load many elements of a column several times."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for d in range(D):
        apart = tl.load(x + m * D + d)[:, None] - tl.load(y + n * D + d)[None, :]
        acc += apart * apart
    tl.store(out + m[:, None] * N + n[None, :], acc)


@triton.jit(do_not_specialize=["step"])
def every(x, y, step, BLOCK: tl.constexpr):
    """One of so many numbers, and the one after it."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i * step) + tl.load(x + i * step + 1))


@triton.jit
def annotated(x, plain, whole: int, long: tl.int64, unsigned: tl.uint32, single: float, flag: tl.int1):
    tl.store(x, plain + whole + long + unsigned + single + flag)


@triton.jit
def turned_bytes(x, y, M, N, stride, beside: tl.int32, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + m[:, None] * N + n[None, :]).to(y.dtype.element_ty)
    tl.store(y + n[:, None] * stride + m[None, :] * beside, tl.trans(tile))


@triton.jit
def turned_rows(x, y, M, N, stride, beside, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + m[:, None] * N + n[None, :]).to(y.dtype.element_ty)
    tl.store(y + n[:, None] * stride + m[None, :] * beside, tl.trans(tile))


@triton.jit
def added_in_turn(p, TABLE, BLOCK: tl.constexpr, SEM: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(p + o % TABLE, 1, sem=SEM)


@triton.jit
def added_anywhere(src, index, out, N, W: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = o < N
    tl.atomic_add(out + o // W * W + tl.load(index + o, ok, other=0), tl.load(src + o, ok), ok, sem="relaxed")


@triton.jit
def around(x, y, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    """The most of 3 x 3 numbers, in a plane with a frame of one."""
    r = (tl.program_id(1) * BR + tl.arange(0, BR))[:, None]
    c = (tl.program_id(0) * BC + tl.arange(0, BC))[None, :]
    mask, at = (r < rows) & (c < cols), x + r * (cols + 2) + c
    most = tl.load(at, mask=mask, other=0)
    for k in tl.static_range(1, 9):
        most = tl.maximum(most, tl.load(at + k // 3 * (cols + 2) + k % 3, mask=mask, other=0))
    tl.store(y + r * cols + c, most, mask=mask)


@triton.jit
def pooled(x, y, wide, out, WIDTH: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """The most of 3 x 3 pixels, every second, channels last; an image along the third axis."""
    p, c = tl.program_id(0) * BP + tl.arange(0, BP), tl.program_id(1) * BC + tl.arange(0, BC)
    first = (tl.program_id(2) * wide + p // out * 2) * wide + p % out * 2
    mask = (p < out * out)[:, None] & (c < WIDTH)[None, :]
    most = tl.full((BP, BC), float("-inf"), tl.float16)
    for k in tl.static_range(9):
        at = (first + k // 3 * wide + k % 3)[:, None] * WIDTH + c[None, :]
        most = tl.maximum(most, tl.load(x + at, mask=mask, other=float("-inf")))
    tl.store(y + (tl.program_id(2) * out * out + p)[:, None] * WIDTH + c[None, :], most, mask=mask)


@triton.jit
def in_doubles(x_ptr, y_ptr, n, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    for _ in tl.static_range(TIMES):
        x = x * x + 0.5
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def picked(at_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + tl.load(at_ptr + i)))


@triton.jit
def paged(at_ptr, x_ptr, y_ptr, PAGE: tl.constexpr):
    """A page of a cache, of which a table tells the place."""
    i, c = tl.program_id(0), tl.arange(0, PAGE)
    tl.store(y_ptr + i * PAGE + c, tl.load(x_ptr + tl.load(at_ptr + i) * PAGE + c))


@triton.jit
def sum_segments(x_ptr, first_ptr, y_ptr, D, BLOCK: tl.constexpr, BD: tl.constexpr):
    """Sums of rows that begin where a list says."""
    s, d = tl.program_id(0), tl.program_id(1) * BD + tl.arange(0, BD)
    begin, end = tl.load(first_ptr + s), tl.load(first_ptr + s + 1)
    acc = tl.zeros((BD,), tl.float32)
    for i in range(begin, end, BLOCK):
        r = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + r[:, None] * D + d[None, :], mask=(r < end)[:, None] & (d < D)[None, :], other=0.0)
        acc += tl.sum(x.to(tl.float32), 0)
    tl.store(y_ptr + s * D + d, acc, mask=d < D)


@triton.jit
def add_one(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def iterate(x_ptr, y_ptr, K, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    for _ in range(K):
        x = x * x + 0.5
    tl.store(y_ptr + i, x)


@triton.jit
def iterate_within(x_ptr, y_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    """A loop of arithmetic alone within a loop that loads."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for c in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + c + i)
        for _ in range(K):
            x = x * x + 0.5
        total += x
    tl.store(y_ptr + row * BLOCK + i, total)


@triton.jit
def mixed(x_ptr, y_ptr, K, BLOCK: tl.constexpr):
    """A hash of integers, in which no operation is of floating point."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    for k in range(K):
        x = (x ^ (x >> 15)) * -2048144789 + k
    tl.store(y_ptr + i, x)
