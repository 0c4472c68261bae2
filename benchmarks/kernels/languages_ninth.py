"""More kernels of TileLang, Numba, Warp, cuTile and CuTe DSL whose tunables are arguments of what makes them."""

# mypy: ignore-errors
# ruff: noqa: UP018, E501 - Warp makes variables of calls; code of kernels is wide
# ---------------------------------------------------------------------------------------------------------- TileLang


def tilelang_linear(M, N, K, block_M, block_N, block_K, num_stages, threads, swizzled):
    """A product with a bias and GELU, its tiles in groups that share what L2 holds."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (x, y):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_K, block_N), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.use_swizzle(panel_size=10, enable=bool(swizzled))
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[y * block_M, k * block_K], a)
                T.copy(B[k * block_K, x * block_N], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] += bias[x * block_N + j]
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = c[i, j] / (1 + T.exp(-1.702 * c[i, j]))
            T.copy(c, C[y * block_M, x * block_N])

    return main


def tilelang_decoding(batch, heads, groups, seq, dim, splits, block_N, num_stages, threads):
    """Attention of one query a sequence: a block has a part of the keys for all heads that share them."""
    import tilelang.language as T

    held, of = (batch, seq, heads, dim), heads * groups
    scale, part = dim**-0.5 * 1.44269504, seq // splits
    rows = 64

    @T.prim_func
    def main(
        Q: T.Tensor((batch, of, dim), "float16"),
        K: T.Tensor(held, "float16"),
        V: T.Tensor(held, "float16"),
        parts: T.Tensor((splits, batch, of, dim), "float32"),
        weights: T.Tensor((splits, batch, of), "float32"),
    ):
        with T.Kernel(batch, heads, splits, threads=threads) as (b, h, part_of):
            q = T.alloc_shared((rows, dim), "float16")
            k = T.alloc_shared((block_N, dim), "float16")
            v = T.alloc_shared((block_N, dim), "float16")
            s = T.alloc_fragment((rows, block_N), "float32")
            p = T.alloc_fragment((rows, block_N), "float16")
            o = T.alloc_fragment((rows, dim), "float32")
            most = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            factor = T.alloc_fragment((rows,), "float32")
            row = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            for i, j in T.Parallel(rows, dim):
                q[i, j] = T.if_then_else(i < groups, Q[b, h * groups + T.min(i, groups - 1), j], 0)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity("float32"))
            for i in T.Pipelined(part // block_N, num_stages=num_stages):
                at = part_of * part + i * block_N
                T.copy(K[b, at : at + block_N, h, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[b, at : at + block_N, h, :], v)
                T.copy(most, before)
                T.reduce_max(s, most, dim=1, clear=False)
                for m in T.Parallel(rows):
                    factor[m] = T.exp2((before[m] - most[m]) * scale)
                for m, n in T.Parallel(rows, block_N):
                    s[m, n] = T.exp2((s[m, n] - most[m]) * scale)
                T.reduce_sum(s, row, dim=1)
                for m in T.Parallel(rows):
                    total[m] = total[m] * factor[m] + row[m]
                for m, d in T.Parallel(rows, dim):
                    o[m, d] *= factor[m]
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for m, d in T.Parallel(rows, dim):
                o[m, d] /= total[m]
            for m, d in T.Parallel(rows, dim):
                if m < groups:
                    parts[part_of, b, h * groups + m, d] = o[m, d]
            for m in T.Parallel(rows):
                if m < groups:
                    weights[part_of, b, h * groups + m] = T.log2(total[m]) + most[m] * scale

    return main


def tilelang_rowsoft(rows, cols, block_M, block_N, threads):
    """A softmax in two walks over the columns."""
    import tilelang.language as T

    @T.prim_func
    def main(x: T.Tensor((rows, cols), "float16"), out: T.Tensor((rows, cols), "float16")):
        with T.Kernel(T.ceildiv(rows, block_M), threads=threads) as r:
            held = T.alloc_fragment((block_M, block_N), "float16")
            wide = T.alloc_fragment((block_M, block_N), "float32")
            most = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.fill(total, 0)
            T.fill(most, -T.infinity("float32"))
            for k in T.serial(T.ceildiv(cols, block_N)):
                T.copy(x[r * block_M, k * block_N], held)
                T.copy(held, wide)
                T.copy(most, before)
                T.reduce_max(wide, most, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    wide[i, j] = T.exp2((wide[i, j] - most[i]) * 1.44269504)
                T.reduce_sum(wide, row, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp2((before[i] - most[i]) * 1.44269504) + row[i]
            for k in T.serial(T.ceildiv(cols, block_N)):
                T.copy(x[r * block_M, k * block_N], held)
                T.copy(held, wide)
                for i, j in T.Parallel(block_M, block_N):
                    wide[i, j] = T.exp2((wide[i, j] - most[i]) * 1.44269504) / total[i]
                T.copy(wide, out[r * block_M, k * block_N])

    return main


def tilelang_packed(M, N, K, block_M, block_N, block_K, num_stages, threads):
    """A product whose right operand has two weights of four bits a byte."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K // 2), "uint8"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (x, y):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_N, block_K // 2), "uint8")
            few = T.alloc_fragment((block_N, block_K // 2), "uint8")
            many = T.alloc_fragment((block_N, block_K), "float16")
            wide = T.alloc_shared((block_N, block_K), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[y * block_M, k * block_K], a)
                T.copy(B[x * block_N, k * block_K // 2], b)
                T.copy(b, few)
                for i, j in T.Parallel(block_N, block_K):
                    many[i, j] = T.cast((few[i, j // 2] >> T.cast((j % 2) * 4, "uint8")) & T.cast(15, "uint8"), "float16") - T.cast(8, "float16")
                T.copy(many, wide)
                T.gemm(a, wide, c, transpose_B=True)
            T.copy(c, C[y * block_M, x * block_N])

    return main


# ------------------------------------------------------------------------------------------------------------- Numba


def numba_heated(BX, BY, PER, **_):
    """Heat in a volume, PER planes a thread."""
    from numba import cuda, float32

    @cuda.jit
    def heated(x, y, alpha):
        i = cuda.blockIdx.x * BX + cuda.threadIdx.x
        j = cuda.blockIdx.y * BY + cuda.threadIdx.y
        k0 = cuda.blockIdx.z * PER
        if 0 < i < x.shape[2] - 1 and 0 < j < x.shape[1] - 1:
            for p in range(PER):
                k = k0 + p
                if 0 < k < x.shape[0] - 1:
                    here = x[k, j, i]
                    around = x[k - 1, j, i] + x[k + 1, j, i] + x[k, j - 1, i] + x[k, j + 1, i] + x[k, j, i - 1] + x[k, j, i + 1]
                    y[k, j, i] = here + alpha * (around - float32(6) * here)

    return heated


def numba_dotted(BLOCK, SHUFFLE, **_):
    """A scalar product: warps or a tree in shared memory add up what threads have."""
    from numba import cuda, float32

    @cuda.jit
    def dotted(x, y, out):
        part = cuda.shared.array(BLOCK, float32)
        t = cuda.threadIdx.x
        total = float32(0)
        for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
            total += x[i] * y[i]
        if SHUFFLE:
            far = 16
            while far > 0:
                total += cuda.shfl_down_sync(0xFFFFFFFF, total, far)
                far //= 2
            if t % 32 == 0:
                cuda.atomic.add(out, 0, total)
        else:
            part[t] = total
            cuda.syncthreads()
            far = BLOCK // 2
            while far > 0:
                if t < far:
                    part[t] += part[t + far]
                cuda.syncthreads()
                far //= 2
            if t == 0:
                cuda.atomic.add(out, 0, part[0])

    return dotted


def numba_binned(BLOCK, BINS, SHARED, **_):
    """How many numbers of 0 to 1 are in each of BINS bins."""
    from numba import cuda, float32, int32

    @cuda.jit
    def binned(x, out):
        held = cuda.shared.array(BINS, int32)
        t = cuda.threadIdx.x
        if SHARED:
            for b in range(t, BINS, BLOCK):
                held[b] = 0
            cuda.syncthreads()
        for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
            b = min(int32(x[i] * float32(BINS)), BINS - 1)
            if SHARED:
                cuda.atomic.add(held, b, 1)
            else:
                cuda.atomic.add(out, b, 1)
        if SHARED:
            cuda.syncthreads()
            for b in range(t, BINS, BLOCK):
                cuda.atomic.add(out, b, held[b])

    return binned


def numba_tiled(BM, BN, BK, TM, TN, **_):
    """A product of matrices: TM x TN results a thread, tiles in shared memory."""
    from numba import cuda, float32

    X, Y = BN // TN, BM // TM
    THREADS, PADDED = X * Y, BM + 1

    @cuda.jit(fastmath=True)
    def tiled(A, B, C):
        a = cuda.shared.array((BK, PADDED), float32)
        b = cuda.shared.array((BK, BN), float32)
        total = cuda.local.array((TM, TN), float32)
        t = cuda.threadIdx.x
        col, row = t % X, t // X
        y0, x0 = cuda.blockIdx.y * BM, cuda.blockIdx.x * BN
        for m in range(TM):
            for n in range(TN):
                total[m, n] = float32(0)
        for k0 in range(0, A.shape[1], BK):
            for at in range(t, BM * BK, THREADS):
                a[at % BK, at // BK] = A[y0 + at // BK, k0 + at % BK]
            for at in range(t, BK * BN, THREADS):
                b[at // BN, at % BN] = B[k0 + at // BN, x0 + at % BN]
            cuda.syncthreads()
            for k in range(BK):
                for m in range(TM):
                    left = a[k, row + m * Y]
                    for n in range(TN):
                        total[m, n] += left * b[k, col + n * X]
            cuda.syncthreads()
        for m in range(TM):
            for n in range(TN):
                C[y0 + row + m * Y, x0 + col + n * X] = total[m, n]

    return tiled


def numba_means(BLOCK, D, K, SHARED, **_):
    """Each point's nearest of K centres, as of k-means."""
    from numba import cuda, float32, int32

    @cuda.jit(fastmath=True)
    def means(points, centres, label, apart):
        held = cuda.shared.array((K, D), float32)
        mine = cuda.local.array(D, float32)
        if SHARED:
            for at in range(cuda.threadIdx.x, K * D, BLOCK):
                held[at // D, at % D] = centres[at // D, at % D]
            cuda.syncthreads()
        for i in range(cuda.grid(1), points.shape[1], cuda.gridsize(1)):
            for d in range(D):
                mine[d] = points[d, i]
            best, which = float32(1e30), int32(0)
            for c in range(K):
                far = float32(0)
                for d in range(D):
                    off = mine[d] - (held[c, d] if SHARED else centres[c, d])
                    far += off * off
                if far < best:
                    best, which = far, int32(c)
            label[i] = which
            apart[i] = best

    return means


# -------------------------------------------------------------------------------------------------------------- Warp


def warp_near(G, TOGETHER, **_):
    """Densities of particles that are sorted by the cells of a grid: all pairs of neighbouring cells."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def near(
        pos: wp.array(dtype=wp.vec3), cell: wp.array(dtype=wp.int32), starts: wp.array(dtype=wp.int32), out: wp.array(dtype=wp.float32)
    ):
        i = wp.tid()
        p = pos[i]
        own = cell[i]
        cx, cy, cz = own % G, own // G % G, own // (G * G)
        total = float(0.0)
        for z in range(wp.max(cz - 1, 0), wp.min(cz + 2, G)):
            for y in range(wp.max(cy - 1, 0), wp.min(cy + 2, G)):
                row = (z * G + y) * G
                if wp.static(TOGETHER):
                    for j in range(starts[row + wp.max(cx - 1, 0)], starts[row + wp.min(cx + 2, G)]):
                        d = pos[j] - p
                        w = 1.0 - wp.dot(d, d)
                        if w > 0.0:
                            total += w * w * w
                else:
                    for x in range(wp.max(cx - 1, 0), wp.min(cx + 2, G)):
                        for j in range(starts[row + x], starts[row + x + 1]):
                            d = pos[j] - p
                            w = 1.0 - wp.dot(d, d)
                            if w > 0.0:
                                total += w * w * w
        out[i] = total

    return near


def warp_blocks(ROWWISE, **_):
    """A sparse matrix of blocks of 3 x 3 times a vector, a thread a row of blocks or a row of numbers."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def whole(
        starts: wp.array(dtype=wp.int32), cols: wp.array(dtype=wp.int32), held: wp.array(dtype=wp.mat33), x: wp.array(dtype=wp.vec3),
        y: wp.array(dtype=wp.vec3),
    ):  # fmt: skip
        i = wp.tid()
        total = wp.vec3(0.0, 0.0, 0.0)
        for k in range(starts[i], starts[i + 1]):
            total += held[k] * x[cols[k]]
        y[i] = total

    @wp.kernel(enable_backward=False, module="unique")
    def rows(
        starts: wp.array(dtype=wp.int32), cols: wp.array(dtype=wp.int32), held: wp.array(dtype=wp.vec3, ndim=2), x: wp.array(dtype=wp.vec3),
        y: wp.array(dtype=wp.float32, ndim=2),
    ):  # fmt: skip
        i, r = wp.tid()
        total = float(0.0)
        for k in range(starts[i], starts[i + 1]):
            total += wp.dot(held[k, r], x[cols[k]])
        y[i, r] = total

    return rows if ROWWISE else whole


def warp_blurred(PER, R, **_):
    """A Gaussian over colours, PER rows a thread."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def blurred(x: wp.array(dtype=wp.vec3, ndim=2), out: wp.array(dtype=wp.vec3, ndim=2)):
        a, j = wp.tid()
        for p in range(wp.static(PER)):
            i = a * PER + p
            total, weight = wp.vec3(0.0, 0.0, 0.0), float(0.0)
            for u in range(-R, R + 1):
                for v in range(-R, R + 1):
                    r, c = wp.clamp(i + u, 0, x.shape[0] - 1), wp.clamp(j + v, 0, x.shape[1] - 1)
                    w = wp.exp(-0.2 * float(u * u + v * v))
                    total += w * x[r, c]
                    weight += w
            out[i, j] = total / weight

    return blurred


def warp_affine(TM, TN, TK, **_):
    """relu(A B + bias) by tiles."""
    import warp as wp

    wp.config.enable_mathdx_gemm = False

    @wp.func
    def relu(v: float):
        return wp.max(v, 0.0)

    @wp.kernel(enable_backward=False, module="unique")
    def affine(
        A: wp.array2d(dtype=wp.float32), B: wp.array2d(dtype=wp.float32), bias: wp.array(dtype=wp.float32), C: wp.array2d(dtype=wp.float32)
    ):
        i, j = wp.tid()
        s = wp.tile_zeros(shape=(TM, TN), dtype=wp.float32)
        for k in range(0, A.shape[1] // TK):
            a = wp.tile_load(A, shape=(TM, TK), offset=(i * TM, k * TK))
            b = wp.tile_load(B, shape=(TK, TN), offset=(k * TK, j * TN))
            wp.tile_matmul(a, b, s)
        add = wp.tile_broadcast(wp.tile_load(bias, shape=TN, offset=j * TN), shape=(TM, TN))
        wp.tile_store(C, wp.tile_map(relu, s + add), offset=(i * TM, j * TN))

    return affine


def warp_marched(STEPS, UNROLL, **_):
    """What rays through a volume meet, between eight neighbours at each of STEPS places."""
    import warp as wp

    @wp.func
    def at(x: wp.array(dtype=wp.float32, ndim=3), p: wp.vec3):
        i, j, k = int(wp.floor(p[0])), int(wp.floor(p[1])), int(wp.floor(p[2]))
        i, j, k = wp.clamp(i, 0, x.shape[0] - 2), wp.clamp(j, 0, x.shape[1] - 2), wp.clamp(k, 0, x.shape[2] - 2)
        a, b, c = p[0] - float(i), p[1] - float(j), p[2] - float(k)
        low = wp.lerp(wp.lerp(x[i, j, k], x[i, j, k + 1], c), wp.lerp(x[i, j + 1, k], x[i, j + 1, k + 1], c), b)
        high = wp.lerp(wp.lerp(x[i + 1, j, k], x[i + 1, j, k + 1], c), wp.lerp(x[i + 1, j + 1, k], x[i + 1, j + 1, k + 1], c), b)
        return wp.lerp(low, high, a)

    @wp.kernel(enable_backward=False, module="unique")
    def marched(x: wp.array(dtype=wp.float32, ndim=3), out: wp.array(dtype=wp.float32, ndim=2), step: float, slope: float):
        r, c = wp.tid()
        p = wp.vec3(float(0.0), float(r) * 0.24, float(c) * 0.24)
        way = wp.vec3(step, slope * step, 0.5 * slope * step)
        total = float(0.0)
        for s in range(0, STEPS, UNROLL):
            for u in range(wp.static(UNROLL)):
                total += at(x, p + float(s + u) * way)
        out[r, c] = total

    return marched


# ------------------------------------------------------------------------------------------------- cuTile, CuTe DSL


def cutile_attended(**_):
    """Attention of `rows` queries a block over all keys, `cols` at a time."""
    import cuda.tile as ct

    @ct.kernel
    def attended(Q, K, V, Out, rows: ct.Constant[int], cols: ct.Constant[int], dim: ct.Constant[int]):
        i, h = ct.bid(0), ct.bid(1)
        q = ct.load(Q, index=(h, i, 0), shape=(1, rows, dim)).reshape((rows, dim))
        most = ct.full((rows, 1), -1e30, ct.float32)
        total = ct.full((rows, 1), 0.0, ct.float32)
        o = ct.full((rows, dim), 0.0, ct.float32)
        scale = 1.44269504 * 0.125
        for k in range(ct.cdiv(K.shape[1], cols)):
            keys = ct.load(K, index=(h, k, 0), shape=(1, cols, dim)).reshape((cols, dim))
            s = ct.mma(q, ct.transpose(keys), ct.full((rows, cols), 0.0, ct.float32)) * scale
            now = ct.maximum(most, ct.max(s, axis=1, keepdims=True))
            p = ct.exp2(s - now)
            factor = ct.exp2(most - now)
            total = total * factor + ct.sum(p, axis=1, keepdims=True)
            values = ct.load(V, index=(h, k, 0), shape=(1, cols, dim)).reshape((cols, dim))
            o = ct.mma(p.astype(Q.dtype), values, o * factor)
            most = now
        ct.store(Out, index=(h, i, 0), tile=(o / total).astype(Out.dtype).reshape((1, rows, dim)))

    return attended


def cutile_layered(**_):
    """Rows less their mean over their deviation, with a weight, in three walks."""
    import cuda.tile as ct

    @ct.kernel
    def layered(x, w, out, rows: ct.Constant[int], cols: ct.Constant[int]):
        i = ct.bid(0)
        wide = x.shape[1]
        parts = ct.cdiv(wide, cols)
        mean = ct.full((rows, cols), 0.0, ct.float32)
        for k in range(parts):
            mean = mean + ct.load(x, index=(i, k), shape=(rows, cols)).astype(ct.float32)
        middle = ct.sum(mean, axis=1, keepdims=True) / wide
        square = ct.full((rows, cols), 0.0, ct.float32)
        for k in range(parts):
            off = ct.load(x, index=(i, k), shape=(rows, cols)).astype(ct.float32) - middle
            square = square + off * off
        by = 1.0 / ct.sqrt(ct.sum(square, axis=1, keepdims=True) / wide + 1e-5)
        for k in range(parts):
            off = ct.load(x, index=(i, k), shape=(rows, cols)).astype(ct.float32) - middle
            weight = ct.load(w, index=(k,), shape=(cols,)).astype(ct.float32).reshape((1, cols))
            ct.store(out, index=(i, k), tile=(off * by * weight).astype(out.dtype))

    return layered


def cute_matvec(**_):
    """A matrix times a vector: LANES threads a row, each VEC numbers at a time."""
    import cutlass
    from cutlass import cute

    @cute.kernel
    def matvec_kernel(
        A: cute.Tensor, x: cute.Tensor, y: cute.Tensor, ROWS: cutlass.Constexpr, LANES: cutlass.Constexpr, VEC: cutlass.Constexpr
    ):
        t, _, _ = cute.arch.thread_idx()
        b, _, _ = cute.arch.block_idx()
        row, lane = b * ROWS + t // LANES, t % LANES
        mine = cute.zipped_divide(A, (1, VEC))
        of = cute.zipped_divide(x, (VEC,))
        total = cute.make_rmem_tensor(cute.make_layout((VEC,)), cutlass.Float32)
        total.fill(0.0)
        for k in range(A.shape[1] // (VEC * LANES)):
            left = mine[(None, (row, k * LANES + lane))].load()
            right = of[(None, (k * LANES + lane,))].load()
            for v in cutlass.range_constexpr(VEC):
                total[v] += left[v] * right[v]
        held = cutlass.Float32(0.0)
        for v in cutlass.range_constexpr(VEC):
            held += total[v]
        far = LANES // 2
        while cutlass.const_expr(far > 0):
            held += cute.arch.shuffle_sync_bfly(held, offset=far)
            far //= 2
        if lane == 0:
            y[row] = held

    @cute.jit
    def matvec(
        A: cute.Tensor, x: cute.Tensor, y: cute.Tensor, ROWS: cutlass.Constexpr, LANES: cutlass.Constexpr, VEC: cutlass.Constexpr
    ):
        matvec_kernel(A, x, y, ROWS, LANES, VEC).launch(grid=[A.shape[0] // ROWS, 1, 1], block=[ROWS * LANES, 1, 1])

    return matvec
