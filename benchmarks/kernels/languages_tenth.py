"""Other kernels of TileLang, Numba, Warp, cuTile and CuTe DSL whose tunables are arguments of what makes them."""

# mypy: ignore-errors
# ruff: noqa: UP018, E501 - Warp makes variables of calls; code of kernels is wide
# ---------------------------------------------------------------------------------------------------------- TileLang


def tilelang_chunked(heads, seq, dim, block_T, block_V, num_stages, threads):
    """Causal linear attention: chunks in turn, what came before them in a matrix of sums."""
    import tilelang.language as T

    shape = (heads, seq, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        Out: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(dim // block_V, heads, threads=threads) as (x, head):
            q = T.alloc_shared((block_T, dim), "float16")
            k = T.alloc_shared((block_T, dim), "float16")
            v = T.alloc_shared((block_T, block_V), "float16")
            p = T.alloc_shared((block_T, block_T), "float16")
            before = T.alloc_shared((dim, block_V), "float16")
            s = T.alloc_fragment((block_T, block_T), "float32")
            o = T.alloc_fragment((block_T, block_V), "float32")
            held = T.alloc_fragment((dim, block_V), "float32")
            T.clear(held)
            for i in T.Pipelined(seq // block_T, num_stages=num_stages):
                T.copy(Q[head, i * block_T : (i + 1) * block_T, :], q)
                T.copy(K[head, i * block_T : (i + 1) * block_T, :], k)
                T.copy(V[head, i * block_T : (i + 1) * block_T, x * block_V : (x + 1) * block_V], v)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                for m, n in T.Parallel(block_T, block_T):
                    s[m, n] = T.if_then_else(m >= n, s[m, n], 0)
                T.copy(s, p)
                T.copy(held, before)
                T.clear(o)
                T.gemm(p, v, o)
                T.gemm(q, before, o)
                T.gemm(k, v, held, transpose_A=True)
                for m, n in T.Parallel(block_T, block_V):
                    o[m, n] *= dim**-1.0
                T.copy(o, Out[head, i * block_T : (i + 1) * block_T, x * block_V : (x + 1) * block_V])

    return main


# ------------------------------------------------------------------------------------------------------------- Numba


def numba_rolled(BLOCK, CHUNK, WINDOW, **_):
    """Means and deviations of the last WINDOW numbers of each column: CHUNK times a thread."""
    import math

    from numba import cuda, float32

    @cuda.jit(fastmath=True)
    def rolled(x, mean, deviation):
        s = cuda.blockIdx.x * BLOCK + cuda.threadIdx.x
        first = cuda.blockIdx.y * CHUNK
        if s < x.shape[1]:
            total, square = float32(0), float32(0)
            for t in range(max(first - WINDOW, 0), first):
                total += x[t, s]
                square += x[t, s] * x[t, s]
            for t in range(first, min(first + CHUNK, x.shape[0])):
                new = x[t, s]
                total += new
                square += new * new
                if t >= WINDOW:
                    old = x[t - WINDOW, s]
                    total -= old
                    square -= old * old
                m = total * float32(1 / WINDOW)
                mean[t, s] = m
                deviation[t, s] = math.sqrt(max(square * float32(1 / WINDOW) - m * m, float32(0)))

    return rolled


def numba_temporal(BT, PER, CO, TAPS, CIN, **_):
    """Convolution over time: PER channels a thread, BT times and CO threads of channels a block, inputs in shared memory."""
    from numba import cuda, float32

    PART, THREADS, WIDE = 16, BT * CO, BT + TAPS - 1

    @cuda.jit(fastmath=True)
    def temporal(x, w, out):
        held = cuda.shared.array((PART, WIDE), float32)
        total = cuda.local.array(PER, float32)
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        t0, c0 = cuda.blockIdx.x * BT, cuda.blockIdx.y * CO * PER + j * PER
        b = cuda.blockIdx.z
        for p in range(PER):
            total[p] = float32(0)
        for part in range(0, CIN, PART):
            for at in range(j * BT + i, PART * WIDE, THREADS):
                held[at // WIDE, at % WIDE] = x[b, part + at // WIDE, t0 + at % WIDE]
            cuda.syncthreads()
            for c in range(PART):
                for k in range(TAPS):
                    v = held[c, i + k]
                    for p in range(PER):
                        total[p] += w[c0 + p, part + c, k] * v
            cuda.syncthreads()
        for p in range(PER):
            out[b, c0 + p, t0 + i] = total[p]

    return temporal


# -------------------------------------------------------------------------------------------------------------- Warp


def warp_springs(NEIGHBOURS, TURNED, **_):
    """Forces of springs on the points of a net, each with a list of NEIGHBOURS others."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def springs(
        pos: wp.array(dtype=wp.vec3), speed: wp.array(dtype=wp.vec3), listed: wp.array(dtype=wp.int32, ndim=2), apart: wp.array(dtype=wp.float32, ndim=2),
        out: wp.array(dtype=wp.vec3),
    ):  # fmt: skip
        i = wp.tid()
        p, v = pos[i], speed[i]
        total = wp.vec3(0.0, -9.8, 0.0)
        for n in range(wp.static(NEIGHBOURS)):
            j = wp.int32(0)
            own = float(0.0)
            if wp.static(TURNED):
                j = listed[n, i]
                own = apart[n, i]
            else:
                j = listed[i, n]
                own = apart[i, n]
            d = pos[j] - p
            far = wp.length(d) + 1e-6
            along = d / far
            total += along * (100.0 * (far - own) + 0.5 * wp.dot(speed[j] - v, along))
        out[i] = total

    return springs


# ------------------------------------------------------------------------------------------------- cuTile, CuTe DSL


def cutile_swished(**_):
    """silu(a) b, where a and b lie side by side in a row."""
    import cuda.tile as ct

    @ct.kernel
    def swished(x, out, rows: ct.Constant[int], cols: ct.Constant[int]):
        i, j = ct.bid(0), ct.bid(1)
        parts = out.shape[1] // cols
        a = ct.load(x, index=(i, j), shape=(rows, cols)).astype(ct.float32)
        b = ct.load(x, index=(i, j + parts), shape=(rows, cols)).astype(ct.float32)
        ct.store(out, index=(i, j), tile=(a / (1.0 + ct.exp(-a)) * b).astype(out.dtype))

    return swished


def cute_turned(**_):
    """A matrix transposed by way of a tile in shared memory, whose rows lie PAD apart."""
    import cutlass
    from cutlass import cute, utils

    @cute.kernel
    def turned_kernel(
        A: cute.Tensor, B: cute.Tensor, TILE: cutlass.Constexpr, ROWS: cutlass.Constexpr, PAD: cutlass.Constexpr
    ):
        t, _, _ = cute.arch.thread_idx()
        x, y, _ = cute.arch.block_idx()
        memory = utils.SmemAllocator()
        held = memory.allocate_tensor(cutlass.Float32, cute.make_layout((TILE, TILE), stride=(TILE + PAD, 1)), byte_alignment=16)
        row, col = t // TILE, t % TILE
        for i in cutlass.range_constexpr(TILE // ROWS):
            held[row + i * ROWS, col] = A[y * TILE + row + i * ROWS, x * TILE + col]
        cute.arch.sync_threads()
        for i in cutlass.range_constexpr(TILE // ROWS):
            B[x * TILE + row + i * ROWS, y * TILE + col] = held[col, row + i * ROWS]

    @cute.jit
    def turned(
        A: cute.Tensor, B: cute.Tensor, TILE: cutlass.Constexpr, ROWS: cutlass.Constexpr, PAD: cutlass.Constexpr
    ):
        turned_kernel(A, B, TILE, ROWS, PAD).launch(
            grid=[A.shape[1] // TILE, A.shape[0] // TILE, 1], block=[TILE * ROWS, 1, 1]
        )

    return turned
