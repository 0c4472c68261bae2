// How a warp's sums leave registers. Two sums that stand side by side in a row are a pair.
#pragma once

#include "common/matmul.cuh"

namespace carver {

// Sixteen rows of COLUMNS results in shared memory, so that a warp's stores are whole vectors of a row. The padding of a
// row puts the pairs that eight rows write at once into different banks.
template <int COLUMNS> struct Slab {
    static constexpr int kOut = sizeof(C::type);
    static constexpr int kRowBytes = COLUMNS * kOut + most(16, 8 * kOut);
    static constexpr int kBytes = 16 * kRowBytes;
    unsigned char *slab;

    // `n0`: the column of the output that the slab's first one is.
    __device__ __forceinline__ void put(int row, int column, Sum first, Sum second, const C::type *bias, i64 n0,
                                        i64 n) const {
        const i64 at = n0 + column;
        *reinterpret_cast<Vector<C::type, 2> *>(slab + row * kRowBytes + column * kOut) = {
            {finish<C>(first, bias, least(at, n - 1)), finish<C>(second, bias, least(at + 1, n - 1))}};
    }

    // The first USED columns of each row.
    template <int USED = COLUMNS> __device__ __forceinline__ void write(C::type *c, i64 m0, i64 n0, i64 m, i64 n, i64 ldc) const {
        constexpr int kVector = most(1, least(16, ALIGN_C) / kOut);
        constexpr int kPerRow = USED / kVector;
        const int lane = threadIdx.x % 32;
        __syncwarp();
#pragma unroll
        for (int trip = 0; trip < ceil_div(16 * kPerRow, 32); ++trip) {
            const int place = lane + trip * 32, row = place / kPerRow, column = place % kPerRow * kVector;
            if (16 * kPerRow % 32 != 0 && place >= 16 * kPerRow) break;
            const i64 left = n - (n0 + column);
            if (m0 + row >= m || left <= 0) continue;
            const C::type *from = reinterpret_cast<const C::type *>(slab + row * kRowBytes) + column;
            C::type *to = c + (m0 + row) * ldc + n0 + column;
            if (left >= kVector)
                store_vector<kVector>(to, load_vector<kVector>(from));
            else
#pragma unroll 1
                for (int e = 0; e < left; ++e) to[e] = from[e];
        }
        __syncwarp();
    }
};

// A pair of one slice of a split reduction.
__device__ __forceinline__ void put_partial(Sum *partial, i64 row, i64 column, Sum first, Sum second, i64 m, i64 n) {
    if (row >= m || column >= n) return;
    Sum *to = partial + row * n + column;
    if (n % 2 == 0) {
        store_vector<2>(to, Vector<Sum, 2>{{first, second}});
    } else {
        to[0] = first;
        if (column + 1 < n) to[1] = second;
    }
}

}  // namespace carver
