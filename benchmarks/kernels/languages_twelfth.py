"""Kernels of TileLang, Numba, Warp, cuTile and CuTe DSL of a twelfth set; tunables are arguments of what makes them."""

# mypy: ignore-errors
# ruff: noqa: E501 - code of kernels is wide
# ---------------------------------------------------------------------------------------------------------- TileLang


def tilelang_batched(batch, M, N, K, block_M, block_N, block_K, num_stages, threads):
    """Products of a batch, with what is added to each."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((batch, M, K), "float16"),
        B: T.Tensor((batch, N, K), "float16"),
        R: T.Tensor((batch, M, N), "float16"),
        C: T.Tensor((batch, M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=threads) as (x, y, z):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_N, block_K), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[z, y * block_M, k * block_K], a)
                T.copy(B[z, x * block_N, k * block_K], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] += R[z, y * block_M + i, x * block_N + j]
            T.copy(c, C[z, y * block_M, x * block_N])

    return main


def tilelang_affined(rows, cols, block, threads):
    """Layer norm with a scale and a shift, rows kept in registers."""
    import tilelang.language as T

    @T.prim_func
    def main(
        x: T.Tensor((rows, cols), "float16"),
        gamma: T.Tensor((cols,), "float32"),
        beta: T.Tensor((cols,), "float32"),
        out: T.Tensor((rows, cols), "float16"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as r:
            local = T.alloc_fragment((block, cols), "float32")
            square = T.alloc_fragment((block, cols), "float32")
            mean = T.alloc_fragment((block,), "float32")
            over = T.alloc_fragment((block,), "float32")
            T.copy(x[r * block, 0], local)
            T.reduce_sum(local, mean, dim=1)
            for i, j in T.Parallel(block, cols):
                local[i, j] -= mean[i] / cols
                square[i, j] = local[i, j] * local[i, j]
            T.reduce_sum(square, over, dim=1)
            for i, j in T.Parallel(block, cols):
                local[i, j] = local[i, j] * T.rsqrt(over[i] / cols + 1e-5) * gamma[j] + beta[j]
            T.copy(local, out[r * block, 0])

    return main


def tilelang_filtered(n, side, cin, cout, block_M, block_N, block_K, num_stages, threads):
    """A convolution 3 x 3, NHWC, edges of zeros: places of each chunk of K are computed."""
    import tilelang.language as T

    @T.prim_func
    def main(
        x: T.Tensor((n, side, side, cin), "float16"),
        w: T.Tensor((9 * cin, cout), "float16"),
        out: T.Tensor((n * side * side, cout), "float16"),
    ):
        with T.Kernel(T.ceildiv(cout, block_N), T.ceildiv(n * side * side, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for t in T.Pipelined(9 * cin // block_K, num_stages=num_stages):
                for i, j in T.Parallel(block_M, block_K):
                    k = t * block_K + j
                    m = by * block_M + i
                    h = m // side % side + k // cin // 3 - 1
                    v = m % side + k // cin % 3 - 1
                    inside = (h >= 0) and (v >= 0) and (h < side) and (v < side)
                    a[i, j] = T.if_then_else(inside, x[m // (side * side), h, v, k % cin], 0)
                T.copy(w[t * block_K, bx * block_N], b)
                T.gemm(a, b, c)
            T.copy(c, out[by * block_M, bx * block_N])

    return main


# ------------------------------------------------------------------------------------------------------------- Numba


def numba_haar(BX, BY, STAGED, H, W, **_):
    """A step of a wavelet transform of an image: means and details of squares of four, a quarter of the image each."""
    from numba import cuda, float32

    TX, TY = 2 * BX, 2 * BY

    @cuda.jit(fastmath=True)
    def staged(x, out):
        held = cuda.shared.array((TY, TX), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        i, j = cuda.grid(2)
        for r in range(2):
            for c in range(2):
                held[ty + r * BY, tx + c * BX] = x[cuda.blockIdx.y * TY + ty + r * BY, cuda.blockIdx.x * TX + tx + c * BX]
        cuda.syncthreads()
        a, b = held[2 * ty, 2 * tx], held[2 * ty, 2 * tx + 1]
        c, d = held[2 * ty + 1, 2 * tx], held[2 * ty + 1, 2 * tx + 1]
        out[j, i] = (a + b + c + d) * float32(0.5)
        out[j, i + W] = (a - b + c - d) * float32(0.5)
        out[j + H, i] = (a + b - c - d) * float32(0.5)
        out[j + H, i + W] = (a - b - c + d) * float32(0.5)

    @cuda.jit(fastmath=True)
    def haar(x, out):
        i, j = cuda.grid(2)
        a, b = x[2 * j, 2 * i], x[2 * j, 2 * i + 1]
        c, d = x[2 * j + 1, 2 * i], x[2 * j + 1, 2 * i + 1]
        out[j, i] = (a + b + c + d) * float32(0.5)
        out[j, i + W] = (a - b + c - d) * float32(0.5)
        out[j + H, i] = (a + b - c - d) * float32(0.5)
        out[j + H, i + W] = (a - b - c + d) * float32(0.5)

    return staged if STAGED else haar


def numba_moments(BLOCK, ROWS, COLS, **_):
    """Mean, variance and skewness of rows in double precision: BLOCK threads a row, sums joined in shared memory."""
    from numba import cuda, float64

    @cuda.jit
    def moments(x, out):
        held = cuda.shared.array((ROWS, 3, BLOCK), float64)
        t, r = cuda.threadIdx.x, cuda.threadIdx.y
        row = cuda.blockIdx.x * ROWS + r
        one, two, three = 0.0, 0.0, 0.0
        for i in range(t, COLS, BLOCK):
            v = x[row, i]
            one += v
            two += v * v
            three += v * v * v
        held[r, 0, t], held[r, 1, t], held[r, 2, t] = one, two, three
        cuda.syncthreads()
        half = BLOCK // 2
        while half > 0:
            if t < half:
                for k in range(3):
                    held[r, k, t] += held[r, k, t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            mean = held[r, 0, 0] / COLS
            variance = held[r, 1, 0] / COLS - mean * mean
            out[row, 0] = mean
            out[row, 1] = variance
            out[row, 2] = held[r, 2, 0] / COLS - 3.0 * mean * variance - mean * mean * mean

    return moments


# -------------------------------------------------------------------------------------------------------------- Warp


def warp_strained(PER, **_):
    """Stresses of a Neo-Hookean solid from gradients of its deformation, a matrix of nine numbers each."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def strained(F: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33), mu: float, lam: float):
        t = wp.tid()
        for p in range(wp.static(PER)):
            i = t * wp.static(PER) + p
            f = F[i]
            a = wp.vec3(f[0, 0], f[1, 0], f[2, 0])
            b = wp.vec3(f[0, 1], f[1, 1], f[2, 1])
            c = wp.vec3(f[0, 2], f[1, 2], f[2, 2])
            ab = wp.cross(a, b)
            bc = wp.cross(b, c)
            ca = wp.cross(c, a)
            by = lam * (wp.dot(a, bc) - 1.0 - mu / lam)
            out[i] = mu * f + by * wp.mat33(
                bc[0], ca[0], ab[0], bc[1], ca[1], ab[1], bc[2], ca[2], ab[2])  # fmt: skip

    return strained


def warp_reacted(PER, **_):
    """A step of two substances that react and spread (Gray and Scott), PER rows a thread, edges periodic."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def reacted(
        u: wp.array2d(dtype=float), v: wp.array2d(dtype=float), un: wp.array2d(dtype=float), vn: wp.array2d(dtype=float),
        feed: float, kill: float,
    ):  # fmt: skip
        rows, j = wp.tid()
        height, width = u.shape[0], u.shape[1]
        left, right = (j + width - 1) % width, (j + 1) % width
        for p in range(wp.static(PER)):
            i = rows * wp.static(PER) + p
            above, below = (i + height - 1) % height, (i + 1) % height
            a = u[i, j]
            b = v[i, j]
            du = u[above, j] + u[below, j] + u[i, left] + u[i, right] - 4.0 * a
            dv = v[above, j] + v[below, j] + v[i, left] + v[i, right] - 4.0 * b
            r = a * b * b
            un[i, j] = a + 0.16 * du - r + feed * (1.0 - a)
            vn[i, j] = b + 0.08 * dv + r - (feed + kill) * b

    return reacted


# ------------------------------------------------------------------------------------------------- cuTile, CuTe DSL


def cutile_biased(**_):
    """A product, a bias and SiLU."""
    import cuda.tile as ct

    @ct.kernel
    def biased(a, b, bias, c, rows: ct.Constant[int], cols: ct.Constant[int], depth: ct.Constant[int]):
        i, j = ct.bid(0), ct.bid(1)
        total = ct.full((rows, cols), 0.0, ct.float32)
        for k in range(ct.cdiv(a.shape[1], depth)):
            left = ct.load(a, index=(i, k), shape=(rows, depth))
            right = ct.load(b, index=(k, j), shape=(depth, cols))
            total = ct.mma(left, right, total)
        total = total + ct.load(bias, index=(0, j), shape=(1, cols))
        ct.store(c, index=(i, j), tile=(total / (1.0 + ct.exp(-total))).astype(c.dtype))

    return biased


def cutile_softback(cols, **_):
    """The gradient of a softmax by what it made: whole rows at once."""
    import cuda.tile as ct

    @ct.kernel
    def softback(p, dy, dx, rows: ct.Constant[int]):
        i = ct.bid(0)
        made = ct.load(p, index=(i, 0), shape=(rows, cols)).astype(ct.float32)
        given = ct.load(dy, index=(i, 0), shape=(rows, cols)).astype(ct.float32)
        total = ct.sum(made * given, axis=1, keepdims=True)
        ct.store(dx, index=(i, 0), tile=(made * (given - total)).astype(dx.dtype))

    return softback


def cute_normed(COLS, **_):
    """Rows over their root mean square: LANES threads a row, which is read twice, VEC numbers at a time."""
    import cutlass
    from cutlass import cute

    @cute.kernel
    def normed_kernel(
        A: cute.Tensor, B: cute.Tensor, ROWS: cutlass.Constexpr, LANES: cutlass.Constexpr, VEC: cutlass.Constexpr
    ):
        t, _, _ = cute.arch.thread_idx()
        b, _, _ = cute.arch.block_idx()
        row, lane = b * ROWS + t // LANES, t % LANES
        mine = cute.zipped_divide(A, (1, VEC))
        to = cute.zipped_divide(B, (1, VEC))
        held = cutlass.Float32(0.0)
        for k in range(COLS // (VEC * LANES)):
            v = mine[(None, (row, k * LANES + lane))].load()
            for e in cutlass.range_constexpr(VEC):
                held += v[e] * v[e]
        far = LANES // 2
        while cutlass.const_expr(far > 0):
            held += cute.arch.shuffle_sync_bfly(held, offset=far)
            far //= 2
        by = cute.rsqrt(held * (1.0 / COLS) + 1e-5)
        for k in range(COLS // (VEC * LANES)):
            at = (None, (row, k * LANES + lane))
            to[at].store(mine[at].load() * by)

    @cute.jit
    def normed(
        A: cute.Tensor, B: cute.Tensor, ROWS: cutlass.Constexpr, LANES: cutlass.Constexpr, VEC: cutlass.Constexpr
    ):
        normed_kernel(A, B, ROWS, LANES, VEC).launch(grid=[A.shape[0] // ROWS, 1, 1], block=[ROWS * LANES, 1, 1])

    return normed
