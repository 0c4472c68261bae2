"""Kernels of Numba, Warp and Gluon whose tunables are arguments of the functions that make them."""

# mypy: ignore-errors
# ruff: noqa: UP018 - Warp makes variables of calls
from __future__ import annotations


def numba_rowsums(BLOCK, UNROLL, **_):
    from numba import cuda, float32

    @cuda.jit
    def rowsums(x, out):
        part = cuda.shared.array(BLOCK, float32)
        row, t = cuda.blockIdx.x, cuda.threadIdx.x
        total = float32(0)
        for c in range(t, x.shape[1], BLOCK * UNROLL):
            for u in range(UNROLL):
                if c + u * BLOCK < x.shape[1]:
                    total += x[row, c + u * BLOCK]
        part[t] = total
        cuda.syncthreads()
        far = BLOCK // 2
        while far > 0:
            if t < far:
                part[t] += part[t + far]
            cuda.syncthreads()
            far //= 2
        if t == 0:
            out[row] = part[0]

    return rowsums


def numba_jacobi(BX, BY, PER, **_):
    from numba import cuda, float32

    @cuda.jit
    def jacobi(x, y):
        c = cuda.blockIdx.x * BX + cuda.threadIdx.x + 1
        r0 = (cuda.blockIdx.y * BY + cuda.threadIdx.y) * PER + 1
        for p in range(PER):
            r = r0 + p
            if r < x.shape[0] - 1 and c < x.shape[1] - 1:
                y[r, c] = float32(0.25) * (x[r - 1, c] + x[r + 1, c] + x[r, c - 1] + x[r, c + 1])

    return jacobi


def numba_pairs(BLOCK, TILED, **_):
    """Sums over all others of 1 / (d^2 + 1), in one dimension."""
    from numba import cuda, float32

    @cuda.jit(fastmath=True)
    def pairs(x, out):
        tile = cuda.shared.array(BLOCK, float32)
        t = cuda.threadIdx.x
        i = cuda.blockIdx.x * BLOCK + t
        here, total = x[i], float32(0)
        for base in range(0, x.shape[0], BLOCK):
            if TILED:
                tile[t] = x[base + t]
                cuda.syncthreads()
                for j in range(BLOCK):
                    d = tile[j] - here
                    total += float32(1) / (d * d + float32(1))
                cuda.syncthreads()
            else:
                for j in range(BLOCK):
                    d = x[base + j] - here
                    total += float32(1) / (d * d + float32(1))
        out[i] = total

    return pairs


def warp_nbody(TILE, **_):
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def nbody(pos: wp.array(dtype=wp.float32, ndim=2), acc: wp.array(dtype=wp.float32, ndim=2), n: int):
        i = wp.tid()
        x, y, z = pos[i, 0], pos[i, 1], pos[i, 2]
        ax, ay, az = float(0.0), float(0.0), float(0.0)
        for j in range(0, n, TILE):
            for k in range(wp.static(TILE)):
                dx, dy, dz = pos[j + k, 0] - x, pos[j + k, 1] - y, pos[j + k, 2] - z
                d = dx * dx + dy * dy + dz * dz + 0.01
                f = pos[j + k, 3] / (d * wp.sqrt(d))
                ax += dx * f
                ay += dy * f
                az += dz * f
        acc[i, 0] = ax
        acc[i, 1] = ay
        acc[i, 2] = az

    return nbody


def warp_rownorm(WIDTH, ROWS, **_):
    """Rows over their root mean square, a tile of rows a block."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def rownorm(x: wp.array(dtype=wp.float32, ndim=2), out: wp.array(dtype=wp.float32, ndim=2)):
        i = wp.tid()
        for r in range(ROWS):
            a = wp.tile_load(x[i * ROWS + r], shape=WIDTH)
            s = wp.tile_sum(wp.tile_map(wp.mul, a, a))
            by = 1.0 / wp.sqrt(wp.tile_extract(s, 0) / float(WIDTH) + 1.0e-5)
            wp.tile_store(out[i * ROWS + r], a * by)

    return rownorm


def warp_shifted(PER, **_):
    """A stencil along a row, with PER rows a thread."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def shifted(x: wp.array(dtype=wp.float32, ndim=2), y: wp.array(dtype=wp.float32, ndim=2)):
        i, j = wp.tid()
        for p in range(wp.static(PER)):
            r = i * PER + p
            if j > 1 and j < x.shape[1] - 2:
                y[r, j] = x[r, j - 2] * 0.1 + x[r, j - 1] * 0.2 + x[r, j] * 0.4 + x[r, j + 1] * 0.2 + x[r, j + 2] * 0.1

    return shifted


def gluon_softmax(**_):
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def softmax(
        x, out, COLS: gl.constexpr, ROWS: gl.constexpr, VEC: gl.constexpr, ACROSS: gl.constexpr, num_warps: gl.constexpr
    ):
        lanes: gl.constexpr = gl.BlockedLayout([1, VEC], [1, 32], [num_warps // ACROSS, ACROSS], [1, 0])
        row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, lanes))
        col = gl.arange(0, COLS, layout=gl.SliceLayout(0, lanes))
        at = row[:, None] * COLS + col[None, :]
        held = gl.load(x + at)
        top = gl.max(held, axis=1)
        e = gl.exp(held - top[:, None])
        gl.store(out + at, e / gl.sum(e, axis=1)[:, None])

    return softmax


def gluon_transposed(**_):
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def transposed(x, out, rows, cols, R: gl.constexpr, C: gl.constexpr, VEC: gl.constexpr, num_warps: gl.constexpr):
        read: gl.constexpr = gl.BlockedLayout([1, VEC], [1, 32], [num_warps, 1], [1, 0])
        write: gl.constexpr = gl.BlockedLayout([VEC, 1], [32, 1], [1, num_warps], [0, 1])
        r = gl.program_id(1) * R + gl.arange(0, R, layout=gl.SliceLayout(1, read))
        c = gl.program_id(0) * C + gl.arange(0, C, layout=gl.SliceLayout(0, read))
        held = gl.load(x + r[:, None] * cols + c[None, :])
        held = gl.convert_layout(held, write)
        r = gl.program_id(1) * R + gl.arange(0, R, layout=gl.SliceLayout(1, write))
        c = gl.program_id(0) * C + gl.arange(0, C, layout=gl.SliceLayout(0, write))
        gl.store(out + c[None, :] * rows + r[:, None], held)

    return transposed


def numba_smooth(BX, BY, SHARED, **_):
    """Means of five neighbours along a row."""
    from numba import cuda, float32

    WIDE = BX + 4

    @cuda.jit
    def smooth(x, out):
        tile = cuda.shared.array((BY, WIDE), float32)
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        c, r = cuda.blockIdx.x * BX + i, cuda.blockIdx.y * BY + j
        if SHARED:
            for k in range(i, WIDE, BX):
                at = cuda.blockIdx.x * BX + k - 2
                tile[j, k] = x[r, at] if 0 <= at < x.shape[1] and r < x.shape[0] else float32(0)
            cuda.syncthreads()
        if r < x.shape[0] and c < x.shape[1]:
            total = float32(0)
            for k in range(5):
                if SHARED:
                    total += tile[j, i + k]
                elif 0 <= c + k - 2 < x.shape[1]:
                    total += x[r, c + k - 2]
            out[r, c] = total * float32(0.2)

    return smooth


def numba_counted(BLOCK, **_):
    """How many numbers end in each six bits, by atomics in shared memory."""
    from numba import cuda, int32

    @cuda.jit
    def counted(x, out):
        held = cuda.shared.array(64, int32)
        t = cuda.threadIdx.x
        if t < 64:
            held[t] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
            cuda.atomic.add(held, x[i] & 63, 1)
        cuda.syncthreads()
        if t < 64:
            cuda.atomic.add(out, t, held[t])

    return counted


def warp_gathered(UNROLL, **_):
    """Sums over rows of four numbers that lists of n name."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def gathered(
        x: wp.array(dtype=wp.float32, ndim=2), which: wp.array(dtype=wp.int32), out: wp.array(dtype=wp.float32), n: int
    ):
        i = wp.tid()
        total = float(0.0)
        for j in range(0, n, UNROLL):
            for k in range(wp.static(UNROLL)):
                at = which[i * n + j + k]
                total += x[at, 0] + x[at, 1] + x[at, 2] + x[at, 3]
        out[i] = total

    return gathered
