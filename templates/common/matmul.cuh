// What the matmul kernels share: which tile a block computes, the epilogue, and the second launch of split-K.
#pragma once

#include "common/epilogue.cuh"

#ifndef BLOCK_M
#define BLOCK_M 128
#endif
#ifndef BLOCK_N
#define BLOCK_N 128
#endif
#ifndef BLOCK_K
#define BLOCK_K 32
#endif
#ifndef GROUP_M
#define GROUP_M 8
#endif
#ifndef SPLIT_K
#define SPLIT_K 1
#endif
#ifndef TRANS_A
#define TRANS_A 0
#endif
#ifndef TRANS_B
#define TRANS_B 0
#endif
#ifndef ALIGN_A
#define ALIGN_A 16
#endif
#ifndef ALIGN_B
#define ALIGN_B 16
#endif
#ifndef ALIGN_C
#define ALIGN_C 16
#endif

namespace carver {

using A = Element<A_DTYPE>;
using B = Element<B_DTYPE>;
using C = Element<C_DTYPE>;
using Sum = A::sum;
static_assert(sizeof(A::type) == sizeof(B::type), "A and B must have elements of one width");
static_assert(is_integer<A::sum>() == is_integer<B::sum>(), "A and B must be both floating point or both integer");

// The work of one block: `steps` trips of BLOCK_K from element k0 on, for the tile at (m0, n0) of one batch element.
struct Work {
    i64 batch, m0, n0, k0;
    int split, steps;
};

// Tiles of HEIGHT rows are numbered in columns of GROUP_M of them, so that blocks which run together share rows of A and
// columns of B in L2; then come the slices of k, then the batch.
template <int HEIGHT> __device__ __forceinline__ Work work_of(unsigned index, i64 m, i64 n, i64 k) {
    const unsigned rows = static_cast<unsigned>(ceil_div(m, HEIGHT)), columns = static_cast<unsigned>(ceil_div(n, BLOCK_N));
    const unsigned slice = index / (rows * columns), tile = index - slice * (rows * columns);
    const unsigned group = least<unsigned>(GROUP_M, rows) * columns;
    const unsigned first = tile / group * GROUP_M, within = tile % group;
    const unsigned height = least<unsigned>(GROUP_M, rows - first);
    const i64 all_steps = ceil_div(k, BLOCK_K), split_steps = ceil_div(all_steps, SPLIT_K);
    const unsigned split = slice % SPLIT_K;
    const i64 steps = least(split_steps, all_steps - split * split_steps);
    return {slice / SPLIT_K, static_cast<i64>(first + within % height) * HEIGHT, static_cast<i64>(within / height) * BLOCK_N,
            split * split_steps * BLOCK_K, static_cast<int>(split), static_cast<int>(most<i64>(steps, 0))};
}
__device__ __forceinline__ Work work_of_block(i64 m, i64 n, i64 k) { return work_of<BLOCK_M>(blockIdx.x, m, n, k); }

constexpr int kReduceThreads = 256;
constexpr int kReduceVector = 4;

// Adds the SPLIT_K partial products in a fixed order, one vector of a row a thread: the same bits every time.
template <int VECTOR>
__device__ __forceinline__ void reduce_splits(const Sum *partial, const C::type *bias, C::type *c, i64 m, i64 n, i64 b, i64 ldc) {
    const i64 index = (static_cast<i64>(blockIdx.x) * kReduceThreads + threadIdx.x) * VECTOR, total = b * m * n;
    if (index >= total) return;
    Vector<Sum, VECTOR> sum = load_vector<VECTOR>(partial + index);
#pragma unroll
    for (int split = 1; split < SPLIT_K; ++split) {
        const Vector<Sum, VECTOR> more = load_vector<VECTOR>(partial + split * total + index);
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) sum.at[i] += more.at[i];
    }
    const i64 row = total <= 0xffffffff ? static_cast<unsigned>(index) / static_cast<unsigned>(n) : index / n;
    const i64 column = index - row * n;
    Vector<C::type, VECTOR> out;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) out.at[i] = finish<C>(sum.at[i], bias, column + i);
    store_aligned<VECTOR, ALIGN_C>(c + row * ldc + column, out);
}

}  // namespace carver

extern "C" __global__ void __launch_bounds__(carver::kReduceThreads)
carver_matmul_reduce(const carver::Sum *__restrict__ workspace, const carver::C::type *__restrict__ bias,
                     carver::C::type *__restrict__ c, carver::i64 m, carver::i64 n, carver::i64 b, carver::i64 ldc) {
    using namespace carver;
    if (n % kReduceVector == 0)
        reduce_splits<kReduceVector>(workspace, bias, c, m, n, b, ldc);
    else
        reduce_splits<1>(workspace, bias, c, m, n, b, ldc);
}
