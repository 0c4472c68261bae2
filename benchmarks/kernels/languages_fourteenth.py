"""Kernels of TileLang, Numba, Warp, Gluon, cuTile and CuTe DSL of a fourteenth set; tunables are arguments of what makes them."""

# mypy: ignore-errors
# ruff: noqa: E501 - code of kernels is wide
# ---------------------------------------------------------------------------------------------------------- TileLang


def tilelang_glued(M, N, K, block_M, block_N, block_K, num_stages, threads):
    """SiLU of one product by another of the same left operand."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        G: T.Tensor((N, K), "float16"),
        U: T.Tensor((N, K), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (x, y):
            a = T.alloc_shared((block_M, block_K), "float16")
            g = T.alloc_shared((block_N, block_K), "float16")
            u = T.alloc_shared((block_N, block_K), "float16")
            gate = T.alloc_fragment((block_M, block_N), "float32")
            up = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[y * block_M, k * block_K], a)
                T.copy(G[x * block_N, k * block_K], g)
                T.copy(U[x * block_N, k * block_K], u)
                T.gemm(a, g, gate, transpose_B=True)
                T.gemm(a, u, up, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                up[i, j] = up[i, j] * gate[i, j] / (1.0 + T.exp(-gate[i, j]))
            T.copy(up, C[y * block_M, x * block_N])

    return main


def tilelang_attending(heads, seq, dim, block_M, block_N, num_stages, threads):
    """Attention of every query to every key, in bfloat16, heads innermost but one."""
    import tilelang.language as T

    shape, scale = (seq, heads, dim), dim**-0.5 * 1.44269504

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "bfloat16"),
        K: T.Tensor(shape, "bfloat16"),
        V: T.Tensor(shape, "bfloat16"),
        Out: T.Tensor(shape, "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, threads=threads) as (x, head):
            q = T.alloc_shared((block_M, dim), "bfloat16")
            k = T.alloc_shared((block_N, dim), "bfloat16")
            v = T.alloc_shared((block_N, dim), "bfloat16")
            s = T.alloc_fragment((block_M, block_N), "float32")
            p = T.alloc_fragment((block_M, block_N), "bfloat16")
            o = T.alloc_fragment((block_M, dim), "float32")
            most = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[x * block_M : (x + 1) * block_M, head, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity("float32"))
            for i in T.Pipelined(seq // block_N, num_stages=num_stages):
                T.copy(K[i * block_N : (i + 1) * block_N, head, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[i * block_N : (i + 1) * block_N, head, :], v)
                T.copy(most, before)
                T.reduce_max(s, most, dim=1, clear=False)
                for m in T.Parallel(block_M):
                    before[m] = T.exp2((before[m] - most[m]) * scale)
                for m, n in T.Parallel(block_M, block_N):
                    s[m, n] = T.exp2((s[m, n] - most[m]) * scale)
                T.reduce_sum(s, row, dim=1)
                for m in T.Parallel(block_M):
                    total[m] = total[m] * before[m] + row[m]
                for m, d in T.Parallel(block_M, dim):
                    o[m, d] *= before[m]
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for m, d in T.Parallel(block_M, dim):
                o[m, d] /= total[m]
            T.copy(o, Out[x * block_M : (x + 1) * block_M, head, :])

    return main


def tilelang_grouped(M, N, K, group, block_M, block_N, block_K, num_stages, threads):
    """A product whose right operand has weights of eight bits with a scale each `group` of K."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "int8"),
        scales: T.Tensor((N, K // group), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (x, y):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_N, block_K), "int8")
            few = T.alloc_fragment((block_N, block_K), "int8")
            many = T.alloc_fragment((block_N, block_K), "float16")
            wide = T.alloc_shared((block_N, block_K), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[y * block_M, k * block_K], a)
                T.copy(B[x * block_N, k * block_K], b)
                T.copy(b, few)
                for i, j in T.Parallel(block_N, block_K):
                    many[i, j] = T.cast(few[i, j], "float16") * scales[x * block_N + i, k * block_K // group]
                T.copy(many, wide)
                T.gemm(a, wide, c, transpose_B=True)
            T.copy(c, C[y * block_M, x * block_N])

    return main


def tilelang_parted(M, N, K, parts, block_M, block_N, block_K, num_stages, threads):
    """A product of few rows whose K is shared out among `parts` blocks, which add up in memory."""
    import tilelang.language as T

    own = K // parts

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), parts, threads=threads) as (x, y, z):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(own // block_K, num_stages=num_stages):
                T.copy(A[y * block_M, z * own + k * block_K], a)
                T.copy(B[z * own + k * block_K, x * block_N], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(C[y * block_M + i, x * block_N + j], c[i, j])

    return main


# ------------------------------------------------------------------------------------------------------------- Numba


def numba_rows(LANES, **_):
    """A sparse matrix by rows times a vector, LANES lanes a row."""
    from numba import cuda, float32

    @cuda.jit(fastmath=True)
    def rows(starts, cols, held, x, out):
        t = cuda.grid(1)
        row = t // LANES
        lane = t % LANES
        total = float32(0)
        if row < out.shape[0]:
            for k in range(starts[row] + lane, starts[row + 1], LANES):
                total += held[k] * x[cols[k]]
        far = LANES // 2
        while far > 0:
            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, far)
            far //= 2
        if lane == 0 and row < out.shape[0]:
            out[row] = total

    return rows


def numba_fir(BLOCK, PER, STAGED, TAPS, **_):
    """A filter of TAPS taps over many signals, PER results a thread."""
    from numba import cuda, float32

    WIDE = BLOCK * PER + TAPS - 1

    @cuda.jit(fastmath=True)
    def staged(x, taps, out):
        held = cuda.shared.array(WIDE, float32)
        t, row, first = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * BLOCK * PER
        for i in range(t, WIDE, BLOCK):
            held[i] = x[row, first + i]
        cuda.syncthreads()
        for p in range(PER):
            total = float32(0)
            for k in range(TAPS):
                total += taps[k] * held[t + p * BLOCK + k]
            out[row, first + t + p * BLOCK] = total

    @cuda.jit(fastmath=True)
    def fir(x, taps, out):
        t, row, first = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.x * BLOCK * PER
        for p in range(PER):
            total = float32(0)
            for k in range(TAPS):
                total += taps[k] * x[row, first + t + p * BLOCK + k]
            out[row, first + t + p * BLOCK] = total

    return staged if STAGED else fir


# -------------------------------------------------------------------------------------------------------------- Warp


def warp_waved(PER, **_):
    """A step of waves in a volume, second order in time, fourth in space; PER planes a thread."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def waved(
        u: wp.array3d(dtype=float), before: wp.array3d(dtype=float), speed: wp.array3d(dtype=float), out: wp.array3d(dtype=float)
    ):
        a, j0, i0 = wp.tid()
        j, i = j0 + 2, i0 + 2
        for p in range(wp.static(PER)):
            k = a * wp.static(PER) + p + 2
            c = u[k, j, i]
            near = u[k - 1, j, i] + u[k + 1, j, i] + u[k, j - 1, i] + u[k, j + 1, i] + u[k, j, i - 1] + u[k, j, i + 1]
            far = u[k - 2, j, i] + u[k + 2, j, i] + u[k, j - 2, i] + u[k, j + 2, i] + u[k, j, i - 2] + u[k, j, i + 2]
            out[k, j, i] = 2.0 * c - before[k, j, i] + speed[k, j, i] * (1.3333333 * near - 0.0833333 * far - 7.5 * c)

    return waved


def warp_rowed(COLS, TILE, **_):
    """Sums and squares of long rows by tiles of TILE numbers."""
    import warp as wp

    PARTS = COLS // TILE

    @wp.kernel(enable_backward=False, module="unique")
    def rowed(x: wp.array2d(dtype=float), sums: wp.array(dtype=float), squares: wp.array(dtype=float)):
        row = wp.tid()
        one = wp.tile_zeros(shape=TILE, dtype=float)
        two = wp.tile_zeros(shape=TILE, dtype=float)
        for k in range(PARTS):
            v = wp.tile_load(x[row], shape=TILE, offset=k * TILE)
            one += v
            two += wp.tile_map(wp.mul, v, v)
        wp.tile_store(sums, wp.tile_sum(one), offset=row)
        wp.tile_store(squares, wp.tile_sum(two), offset=row)

    return rowed


# ------------------------------------------------------------------------------------------------------------- Gluon


def gluon_softened(**_):
    """Softmax of rows of COLS halves after a bias by column, ROWS rows a program."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def softened(x, bias, out, COLS: gl.constexpr, ROWS: gl.constexpr, VEC: gl.constexpr, ACROSS: gl.constexpr,
                 num_warps: gl.constexpr):  # fmt: skip
        lanes: gl.constexpr = gl.BlockedLayout([1, VEC], [1, 32], [num_warps // ACROSS, ACROSS], [1, 0])
        r = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, lanes))
        c = gl.arange(0, COLS, layout=gl.SliceLayout(0, lanes))
        at = r[:, None] * COLS + c[None, :]
        held = gl.load(x + at).to(gl.float32) + gl.load(bias + c)[None, :]
        held = gl.exp(held - gl.max(held, axis=1)[:, None])
        gl.store(out + at, (held / gl.sum(held, axis=1)[:, None]).to(gl.float16))

    return softened


def gluon_turned(**_):
    """A transpose of tiles by way of shared memory, read by rows and written by columns."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def turned(x, out, HEIGHT: gl.constexpr, WIDTH: gl.constexpr, ROWS: gl.constexpr, COLS: gl.constexpr,
               VEC: gl.constexpr, num_warps: gl.constexpr):  # fmt: skip
        wide: gl.constexpr = min(32, COLS // VEC)
        deep: gl.constexpr = min(32, ROWS // VEC)
        by_rows: gl.constexpr = gl.BlockedLayout([1, VEC], [32 // wide, wide], [num_warps, 1], [1, 0])
        by_cols: gl.constexpr = gl.BlockedLayout([VEC, 1], [deep, 32 // deep], [1, num_warps], [0, 1])
        y, z = gl.program_id(1), gl.program_id(0)
        r = y * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, by_rows))
        c = z * COLS + gl.arange(0, COLS, layout=gl.SliceLayout(0, by_rows))
        held = gl.convert_layout(gl.load(x + r[:, None] * WIDTH + c[None, :]), by_cols)
        r = y * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, by_cols))
        c = z * COLS + gl.arange(0, COLS, layout=gl.SliceLayout(0, by_cols))
        gl.store(out + c[None, :] * HEIGHT + r[:, None], held)

    return turned


# ------------------------------------------------------------------------------------------------- cuTile, CuTe DSL


def cutile_gated(**_):
    """SiLU of one product by another of the same left operand."""
    import cuda.tile as ct

    @ct.kernel
    def gated(a, g, u, c, rows: ct.Constant[int], cols: ct.Constant[int], depth: ct.Constant[int]):
        i, j = ct.bid(0), ct.bid(1)
        gate = ct.full((rows, cols), 0.0, ct.float32)
        up = ct.full((rows, cols), 0.0, ct.float32)
        for k in range(ct.cdiv(a.shape[1], depth)):
            left = ct.load(a, index=(i, k), shape=(rows, depth))
            gate = ct.mma(left, ct.load(g, index=(k, j), shape=(depth, cols)), gate)
            up = ct.mma(left, ct.load(u, index=(k, j), shape=(depth, cols)), up)
        ct.store(c, index=(i, j), tile=(up * gate / (1.0 + ct.exp(-gate))).astype(c.dtype))

    return gated


def cutile_lost(**_):
    """Logarithms of sums of exponentials of long rows, `cols` at a time."""
    import cuda.tile as ct

    @ct.kernel
    def lost(x, out, rows: ct.Constant[int], cols: ct.Constant[int]):
        i = ct.bid(0)
        most = ct.full((rows, 1), -1e30, ct.float32)
        total = ct.full((rows, 1), 0.0, ct.float32)
        for k in range(ct.cdiv(x.shape[1], cols)):
            held = ct.load(x, index=(i, k), shape=(rows, cols)).astype(ct.float32)
            now = ct.maximum(most, ct.max(held, axis=1, keepdims=True))
            total = total * ct.exp(most - now) + ct.sum(ct.exp(held - now), axis=1, keepdims=True)
            most = now
        ct.store(out, index=(i, 0), tile=most + ct.log(total))

    return lost


def cute_softmaxed(COLS, **_):
    """Softmax of rows that LANES threads share, in three walks, VEC numbers at a time."""
    import cutlass
    from cutlass import cute

    @cute.kernel
    def softmaxed_kernel(
        A: cute.Tensor, B: cute.Tensor, ROWS: cutlass.Constexpr, LANES: cutlass.Constexpr, VEC: cutlass.Constexpr
    ):
        t, _, _ = cute.arch.thread_idx()
        b, _, _ = cute.arch.block_idx()
        row, lane = b * ROWS + t // LANES, t % LANES
        mine = cute.zipped_divide(A, (1, VEC))
        to = cute.zipped_divide(B, (1, VEC))
        most = cutlass.Float32(-1e30)
        for k in range(COLS // (VEC * LANES)):
            v = mine[(None, (row, k * LANES + lane))].load()
            for e in cutlass.range_constexpr(VEC):
                most = cute.arch.fmax(most, v[e])
        far = LANES // 2
        while cutlass.const_expr(far > 0):
            most = cute.arch.fmax(most, cute.arch.shuffle_sync_bfly(most, offset=far))
            far //= 2
        held = cutlass.Float32(0.0)
        for k in range(COLS // (VEC * LANES)):
            v = cute.exp(mine[(None, (row, k * LANES + lane))].load() - most)
            for e in cutlass.range_constexpr(VEC):
                held += v[e]
        far = LANES // 2
        while cutlass.const_expr(far > 0):
            held += cute.arch.shuffle_sync_bfly(held, offset=far)
            far //= 2
        by = 1.0 / held
        for k in range(COLS // (VEC * LANES)):
            at = (None, (row, k * LANES + lane))
            to[at].store(cute.exp(mine[at].load() - most) * by)

    @cute.jit
    def softmaxed(
        A: cute.Tensor, B: cute.Tensor, ROWS: cutlass.Constexpr, LANES: cutlass.Constexpr, VEC: cutlass.Constexpr
    ):
        softmaxed_kernel(A, B, ROWS, LANES, VEC).launch(grid=[A.shape[0] // ROWS, 1, 1], block=[ROWS * LANES, 1, 1])

    return softmaxed


def cute_mixed(COLS, **_):
    """GELU of what was made and a bias, added to what was given: ROWS rows a block, VEC numbers at a time."""
    import cutlass
    from cutlass import cute

    @cute.kernel
    def mixed_kernel(
        A: cute.Tensor, R: cute.Tensor, bias: cute.Tensor, B: cute.Tensor, THREADS: cutlass.Constexpr, ROWS: cutlass.Constexpr,
        VEC: cutlass.Constexpr,
    ):  # fmt: skip
        t, _, _ = cute.arch.thread_idx()
        x, y, _ = cute.arch.block_idx()
        c = x * THREADS + t
        made = cute.zipped_divide(A, (1, VEC))
        given = cute.zipped_divide(R, (1, VEC))
        to = cute.zipped_divide(B, (1, VEC))
        add = cute.zipped_divide(bias, (1, VEC))[(None, (0, c))].load()
        for r in cutlass.range_constexpr(ROWS):
            at = (None, (y * ROWS + r, c))
            v = made[at].load().to(cutlass.Float32) + add
            g = v / (1.0 + cute.exp(-1.702 * v))
            to[at].store((g + given[at].load().to(cutlass.Float32)).to(cutlass.Float16))

    @cute.jit
    def mixed(
        A: cute.Tensor, R: cute.Tensor, bias: cute.Tensor, B: cute.Tensor, THREADS: cutlass.Constexpr, ROWS: cutlass.Constexpr,
        VEC: cutlass.Constexpr,
    ):  # fmt: skip
        mixed_kernel(A, R, bias, B, THREADS, ROWS, VEC).launch(
            grid=[COLS // (THREADS * VEC), A.shape[0] // ROWS, 1], block=[THREADS, 1, 1]
        )

    return mixed
