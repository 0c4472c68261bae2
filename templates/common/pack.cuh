// Operands copied into rows of k before they are multiplied, for instructions that take them no other way.
#pragma once

#include "common/matmul.cuh"

#ifndef PACK_A
#define PACK_A 0
#endif
#ifndef PACK_B
#define PACK_B 0
#endif

namespace carver {

// Where the copies lie in the workspace: behind partial sums, everything on a multiple of 128 bytes.
struct Packed {
    static constexpr int kAlign = 128;
    i64 leading, a, b;  // elements from one row of k to the next; bytes from the start
    static __device__ __forceinline__ i64 rounded(i64 bytes) { return ceil_div<i64>(bytes, kAlign) * kAlign; }
    __device__ __forceinline__ Packed(i64 m, i64 n, i64 k, i64 batches)
        : leading(rounded(k * static_cast<i64>(sizeof(A::type))) / static_cast<i64>(sizeof(A::type))),
          a(SPLIT_K > 1 ? rounded(SPLIT_K * batches * m * n * static_cast<i64>(sizeof(Sum))) : 0),
          b(a + (PACK_A ? batches * m * leading * static_cast<i64>(sizeof(A::type)) : 0)) {}
    template <typename T> static __device__ __forceinline__ T *at(Sum *workspace, i64 bytes) {
        return reinterpret_cast<T *>(reinterpret_cast<char *>(workspace) + bytes);
    }
};

constexpr int kPackTile = 64, kPackThreads = 256;

#if PACK_A || PACK_B
// What the matrix unit would cut is rounded on the way.
template <typename T> __device__ __forceinline__ T packed_element(T value) {
    if constexpr (A_DTYPE == CARVER_TF32) value = __uint_as_float(float_to_tf32(__float_as_uint(value)));
    return value;
}

// Turns k rows of `size` elements into `size` rows of k; a block takes kPackTile of both. Beyond k a row has zeros.
template <typename T> __device__ __forceinline__ void pack(const T *from, T *to, i64 size, i64 k, i64 leading, i64 packed) {
    constexpr int kVector = 16 / sizeof(T), kPerRow = kPackTile / kVector;
    __shared__ T tile[kPackTile][kPackTile + 4 / sizeof(T)];  // rows start in different banks
    const unsigned across = static_cast<unsigned>(ceil_div<i64>(packed, kPackTile)), down = static_cast<unsigned>(ceil_div<i64>(size, kPackTile));
    const i64 batch = blockIdx.x / (across * down), first = static_cast<i64>(blockIdx.x / across % down) * kPackTile;
    const i64 k0 = static_cast<i64>(blockIdx.x % across) * kPackTile;
    from += (batch * k + k0) * leading + first, to += (batch * size + first) * packed + k0;
#pragma unroll
    for (int row = threadIdx.x / 32; row < kPackTile; row += kPackThreads / 32)
#pragma unroll
        for (int column = threadIdx.x % 32; column < kPackTile; column += 32)
            tile[row][column] = k0 + row < k && first + column < size ? from[row * leading + column] : T{};
    __syncthreads();
#pragma unroll
    for (int at = threadIdx.x; at < kPackTile * kPerRow; at += kPackThreads) {
        const int row = at / kPerRow, column = at % kPerRow * kVector;
        if (first + row >= size || k0 + column >= packed) continue;
        Vector<T, kVector> out;
#pragma unroll
        for (int e = 0; e < kVector; ++e) out.at[e] = packed_element(tile[column + e][row]);
        store_vector<kVector>(to + row * packed + column, out);
    }
}
#endif

}  // namespace carver

#if PACK_A
extern "C" __global__ void __launch_bounds__(carver::kPackThreads)
carver_pack_a(const carver::A::type *__restrict__ a, carver::Sum *__restrict__ workspace, carver::i64 m, carver::i64 n, carver::i64 k,
              carver::i64 batches, carver::i64 lda) {
    const carver::Packed packed(m, n, k, batches);
    carver::pack(a, carver::Packed::at<carver::A::type>(workspace, packed.a), m, k, lda, packed.leading);
}
#endif
#if PACK_B
extern "C" __global__ void __launch_bounds__(carver::kPackThreads)
carver_pack_b(const carver::B::type *__restrict__ b, carver::Sum *__restrict__ workspace, carver::i64 m, carver::i64 n, carver::i64 k,
              carver::i64 batches, carver::i64 ldb) {
    const carver::Packed packed(m, n, k, batches);
    carver::pack(b, carver::Packed::at<carver::B::type>(workspace, packed.b), n, k, ldb, packed.leading);
}
#endif
