"""A matmul and an attention in TileLang, as functions of their tiles."""

import tilelang.language as T


def gemm(M, N, K, block_M=128, block_N=128, block_K=32, num_stages=2, threads=128):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (x, y):
            a = T.alloc_shared((block_M, block_K), "float16")
            b = T.alloc_shared((block_N, block_K), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[y * block_M, k * block_K], a)
                T.copy(B[x * block_N, k * block_K], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[y * block_M, x * block_N])

    return main


def attention(batch, heads, seq, dim, block_M=64, block_N=64, num_stages=1, threads=128):
    shape, scale = (batch, seq, heads, dim), dim**-0.5 * 1.44269504

    @T.prim_func
    def main(Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"),
             Out: T.Tensor(shape, "float16")):  # fmt: skip
        with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=threads) as (x, head, b):
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
            T.copy(Q[b, x * block_M : (x + 1) * block_M, head, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity("float32"))
            for i in T.Pipelined(T.ceildiv(seq, block_N), num_stages=num_stages):
                T.copy(K[b, i * block_N : (i + 1) * block_N, head, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[b, i * block_N : (i + 1) * block_N, head, :], v)
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
            T.copy(o, Out[b, x * block_M : (x + 1) * block_M, head, :])

    return main
