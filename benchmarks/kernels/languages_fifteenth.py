"""Kernels of TileLang, Numba, Warp, Gluon, cuTile and CuTe DSL of a fifteenth set; tunables are arguments of what makes them."""

# mypy: ignore-errors
# ruff: noqa: E501 - code of kernels is wide


def tilelang_scaled(M, N, K, block_M, block_N, block_K, num_stages, threads):
    """A product of floats of eight bits, with a scale for each row of both."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float8_e4m3"),
        B: T.Tensor((N, K), "float8_e4m3"),
        rows: T.Tensor((M,), "float32"),
        cols: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (x, y):
            a = T.alloc_shared((block_M, block_K), "float8_e4m3")
            b = T.alloc_shared((block_N, block_K), "float8_e4m3")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[y * block_M, k * block_K], a)
                T.copy(B[x * block_N, k * block_K], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = c[i, j] * rows[y * block_M + i] * cols[x * block_N + j]
            T.copy(c, C[y * block_M, x * block_N])

    return main


def tilelang_colsums(rows, cols, block_R, block_C, num_stages, threads):
    """Sums of the columns of a wide matrix of halves, by tiles down each strip."""
    import tilelang.language as T

    @T.prim_func
    def main(X: T.Tensor((rows, cols), "float16"), Y: T.Tensor((cols,), "float32")):
        with T.Kernel(T.ceildiv(cols, block_C), threads=threads) as x:
            held = T.alloc_shared((block_R, block_C), "float16")
            some = T.alloc_fragment((block_R, block_C), "float16")
            total = T.alloc_fragment((block_R, block_C), "float32")
            out = T.alloc_fragment((block_C,), "float32")
            T.clear(total)
            for k in T.Pipelined(rows // block_R, num_stages=num_stages):
                T.copy(X[k * block_R, x * block_C], held)
                T.copy(held, some)
                for i, j in T.Parallel(block_R, block_C):
                    total[i, j] += some[i, j]
            T.reduce_sum(total, out, dim=0)
            T.copy(out, Y[x * block_C])

    return main


def numba_causal(BLOCK, PER, **_):
    """A filter of four taps by channel along time, then SiLU: channels innermost, PER times a thread."""
    import math

    from numba import cuda, float32

    @cuda.jit(fastmath=True)
    def causal(x, w, out):
        c, t, b = cuda.blockIdx.x * BLOCK + cuda.threadIdx.x, cuda.blockIdx.y * PER, cuda.blockIdx.z
        w0, w1, w2, w3 = w[0, c], w[1, c], w[2, c], w[3, c]
        x0, x1, x2 = x[b, t, c], x[b, t + 1, c], x[b, t + 2, c]
        for p in range(PER):
            x3 = x[b, t + p + 3, c]
            v = w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
            out[b, t + p, c] = v / (float32(1) + math.exp(-v))
            x0, x1, x2 = x1, x2, x3

    return causal


def warp_projected(PER, **_):
    """A flow less the slope of a pressure, in a volume with a border; PER planes a thread."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def projected(
        p: wp.array3d(dtype=float), u: wp.array3d(dtype=float), v: wp.array3d(dtype=float), w: wp.array3d(dtype=float)
    ):
        a, j, i = wp.tid()
        for q in range(wp.static(PER)):
            k = a * wp.static(PER) + q
            u[k, j, i] = u[k, j, i] - 0.5 * (p[k + 1, j + 1, i + 2] - p[k + 1, j + 1, i])
            v[k, j, i] = v[k, j, i] - 0.5 * (p[k + 1, j + 2, i + 1] - p[k + 1, j, i + 1])
            w[k, j, i] = w[k, j, i] - 0.5 * (p[k + 2, j + 1, i + 1] - p[k, j + 1, i + 1])

    return projected


def gluon_rooted(**_):
    """What is added to a residual, kept, and over its root of mean squares, ROWS rows a program."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def rooted(x, given, weight, kept, out, COLS: gl.constexpr, ROWS: gl.constexpr, VEC: gl.constexpr,
               ACROSS: gl.constexpr, num_warps: gl.constexpr):  # fmt: skip
        lanes: gl.constexpr = gl.BlockedLayout([1, VEC], [1, 32], [num_warps // ACROSS, ACROSS], [1, 0])
        r = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, lanes))
        c = gl.arange(0, COLS, layout=gl.SliceLayout(0, lanes))
        at = r[:, None] * COLS + c[None, :]
        held = gl.load(x + at).to(gl.float32) + gl.load(given + at).to(gl.float32)
        gl.store(kept + at, held.to(gl.float16))
        by = gl.rsqrt(gl.sum(held * held, axis=1) / COLS + 1e-6)
        gl.store(out + at, (held * by[:, None] * gl.load(weight + c)[None, :]).to(gl.float16))

    return rooted


def cutile_batched(**_):
    """A product for each of a batch, whose right operand is turned."""
    import cuda.tile as ct

    @ct.kernel
    def batched(a, b, c, rows: ct.Constant[int], cols: ct.Constant[int], depth: ct.Constant[int]):
        i, j, z = ct.bid(0), ct.bid(1), ct.bid(2)
        total = ct.full((rows, cols), 0.0, ct.float32)
        for k in range(ct.cdiv(a.shape[2], depth)):
            left = ct.load(a, index=(z, i, k), shape=(1, rows, depth)).reshape((rows, depth))
            right = ct.load(b, index=(z, j, k), shape=(1, cols, depth)).reshape((cols, depth))
            total = ct.mma(left, ct.transpose(right), total)
        ct.store(c, index=(z, i, j), tile=total.astype(c.dtype).reshape((1, rows, cols)))

    return batched


def cute_unit(COLS, **_):
    """Rows over their length: LANES threads a row, VEC numbers at a time, in two walks."""
    import cutlass
    from cutlass import cute

    @cute.kernel
    def unit_kernel(
        A: cute.Tensor, B: cute.Tensor, ROWS: cutlass.Constexpr, LANES: cutlass.Constexpr, VEC: cutlass.Constexpr
    ):
        t, _, _ = cute.arch.thread_idx()
        b, _, _ = cute.arch.block_idx()
        row, lane = b * ROWS + t // LANES, t % LANES
        mine = cute.zipped_divide(A, (1, VEC))
        to = cute.zipped_divide(B, (1, VEC))
        square = cutlass.Float32(0.0)
        for k in range(COLS // (VEC * LANES)):
            v = mine[(None, (row, k * LANES + lane))].load()
            for e in cutlass.range_constexpr(VEC):
                square += v[e] * v[e]
        far = LANES // 2
        while cutlass.const_expr(far > 0):
            square += cute.arch.shuffle_sync_bfly(square, offset=far)
            far //= 2
        by = cute.math.rsqrt(square)
        for k in range(COLS // (VEC * LANES)):
            at = (None, (row, k * LANES + lane))
            to[at].store(mine[at].load() * by)

    @cute.jit
    def unit(
        A: cute.Tensor, B: cute.Tensor, ROWS: cutlass.Constexpr, LANES: cutlass.Constexpr, VEC: cutlass.Constexpr
    ):
        unit_kernel(A, B, ROWS, LANES, VEC).launch(grid=[A.shape[0] // ROWS, 1, 1], block=[ROWS * LANES, 1, 1])

    return unit
