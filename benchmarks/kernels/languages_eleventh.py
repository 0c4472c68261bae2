"""Kernels of TileLang, Numba, Warp, cuTile and CuTe DSL of an eleventh set; tunables are arguments of what makes them."""

# mypy: ignore-errors
# ruff: noqa: UP018, RUF046, SIM108, E501 - Warp makes variables of calls; code of kernels is wide
# ---------------------------------------------------------------------------------------------------------- TileLang


def tilelang_windowed(heads, seq, dim, window, block_M, block_N, num_stages, threads):
    """Attention to the last `window` keys alone."""
    import tilelang.language as T

    shape, scale = (heads, seq, dim), dim**-0.5 * 1.44269504

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Out: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(seq // block_M, heads, threads=threads) as (x, head):
            q = T.alloc_shared((block_M, dim), "float16")
            k = T.alloc_shared((block_N, dim), "float16")
            v = T.alloc_shared((block_N, dim), "float16")
            s = T.alloc_fragment((block_M, block_N), "float32")
            p = T.alloc_fragment((block_M, block_N), "float16")
            o = T.alloc_fragment((block_M, dim), "float32")
            most = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            factor = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[head, x * block_M : (x + 1) * block_M, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(most, -1e30)
            first = T.max(0, (x * block_M - window) // block_N)
            for t in T.Pipelined(T.ceildiv((x + 1) * block_M, block_N) - first, num_stages=num_stages):
                at = (first + t) * block_N
                T.copy(K[head, at : at + block_N, :], k)
                for m, n in T.Parallel(block_M, block_N):
                    far = x * block_M + m - at - n
                    s[m, n] = T.if_then_else(far >= 0 and far < window, 0, -1e30)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[head, at : at + block_N, :], v)
                T.copy(most, before)
                T.reduce_max(s, most, dim=1, clear=False)
                for m in T.Parallel(block_M):
                    factor[m] = T.exp2((before[m] - most[m]) * scale)
                for m, n in T.Parallel(block_M, block_N):
                    s[m, n] = T.exp2((s[m, n] - most[m]) * scale)
                T.reduce_sum(s, row, dim=1)
                for m in T.Parallel(block_M):
                    total[m] = total[m] * factor[m] + row[m]
                for m, d in T.Parallel(block_M, dim):
                    o[m, d] *= factor[m]
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for m, d in T.Parallel(block_M, dim):
                o[m, d] /= total[m]
            T.copy(o, Out[head, x * block_M : (x + 1) * block_M, :])

    return main


def tilelang_outer(M, N, K, block_M, block_N, block_K, num_stages, threads):
    """C = A' B: the gradient of weights, of which both operands lie by tokens."""
    import tilelang.language as T

    @T.prim_func
    def main(A: T.Tensor((K, M), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (x, y):
            a = T.alloc_shared((block_K, block_M), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[k * block_K, y * block_M], a)
                T.copy(B[k * block_K, x * block_N], b)
                T.gemm(a, b, c, transpose_A=True)
            T.copy(c, C[y * block_M, x * block_N])

    return main


# ------------------------------------------------------------------------------------------------------------- Numba


def numba_masked(BX, BY, PER, STAGED, R, **_):
    """A filter of (2 R + 1)^2 weights, PER rows a thread, a tile in shared memory or none."""
    from numba import cuda, float32

    WIDE, DEEP = BX + 2 * R, BY * PER + 2 * R

    @cuda.jit(fastmath=True)
    def staged(x, w, out):
        held = cuda.shared.array((DEEP, WIDE), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        i, j0 = cuda.blockIdx.x * BX + tx, cuda.blockIdx.y * BY * PER
        for r in range(ty, DEEP, BY):
            for c in range(tx, WIDE, BX):
                held[r, c] = x[j0 + r, cuda.blockIdx.x * BX + c]
        cuda.syncthreads()
        for p in range(PER):
            total = float32(0)
            for u in range(2 * R + 1):
                for v in range(2 * R + 1):
                    total += w[u, v] * held[ty + p * BY + u, tx + v]
            out[j0 + p * BY + ty, i] = total

    @cuda.jit(fastmath=True)
    def masked(x, w, out):
        i, j0 = cuda.blockIdx.x * BX + cuda.threadIdx.x, cuda.blockIdx.y * BY * PER + cuda.threadIdx.y
        for p in range(PER):
            total = float32(0)
            for u in range(2 * R + 1):
                for v in range(2 * R + 1):
                    total += w[u, v] * x[j0 + p * BY + u, i + v]
            out[j0 + p * BY, i] = total

    return staged if STAGED else masked


def numba_prefix(BLOCK, ITEMS, COLS, **_):
    """Running sums of rows: a block a row, ITEMS numbers a thread in turn, sums of threads joined in shared memory."""
    from numba import cuda, float32

    ROOM = 2 * BLOCK

    @cuda.jit
    def prefix(x, out):
        held = cuda.shared.array(ROOM, float32)
        own = cuda.local.array(ITEMS, float32)
        t, row = cuda.threadIdx.x, cuda.blockIdx.x
        before = float32(0)
        for first in range(0, COLS, BLOCK * ITEMS):
            total = float32(0)
            for i in range(ITEMS):
                total += x[row, first + t * ITEMS + i]
                own[i] = total
            at = 0
            held[t] = total
            cuda.syncthreads()
            far = 1
            while far < BLOCK:
                held[BLOCK - at + t] = held[at + t] + (held[at + t - far] if t >= far else float32(0))
                at = BLOCK - at
                far *= 2
                cuda.syncthreads()
            base = before + held[at + t] - total
            before += held[at + BLOCK - 1]
            for i in range(ITEMS):
                out[row, first + t * ITEMS + i] = base + own[i]
            cuda.syncthreads()

    return prefix


# -------------------------------------------------------------------------------------------------------------- Warp


def warp_flowed(ROWWISE, PLANES, **_):
    """A step of a lattice of nine speeds in the plane, periodic: pulled, relaxed, stored."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def flowed(x: wp.array(dtype=wp.float32, ndim=3), out: wp.array(dtype=wp.float32, ndim=3), omega: float):
        a, b = wp.tid()
        i, j = a, b
        if wp.static(not ROWWISE):
            i, j = b, a
        height, width = int(0), int(0)
        if wp.static(PLANES):
            height, width = x.shape[1], x.shape[2]
        else:
            height, width = x.shape[0], x.shape[1]
        rho, ux, uy = float(0.0), float(0.0), float(0.0)
        for q in range(9):
            cx, cy = q % 3 - 1, q / 3 - 1
            r, c = (i - cy + height) % height, (j - cx + width) % width
            f = float(0.0)
            if wp.static(PLANES):
                f = x[q, r, c]
            else:
                f = x[r, c, q]
            rho += f
            ux += float(cx) * f
            uy += float(cy) * f
        ux /= rho
        uy /= rho
        rest = 1.0 - 1.5 * (ux * ux + uy * uy)
        for q in range(9):
            cx, cy = q % 3 - 1, q / 3 - 1
            r, c = (i - cy + height) % height, (j - cx + width) % width
            cu = float(cx) * ux + float(cy) * uy
            w = 4.0 / 9.0 / wp.pow(4.0, float(cx * cx + cy * cy))
            even = w * rho * (rest + 3.0 * cu + 4.5 * cu * cu)
            if wp.static(PLANES):
                out[q, i, j] = x[q, r, c] + omega * (even - x[q, r, c])
            else:
                out[i, j, q] = x[r, c, q] + omega * (even - x[r, c, q])

    return flowed


def warp_deposited(PER, **_):
    """What particles carry, added to the eight corners of their cells: PER particles a thread."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def deposited(
        pos: wp.array(dtype=wp.vec3), cell: wp.array(dtype=wp.int32), grid: wp.array(dtype=wp.float32, ndim=3),
    ):  # fmt: skip
        t = wp.tid()
        cells = grid.shape[0] - 1
        for p in range(wp.static(PER)):
            n = t * wp.static(PER) + p
            at = pos[n]
            c = cell[n]
            x, y, z = c % cells, (c / cells) % cells, c / cells / cells
            for u in range(2):
                for v in range(2):
                    for w in range(2):
                        by = wp.abs(float(1 - u) - at[2]) * wp.abs(float(1 - v) - at[1]) * wp.abs(float(1 - w) - at[0])
                        wp.atomic_add(grid, z + u, y + v, x + w, by)

    return deposited


# ------------------------------------------------------------------------------------------------- cuTile, CuTe DSL


def cutile_summed(**_):
    """The logarithm of a row's sum of exponentials, in one walk."""
    import cuda.tile as ct

    @ct.kernel
    def summed(x, out, rows: ct.Constant[int], cols: ct.Constant[int]):
        i = ct.bid(0)
        most = ct.full((rows, 1), -1e30, ct.float32)
        total = ct.full((rows, 1), 0.0, ct.float32)
        for k in range(ct.cdiv(x.shape[1], cols)):
            held = ct.load(x, index=(i, k), shape=(rows, cols)).astype(ct.float32)
            top = ct.max(held, axis=1, keepdims=True)
            new = ct.where(top > most, top, most)
            total = total * ct.exp(most - new) + ct.sum(ct.exp(held - new), axis=1, keepdims=True)
            most = new
        ct.store(out, index=(i, 0), tile=most + ct.log(total))

    return summed


def cute_smoothed(**_):
    """A mean of nine cells, from a tile with its border in shared memory, PER rows a thread."""
    import cutlass
    from cutlass import cute, utils

    @cute.kernel
    def smoothed_kernel(
        A: cute.Tensor, B: cute.Tensor, BX: cutlass.Constexpr, BY: cutlass.Constexpr, PER: cutlass.Constexpr,
        STAGED: cutlass.Constexpr,
    ):  # fmt: skip
        t, _, _ = cute.arch.thread_idx()
        x, y, _ = cute.arch.block_idx()
        col, row = t % BX, t // BX
        i, j = x * BX + col, y * BY * PER + row
        if cutlass.const_expr(STAGED):
            memory = utils.SmemAllocator()
            deep = BY * PER + 2
            held = memory.allocate_tensor(cutlass.Float32, cute.make_layout((deep, BX + 2), stride=(BX + 2, 1)), byte_alignment=16)
            for r in range(row, deep, BY):
                held[r, col] = A[y * BY * PER + r, i]
                if col < 2:
                    held[r, col + BX] = A[y * BY * PER + r, i + BX]
            cute.arch.sync_threads()
            for p in cutlass.range_constexpr(PER):
                total = cutlass.Float32(0.0)
                for u in cutlass.range_constexpr(3):
                    for v in cutlass.range_constexpr(3):
                        total += held[row + p * BY + u, col + v]
                B[j + p * BY, i] = total * (1.0 / 9.0)
        else:
            for p in cutlass.range_constexpr(PER):
                total = cutlass.Float32(0.0)
                for u in cutlass.range_constexpr(3):
                    for v in cutlass.range_constexpr(3):
                        total += A[j + p * BY + u, i + v]
                B[j + p * BY, i] = total * (1.0 / 9.0)

    @cute.jit
    def smoothed(
        A: cute.Tensor, B: cute.Tensor, BX: cutlass.Constexpr, BY: cutlass.Constexpr, PER: cutlass.Constexpr,
        STAGED: cutlass.Constexpr,
    ):  # fmt: skip
        smoothed_kernel(A, B, BX, BY, PER, STAGED).launch(
            grid=[B.shape[1] // BX, B.shape[0] // (BY * PER), 1], block=[BX * BY, 1, 1]
        )

    return smoothed
