"""TileLang: C = A B^T, lazily and eagerly built, and a program with a size that it leaves open."""

import tilelang
import tilelang.language as T

LISTED = [{"block": (128, 128, 64), "stages": 3}, {"block": (64, 128, 32), "stages": 2}]


def gemm(M, N, K, block, stages, threads=128):
    rows, cols, depth = block

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, cols), T.ceildiv(M, rows), threads=threads) as (x, y):
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((cols, depth), "float16")
            c = T.alloc_fragment((rows, cols), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=stages):
                T.copy(A[y * rows, k * depth], a)
                T.copy(B[x * cols, k * depth], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[y * rows, x * cols])

    return main


lazy = tilelang.jit(gemm)
tuned = tilelang.autotune(configs=LISTED)(tilelang.jit(gemm))


@tilelang.jit
def doubled(A, B, block: int = 256):
    M, N = T.const("M N")
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[M, N], T.float32]
    with T.Kernel(T.ceildiv(N, block), M, threads=128) as (x, y):
        for i in T.Parallel(block):
            B[y, x * block + i] = A[y, x * block + i] * 2.0


def open_sizes(block):
    M = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((M, 1024), "float32"), B: T.Tensor((M, 1024), "float32")):
        with T.Kernel(1024 // block, M, threads=128) as (x, y):
            for i in T.Parallel(block):
                B[y, x * block + i] = A[y, x * block + i] + 1.0

    return main
