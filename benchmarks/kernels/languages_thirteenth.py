"""Kernels of TileLang, Numba, Warp, Gluon, cuTile and CuTe DSL of a thirteenth set; tunables are arguments of what makes them."""

# mypy: ignore-errors
# ruff: noqa: E501 - code of kernels is wide
# ---------------------------------------------------------------------------------------------------------- TileLang


def tilelang_twice(M, dim, hidden, block_M, block_H, num_stages, threads):
    """Two products with a ReLU between, of which a part of what is hidden is held at a time."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, dim), "float16"),
        up: T.Tensor((hidden, dim), "float16"),
        down: T.Tensor((hidden, dim), "float16"),
        out: T.Tensor((M, dim), "float16"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as b:
            a = T.alloc_shared((block_M, dim), "float16")
            u = T.alloc_shared((block_H, dim), "float16")
            d = T.alloc_shared((block_H, dim), "float16")
            h = T.alloc_fragment((block_M, block_H), "float32")
            h16 = T.alloc_fragment((block_M, block_H), "float16")
            total = T.alloc_fragment((block_M, dim), "float32")
            T.copy(A[b * block_M, 0], a)
            T.clear(total)
            for k in T.Pipelined(hidden // block_H, num_stages=num_stages):
                T.copy(up[k * block_H, 0], u)
                T.clear(h)
                T.gemm(a, u, h, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_H):
                    h[i, j] = T.max(h[i, j], 0)
                T.copy(h, h16)
                T.copy(down[k * block_H, 0], d)
                T.gemm(h16, d, total, policy=T.GemmWarpPolicy.FullRow)
            T.copy(total, out[b * block_M, 0])

    return main


def tilelang_logsum(rows, cols, block, chunk, num_stages, threads):
    """Logarithms of sums of exponentials of long rows, in one walk."""
    import tilelang.language as T

    @T.prim_func
    def main(x: T.Tensor((rows, cols), "float16"), out: T.Tensor((rows,), "float32")):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as r:
            held = T.alloc_shared((block, chunk), "float16")
            local = T.alloc_fragment((block, chunk), "float32")
            top = T.alloc_fragment((block,), "float32")
            most = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.fill(top, -T.infinity("float32"))
            T.fill(total, 0)
            for k in T.Pipelined(cols // chunk, num_stages=num_stages):
                T.copy(x[r * block, k * chunk], held)
                T.copy(held, local)
                T.reduce_max(local, most, dim=1, clear=True)
                for i in T.Parallel(block):
                    most[i] = T.max(most[i], top[i])
                    total[i] = total[i] * T.exp(top[i] - most[i])
                for i, j in T.Parallel(block, chunk):
                    local[i, j] = T.exp(local[i, j] - most[i])
                T.reduce_sum(local, part, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] + part[i]
                    top[i] = most[i]
            for i in T.Parallel(block):
                top[i] = top[i] + T.log(total[i])
            T.copy(top, out[r * block])

    return main


# ------------------------------------------------------------------------------------------------------------- Numba


def numba_ising(**_):
    """Half a step of Ising's model: spins of one colour by their four neighbours of the other, and drawn numbers."""
    import math

    from numba import cuda, float32

    @cuda.jit(fastmath=True)
    def ising(spins, others, drawn, out, cold):
        t = cuda.grid(1)
        rows, cols = others.shape
        i = t // cols
        j = t % cols
        if i < rows:
            down = i + 1 if i + 1 < rows else 0
            up = i - 1 if i > 0 else rows - 1
            right = j + 1 if j + 1 < cols else 0
            left = j - 1 if j > 0 else cols - 1
            aside = right if i % 2 else left
            near = others[up, j] + others[i, j] + others[down, j] + others[i, aside]
            spin = spins[i, j]
            taken = math.exp(float32(-2.0) * cold * float32(near) * float32(spin))
            out[i, j] = -spin if drawn[i, j] < taken else spin

    return ising


def numba_lab(PER, PLANES, **_):
    """Colours of bytes into CIE's L*a*b*, PER pixels a thread."""
    from numba import cuda, float32

    @cuda.jit(device=True)
    def linear(c):
        v = float32(c) * float32(1.0 / 255.0)
        if v > float32(0.04045):
            return ((v + float32(0.055)) * float32(1.0 / 1.055)) ** float32(2.4)
        return v * float32(1.0 / 12.92)

    @cuda.jit(device=True)
    def rooted(t):
        if t > float32(0.008856):
            return t ** float32(1.0 / 3.0)
        return float32(7.787) * t + float32(16.0 / 116.0)

    @cuda.jit(fastmath=True)
    def lab(x, out):
        first = cuda.blockIdx.x * cuda.blockDim.x * PER + cuda.threadIdx.x
        for p in range(PER):
            i = first + p * cuda.blockDim.x
            if i < x.shape[0]:
                r, g, b = linear(x[i, 0]), linear(x[i, 1]), linear(x[i, 2])
                fx = rooted((r * float32(0.412453) + g * float32(0.357580) + b * float32(0.180423)) * float32(1 / 0.950456))
                fy = rooted(r * float32(0.212671) + g * float32(0.715160) + b * float32(0.072169))
                fz = rooted((r * float32(0.019334) + g * float32(0.119193) + b * float32(0.950227)) * float32(1 / 1.088754))
                light = float32(116.0) * fy - float32(16.0)
                if PLANES:
                    out[0, i], out[1, i], out[2, i] = light, float32(500.0) * (fx - fy), float32(200.0) * (fy - fz)
                else:
                    out[i, 0], out[i, 1], out[i, 2] = light, float32(500.0) * (fx - fy), float32(200.0) * (fy - fz)

    return lab


# -------------------------------------------------------------------------------------------------------------- Warp


def warp_skinned(BONES, **_):
    """Points of a skin moved by the bones that each names, with weights."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def skinned(
        points: wp.array(dtype=wp.vec3), bones: wp.array(dtype=wp.mat44), named: wp.array(dtype=wp.int32, ndim=2),
        weights: wp.array(dtype=wp.float32, ndim=2), out: wp.array(dtype=wp.vec3),
    ):  # fmt: skip
        i = wp.tid()
        p = points[i]
        total = wp.vec3(0.0, 0.0, 0.0)
        for k in range(wp.static(BONES)):
            total += weights[i, k] * wp.transform_point(bones[named[i, k]], p)
        out[i] = total

    return skinned


def warp_rigid(**_):
    """A step of free rigid bodies: places, turns as quaternions, speeds and spins, with moments of inertia."""
    import warp as wp

    @wp.kernel(enable_backward=False, module="unique")
    def rigid(
        x: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.quat), v: wp.array(dtype=wp.vec3), w: wp.array(dtype=wp.vec3),
        inertia: wp.array(dtype=wp.vec3), xn: wp.array(dtype=wp.vec3), qn: wp.array(dtype=wp.quat),
        vn: wp.array(dtype=wp.vec3), wn: wp.array(dtype=wp.vec3), dt: float,
    ):  # fmt: skip
        i = wp.tid()
        m = inertia[i]
        q0 = q[i]
        v1 = (v[i] + wp.vec3(0.0, -9.81, 0.0) * dt) * 0.999
        own = wp.quat_rotate_inv(q0, w[i])
        torque = wp.cross(own, wp.cw_mul(m, own))
        w1 = wp.quat_rotate(q0, own - wp.cw_div(torque, m) * dt)
        xn[i] = x[i] + v1 * dt
        qn[i] = wp.normalize(q0 + wp.quat(w1, 0.0) * q0 * 0.5 * dt)
        vn[i] = v1
        wn[i] = w1

    return rigid


# ------------------------------------------------------------------------------------------------------------- Gluon


def gluon_added(**_):
    """Sums of two arrays, copied to shared memory DEPTH tiles ahead."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.ampere import async_copy

    @gluon.jit
    def added(a, b, out, BLOCK: gl.constexpr, DEPTH: gl.constexpr, VEC: gl.constexpr, TILES: gl.constexpr,
              num_warps: gl.constexpr):  # fmt: skip
        lanes: gl.constexpr = gl.BlockedLayout([VEC], [32], [num_warps], [0])
        flat: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
        left = gl.allocate_shared_memory(gl.float32, [DEPTH, BLOCK], flat)
        right = gl.allocate_shared_memory(gl.float32, [DEPTH, BLOCK], flat)
        first = gl.program_id(0) * TILES * BLOCK
        at = gl.arange(0, BLOCK, layout=lanes)
        for t in gl.static_range(DEPTH - 1):
            async_copy.async_copy_global_to_shared(left.index(t), a + first + t * BLOCK + at)
            async_copy.async_copy_global_to_shared(right.index(t), b + first + t * BLOCK + at)
            async_copy.commit_group()
        for t in range(TILES):
            ahead = t + DEPTH - 1
            inside = at + ahead * BLOCK < TILES * BLOCK
            async_copy.async_copy_global_to_shared(left.index(ahead % DEPTH), a + first + ahead * BLOCK + at, inside)
            async_copy.async_copy_global_to_shared(right.index(ahead % DEPTH), b + first + ahead * BLOCK + at, inside)
            async_copy.commit_group()
            async_copy.wait_group(DEPTH - 1)
            total = left.index(t % DEPTH).load(lanes) + right.index(t % DEPTH).load(lanes)
            gl.store(out + first + t * BLOCK + at, total)

    return added


def gluon_rotated(**_):
    """Heads of halves turned by the place of their token, one half of each by the other."""
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def rotated(x, cosines, sines, out, HEADS: gl.constexpr, HALF: gl.constexpr, ROWS: gl.constexpr, VEC: gl.constexpr,
                num_warps: gl.constexpr):  # fmt: skip
        beside: gl.constexpr = min(32, HALF // VEC)
        lanes: gl.constexpr = gl.BlockedLayout([1, VEC], [32 // beside, beside], [num_warps, 1], [1, 0])
        r = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, lanes))
        c = gl.arange(0, HALF, layout=gl.SliceLayout(0, lanes))
        at = r[:, None] * (2 * HALF) + c[None, :]
        of = (r // HEADS)[:, None] * HALF + c[None, :]
        cosine, sine = gl.load(cosines + of), gl.load(sines + of)
        one, two = gl.load(x + at).to(gl.float32), gl.load(x + at + HALF).to(gl.float32)
        gl.store(out + at, (one * cosine - two * sine).to(gl.float16))
        gl.store(out + at + HALF, (two * cosine + one * sine).to(gl.float16))

    return rotated


# ------------------------------------------------------------------------------------------------- cuTile, CuTe DSL


def cutile_residual(cols, **_):
    """What a layer made added to what it was given, and the sum over its root mean square."""
    import cuda.tile as ct

    @ct.kernel
    def residual(x, given, weight, kept, out, rows: ct.Constant[int]):
        i = ct.bid(0)
        total = ct.load(x, index=(i, 0), shape=(rows, cols)).astype(ct.float32)
        total = total + ct.load(given, index=(i, 0), shape=(rows, cols)).astype(ct.float32)
        ct.store(kept, index=(i, 0), tile=total.astype(kept.dtype))
        by = 1.0 / ct.sqrt(ct.sum(total * total, axis=1, keepdims=True) / cols + 1e-6)
        scale = ct.load(weight, index=(0, 0), shape=(1, cols)).astype(ct.float32)
        ct.store(out, index=(i, 0), tile=(total * by * scale).astype(out.dtype))

    return residual


def cute_swiglu(COLS, **_):
    """SiLU of one half of each row by the other half, VEC numbers at a time."""
    import cutlass
    from cutlass import cute

    @cute.kernel
    def swiglu_kernel(A: cute.Tensor, B: cute.Tensor, THREADS: cutlass.Constexpr, VEC: cutlass.Constexpr):
        t, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        mine = cute.zipped_divide(A, (1, VEC))
        to = cute.zipped_divide(B, (1, VEC))
        for k in range(COLS // (VEC * THREADS)):
            c = k * THREADS + t
            gate = mine[(None, (row, c))].load().to(cutlass.Float32)
            up = mine[(None, (row, c + COLS // VEC))].load().to(cutlass.Float32)
            to[(None, (row, c))].store((gate / (1.0 + cute.exp(-gate)) * up).to(cutlass.Float16))

    @cute.jit
    def swiglu(A: cute.Tensor, B: cute.Tensor, THREADS: cutlass.Constexpr, VEC: cutlass.Constexpr):
        swiglu_kernel(A, B, THREADS, VEC).launch(grid=[A.shape[0], 1, 1], block=[THREADS, 1, 1])

    return swiglu
