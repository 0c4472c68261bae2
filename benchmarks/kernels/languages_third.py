"""Kernels of TileLang, CuTe DSL, cuTile, Gluon, Numba and Warp whose tunables are arguments of what makes them."""

# mypy: ignore-errors
# ruff: noqa: UP018, E501 - Warp makes variables of calls; code of kernels is wide
# ---------------------------------------------------------------------------------------------------------- TileLang


def tilelang_causal(heads, seq, dim, groups, block_M, block_N, num_stages, threads):
    """Causal attention with fewer heads of keys than of queries."""
    import tilelang.language as T

    shape, held, scale = (heads, seq, dim), (heads // groups, seq, dim), dim**-0.5 * 1.44269504

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(held, "float16"),
        V: T.Tensor(held, "float16"),
        Out: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, threads=threads) as (x, head):
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
            T.fill(most, -T.infinity("float32"))
            for i in T.Pipelined(T.ceildiv((x + 1) * block_M, block_N), num_stages=num_stages):
                T.copy(K[head // groups, i * block_N : (i + 1) * block_N, :], k)
                for m, n in T.Parallel(block_M, block_N):
                    s[m, n] = T.if_then_else(x * block_M + m >= i * block_N + n, 0, -T.infinity("float32"))
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[head // groups, i * block_N : (i + 1) * block_N, :], v)
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


def tilelang_low(M, N, K, block_M, block_N, block_K, num_stages, threads):
    """A matmul whose right operand has weights of eight bits with a scale a row."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "int8"),
        scales: T.Tensor((N,), "float32"),
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
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[y * block_M, k * block_K], a)
                T.copy(B[x * block_N, k * block_K], b)
                T.copy(b, few)
                for i, j in T.Parallel(block_N, block_K):
                    many[i, j] = T.cast(few[i, j], "float16")
                T.copy(many, wide)
                T.gemm(a, wide, c, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] *= scales[x * block_N + j]
            T.copy(c, C[y * block_M, x * block_N])

    return main


def tilelang_depthwise(planes, height, width, block_H, block_W, threads):
    """Depthwise 3 x 3 without edges."""
    import tilelang.language as T

    H, W = height - 2, width - 2

    @T.prim_func
    def main(
        x: T.Tensor((planes, height, width), "float32"),
        w: T.Tensor((planes, 3, 3), "float32"),
        out: T.Tensor((planes, H, W), "float32"),
    ):
        with T.Kernel(T.ceildiv(W, block_W), T.ceildiv(H, block_H), planes, threads=threads) as (bx, by, c):
            total = T.alloc_fragment((block_H, block_W), "float32")
            T.clear(total)
            for u in T.unroll(3):
                for v in T.unroll(3):
                    for i, j in T.Parallel(block_H, block_W):
                        total[i, j] += x[c, by * block_H + i + u, bx * block_W + j + v] * w[c, u, v]
            T.copy(total, out[c, by * block_H, bx * block_W])

    return main


def tilelang_rms(rows, cols, block, threads):
    """Rows over their root mean square."""
    import tilelang.language as T

    @T.prim_func
    def main(x: T.Tensor((rows, cols), "float16"), out: T.Tensor((rows, cols), "float16")):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as r:
            held = T.alloc_shared((block, cols), "float16")
            local = T.alloc_fragment((block, cols), "float32")
            square = T.alloc_fragment((block, cols), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(x[r * block, 0], held)
            T.copy(held, local)
            for i, j in T.Parallel(block, cols):
                square[i, j] = local[i, j] * local[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block):
                total[i] = T.rsqrt(total[i] / cols + 1e-5)
            for i, j in T.Parallel(block, cols):
                local[i, j] *= total[i]
            T.copy(local, out[r * block, 0])

    return main


# ---------------------------------------------------------------------------------------------------------- CuTe DSL


def cute_fused(**_):
    """out = relu(a + b) of halves, VAL a thread in a tile of TM x TN."""
    import cutlass
    from cutlass import cute

    @cute.kernel
    def fused_kernel(gA: cute.Tensor, gB: cute.Tensor, gC: cute.Tensor, tv: cute.Layout, tiler: cute.Shape):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        at = ((None, None), block)
        a, b, c = (cute.composition(t[at], tv)[thread, None] for t in (gA, gB, gC))
        c.store(cute.where((s := a.load() + b.load()) > 0, s, cute.full_like(s, 0)))

    @cute.jit
    def fused(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, TR: cutlass.Constexpr, TC: cutlass.Constexpr,
              VR: cutlass.Constexpr, VC: cutlass.Constexpr):  # fmt: skip
        threads = cute.make_ordered_layout((TR, TC), order=(1, 0))
        held = cute.make_ordered_layout((VR, VC), order=(1, 0))
        tiler, tv = cute.make_layout_tv(threads, held)
        gA, gB, gC = (cute.zipped_divide(t, tiler) for t in (a, b, c))
        fused_kernel(gA, gB, gC, tv, tiler).launch(
            grid=[cute.size(gC, mode=[1]), 1, 1], block=[cute.size(tv, mode=[0]), 1, 1]
        )

    return fused


def cute_product(**_):
    """C = A B^T in single precision: each thread TM x TN, tiles of BM x BN x BK in shared memory."""
    import cutlass
    from cutlass import cute, utils

    @cute.kernel
    def product_kernel(
        A: cute.Tensor, B: cute.Tensor, C: cute.Tensor,
        BM: cutlass.Constexpr, BN: cutlass.Constexpr, BK: cutlass.Constexpr, TM: cutlass.Constexpr, TN: cutlass.Constexpr,
    ):  # fmt: skip
        t, _, _ = cute.arch.thread_idx()
        x, y, _ = cute.arch.block_idx()
        memory = utils.SmemAllocator()
        a = memory.allocate_tensor(cutlass.Float32, cute.make_layout((BM, BK), stride=(1, BM + 1)), byte_alignment=16)
        b = memory.allocate_tensor(cutlass.Float32, cute.make_layout((BN, BK), stride=(1, BN + 1)), byte_alignment=16)
        threads = BM // TM * (BN // TN)
        total = cute.make_rmem_tensor(cute.make_layout((TM, TN)), cutlass.Float32)
        total.fill(0.0)
        row, col = t // (BN // TN), t % (BN // TN)
        for k in range(A.shape[1] // BK):
            for i in cutlass.range_constexpr(BM * BK // threads):
                at = i * threads + t
                a[at // BK, at % BK] = A[y * BM + at // BK, k * BK + at % BK]
            for i in cutlass.range_constexpr(BN * BK // threads):
                at = i * threads + t
                b[at // BK, at % BK] = B[x * BN + at // BK, k * BK + at % BK]
            cute.arch.sync_threads()
            for kk in cutlass.range_constexpr(BK):
                for m in cutlass.range_constexpr(TM):
                    for n in cutlass.range_constexpr(TN):
                        total[m, n] += a[row + m * (BM // TM), kk] * b[col + n * (BN // TN), kk]
            cute.arch.sync_threads()
        for m in cutlass.range_constexpr(TM):
            for n in cutlass.range_constexpr(TN):
                C[y * BM + row + m * (BM // TM), x * BN + col + n * (BN // TN)] = total[m, n]

    @cute.jit
    def product(
        A: cute.Tensor, B: cute.Tensor, C: cute.Tensor,
        BM: cutlass.Constexpr, BN: cutlass.Constexpr, BK: cutlass.Constexpr, TM: cutlass.Constexpr, TN: cutlass.Constexpr,
    ):  # fmt: skip
        product_kernel(A, B, C, BM, BN, BK, TM, TN).launch(
            grid=[B.shape[0] // BN, A.shape[0] // BM, 1], block=[BM // TM * (BN // TN), 1, 1]
        )

    return product


# ------------------------------------------------------------------------------------------------------------ cuTile


def cutile_softmaxed(**_):
    import cuda.tile as ct

    @ct.kernel
    def softmaxed(x, out, rows: ct.Constant[int], cols: ct.Constant[int]):
        i = ct.bid(0)
        held = ct.load(x, index=(i, 0), shape=(rows, cols)).astype(ct.float32)
        e = ct.exp(held - ct.max(held, axis=1, keepdims=True))
        ct.store(out, index=(i, 0), tile=(e / ct.sum(e, axis=1, keepdims=True)).astype(out.dtype))

    return softmaxed


def cutile_matmul(**_):
    import cuda.tile as ct

    @ct.kernel
    def matmul(a, b, c, rows: ct.Constant[int], cols: ct.Constant[int], depth: ct.Constant[int]):
        i, j = ct.bid(0), ct.bid(1)
        total = ct.full((rows, cols), 0.0, ct.float32)
        for k in range(ct.cdiv(a.shape[1], depth)):
            left = ct.load(a, index=(i, k), shape=(rows, depth))
            right = ct.load(b, index=(k, j), shape=(depth, cols))
            total = ct.mma(left, right, total)
        ct.store(c, index=(i, j), tile=total.astype(c.dtype))

    return matmul


def cutile_turned(**_):
    import cuda.tile as ct

    @ct.kernel
    def turned(x, out, rows: ct.Constant[int], cols: ct.Constant[int]):
        i, j = ct.bid(0), ct.bid(1)
        ct.store(out, index=(j, i), tile=ct.transpose(ct.load(x, index=(i, j), shape=(rows, cols))))

    return turned


# ------------------------------------------------------------------------------------------------------------- Gluon


def gluon_wgmma(**_):
    """A matmul by TMA and warpgroup products, STAGES buffers."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.hopper import (
        fence_async_shared,
        mbarrier,
        tma,
        warpgroup_mma,
        warpgroup_mma_wait,
    )  # fmt: skip

    @gluon.jit
    def wgmma(a, b, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr,
              num_warps: gl.constexpr):  # fmt: skip
        left = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
        right = gl.allocate_shared_memory(b.dtype, [STAGES, BK, BN], b.layout)
        bars = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
        for s in gl.static_range(STAGES):
            mbarrier.init(bars.index(s), count=1)
        fence_async_shared()
        m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
        shape: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BN, 16])
        total = gl.zeros([BM, BN], gl.float32, layout=shape)
        for s in gl.static_range(STAGES - 1):
            mbarrier.expect(bars.index(s), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_copy_global_to_shared(a, [m, s * BK], bars.index(s), left.index(s))
            tma.async_copy_global_to_shared(b, [s * BK, n], bars.index(s), right.index(s))
        for k in range(0, K // BK):
            ahead = k + STAGES - 1
            if ahead < K // BK:
                to = ahead % STAGES
                mbarrier.expect(bars.index(to), a.block_type.nbytes + b.block_type.nbytes)
                tma.async_copy_global_to_shared(a, [m, ahead * BK], bars.index(to), left.index(to))
                tma.async_copy_global_to_shared(b, [ahead * BK, n], bars.index(to), right.index(to))
            mbarrier.wait(bars.index(k % STAGES), (k // STAGES) & 1)
            total = warpgroup_mma(left.index(k % STAGES), right.index(k % STAGES), total, is_async=True)
            total = warpgroup_mma_wait(num_outstanding=0, deps=[total])
        for s in gl.static_range(STAGES):
            mbarrier.invalidate(bars.index(s))
        back = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
        back.store(total.to(c.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(c, [m, n], back)
        tma.store_wait(pendings=0)

    return wgmma


def gluon_gelu(**_):
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def gelu(x, out, n, BLOCK: gl.constexpr, VEC: gl.constexpr, num_warps: gl.constexpr):
        lanes: gl.constexpr = gl.BlockedLayout([VEC], [32], [num_warps], [0])
        for start in range(gl.program_id(0) * BLOCK, n, gl.num_programs(0) * BLOCK):
            at = start + gl.arange(0, BLOCK, layout=lanes)
            held = gl.load(x + at, mask=at < n)
            gl.store(out + at, held / (1 + gl.exp(-1.702 * held)), mask=at < n)

    return gelu


def gluon_standard(**_):
    """Rows of COLS halves less their mean over their deviation, ROWS rows a program, kept in registers."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def standard(x, w, out, COLS: gl.constexpr, ROWS: gl.constexpr, VEC: gl.constexpr, ACROSS: gl.constexpr,
                 num_warps: gl.constexpr):  # fmt: skip
        lanes: gl.constexpr = gl.BlockedLayout([1, VEC], [1, 32], [num_warps // ACROSS, ACROSS], [1, 0])
        r = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, lanes))
        c = gl.arange(0, COLS, layout=gl.SliceLayout(0, lanes))
        at = r[:, None] * COLS + c[None, :]
        held = gl.load(x + at).to(gl.float32)
        mean = gl.sum(held, axis=1) / COLS
        held = held - mean[:, None]
        scale = gl.rsqrt(gl.sum(held * held, axis=1) / COLS + 1e-5)
        weight = gl.load(w + c).to(gl.float32)
        gl.store(out + at, (held * scale[:, None] * weight[None, :]).to(gl.float16))

    return standard


def gluon_summed(**_):
    """Sums of columns: a program has WIDE columns of all rows, DEEP rows at a time."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def summed(x, out, rows, COLS: gl.constexpr, DEEP: gl.constexpr, WIDE: gl.constexpr, VEC: gl.constexpr,
               num_warps: gl.constexpr):  # fmt: skip
        beside: gl.constexpr = min(32, WIDE // VEC)
        lanes: gl.constexpr = gl.BlockedLayout([1, VEC], [32 // beside, beside], [num_warps, 1], [1, 0])
        c = gl.program_id(0) * WIDE + gl.arange(0, WIDE, layout=gl.SliceLayout(0, lanes))
        total = gl.zeros([DEEP, WIDE], gl.float32, layout=lanes)
        for start in range(0, rows, DEEP):
            r = start + gl.arange(0, DEEP, layout=gl.SliceLayout(1, lanes))
            total += gl.load(x + r[:, None] * COLS + c[None, :], mask=(r < rows)[:, None], other=0.0)
        gl.store(out + c, gl.sum(total, axis=0))

    return summed


def gluon_mma(**_):
    """A matmul of halves by mma.sync, tiles read from global memory a step ahead and laid out through shared memory."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.ampere import mma_v2

    @gluon.jit
    def mma(a, b, c, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, num_warps: gl.constexpr):
        product: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [num_warps // 2, 2], [16, 8])
        left: gl.constexpr = gl.BlockedLayout([1, 8], [256 // BK, BK // 8], [num_warps, 1], [1, 0])
        right: gl.constexpr = gl.BlockedLayout([1, 8], [256 // BN, BN // 8], [num_warps, 1], [1, 0])
        m = gl.program_id(1) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, left))
        n = gl.program_id(0) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, right))
        from_a = a + m[:, None] * K + gl.arange(0, BK, layout=gl.SliceLayout(0, left))[None, :]
        from_b = b + gl.arange(0, BK, layout=gl.SliceLayout(1, right))[:, None] * N + n[None, :]
        total = gl.zeros([BM, BN], gl.float32, layout=product)
        next_a, next_b = gl.load(from_a), gl.load(from_b)
        for k in range(0, K, BK):
            x = gl.convert_layout(next_a, gl.DotOperandLayout(0, product, 2))
            y = gl.convert_layout(next_b, gl.DotOperandLayout(1, product, 2))
            from_a += BK
            from_b += BK * N
            more = k + BK < K
            next_a, next_b = gl.load(from_a, mask=more), gl.load(from_b, mask=more)
            total = mma_v2(x, y, total)
        m = gl.program_id(1) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, product))
        n = gl.program_id(0) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, product))
        gl.store(c + m[:, None] * N + n[None, :], total.to(gl.float16))

    return mma


# ----------------------------------------------------------------------------------------------------- Numba, Warp


def numba_product(TPB, PER, **_):
    """The product of square matrices by tiles in shared memory, as the manual has it, PER rows a thread."""
    from numba import cuda, float32

    DEEP = TPB * PER

    @cuda.jit
    def product(A, B, C):
        sA = cuda.shared.array((DEEP, TPB), float32)
        sB = cuda.shared.array((TPB, TPB), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        x = cuda.blockIdx.x * TPB + tx
        y = cuda.blockIdx.y * TPB * PER + ty
        total = cuda.local.array(PER, float32)
        for p in range(PER):
            total[p] = 0.0
        for i in range(A.shape[1] // TPB):
            for p in range(PER):
                sA[ty + p * TPB, tx] = A[y + p * TPB, tx + i * TPB]
            sB[ty, tx] = B[ty + i * TPB, x]
            cuda.syncthreads()
            for j in range(TPB):
                for p in range(PER):
                    total[p] += sA[ty + p * TPB, j] * sB[j, tx]
            cuda.syncthreads()
        for p in range(PER):
            C[y + p * TPB, x] = total[p]

    return product


def numba_prices(**_):
    """Paths of a random walk for many options: numbers from a table, one option a thread."""
    import math

    from numba import cuda, float32

    @cuda.jit(fastmath=True)
    def prices(draws, start, out):
        for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
            s = start[i] + float32(1.0)
            top = s
            for k in range(draws.shape[0]):
                s *= math.exp(float32(0.01) * draws[k, i] - float32(0.00005))
                top = max(top, s)
            out[i] = top - s

    return prices


def warp_sampled(**_):
    """An image at other places, by four neighbours: vectors of Warp."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def sampled(x: wp.array(dtype=wp.float32, ndim=2), out: wp.array(dtype=wp.float32, ndim=2), angle: float):
        i, j = wp.tid()
        p = wp.vec2(float(i) - 1500.0, float(j) - 2000.0)
        c, s = wp.cos(angle), wp.sin(angle)
        q = wp.vec2(c * p[0] - s * p[1] + 1500.0, s * p[0] + c * p[1] + 2000.0)
        u, v = int(wp.floor(q[0])), int(wp.floor(q[1]))
        value = float(0.0)
        if u >= 0 and v >= 0 and u < x.shape[0] - 1 and v < x.shape[1] - 1:
            a, b = q[0] - float(u), q[1] - float(v)
            value = (1.0 - a) * ((1.0 - b) * x[u, v] + b * x[u, v + 1]) + a * ((1.0 - b) * x[u + 1, v] + b * x[u + 1, v + 1])
        out[i, j] = value

    return sampled
