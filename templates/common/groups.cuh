// What the matmul kernels with wgmma share: how operands lie in shared memory, which rows and columns of a tile a warp
// group multiplies, and how its sums leave.
#pragma once

#ifndef A_DTYPE
#define A_DTYPE 3
#endif
#ifndef B_DTYPE
#define B_DTYPE A_DTYPE
#endif
#ifndef C_DTYPE
#define C_DTYPE A_DTYPE
#endif
#ifndef ACC_DTYPE
#define ACC_DTYPE (A_DTYPE == 7 ? 8 : 1)
#endif
#ifndef BLOCK_K
#define BLOCK_K 64
#endif
#ifndef WARPS
#define WARPS 4
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef ALTERNATE
#define ALTERNATE 0
#endif
#ifndef PACK_A
#define PACK_A 0  // rows of k of A are there, in a copy
#endif
#ifndef PACK_B
#define PACK_B 0
#endif

#include "common/matmul.cuh"
#include "common/store.cuh"
#include "common/wgmma.cuh"

namespace carver {

constexpr int kElement = sizeof(A::type);
constexpr bool kRowsA = PACK_A || !TRANS_A, kRowsB = PACK_B || TRANS_B;  // an operand whose rows are contiguous along k
constexpr int kGroups = WARPS / 4;  // of four warps
constexpr int kSharing = ALTERNATE ? 1 : kGroups;  // groups that share a tile
constexpr int kGroupsM = least(kSharing, BLOCK_M / 64), kGroupsN = kSharing / kGroupsM;
constexpr int kGroupM = BLOCK_M / kGroupsM, kGroupN = BLOCK_N / kGroupsN;  // what one group computes
constexpr int kTiles = kGroupM / 64;
constexpr int kInstructionBytes = 32;
constexpr int kSteps = BLOCK_K * kElement / kInstructionBytes;

static_assert(A_DTYPE != CARVER_F64 && A_DTYPE != CARVER_F32 && A_DTYPE != CARVER_I32, "no wgmma takes the type");
constexpr bool kFloat8 = A_DTYPE == CARVER_F8E4M3 || A_DTYPE == CARVER_F8E5M2;
static_assert(A_DTYPE == B_DTYPE || (kFloat8 && (B_DTYPE == CARVER_F8E4M3 || B_DTYPE == CARVER_F8E5M2)),
              "A and B must have one type, or both be 8-bit floats");
static_assert(ACC_DTYPE == (A_DTYPE == CARVER_I8 ? CARVER_I32 : CARVER_F32), "sums are float32, or int32 of int8");
static_assert(kElement == 2 || (kRowsA && kRowsB), "elements of other than 2 bytes must be contiguous along k");
static_assert((PACK_A || ALIGN_A >= 16) && (PACK_B || ALIGN_B >= 16), "rows of A and B start on multiples of 16 bytes");
static_assert(WARPS == 4 || WARPS == 8, "one or two groups of four warps");
static_assert(BLOCK_M % (64 * kGroupsM) == 0, "a warp group has 64 rows, or a multiple");
static_assert(kGroupN % 16 == 0 && kGroupN >= 64 && kGroupN <= 256, "a warp group has 64 to 256 columns, a multiple of 16");
static_assert(BLOCK_K * kElement == 64 || BLOCK_K * kElement % 128 == 0, "block_k is 64 bytes, or a multiple of 128");
static_assert(STAGES >= 2, "one step arrives while another is multiplied");

// One operand in shared memory. BLOCK counts elements of m or n. Its rows are m or n if K_CONTIGUOUS, else k. They are cut
// into panels of kRowBytes, within which 16-byte chunks are permuted by exclusive or with the row's number.
template <int BLOCK, bool K_CONTIGUOUS> struct Layout {
    static constexpr int kRows = K_CONTIGUOUS ? BLOCK : BLOCK_K;
    static constexpr int kBytes = (K_CONTIGUOUS ? BLOCK_K : BLOCK) * kElement;
    static constexpr int kRowBytes = least(128, kBytes);
    static_assert(kBytes % kRowBytes == 0, "a row of the operand is whole rows of panels");
    static constexpr int kPanelBytes = kRows * kRowBytes;
    static constexpr int kStageBytes = kRows * kBytes;

    static __device__ __forceinline__ Descriptor descriptor(unsigned stage) {
        return {stage, kRowBytes, K_CONTIGUOUS ? 16 : kPanelBytes, 8 * kRowBytes};
    }
    // Bytes from a stage to the operand of one instruction that starts at element `first` of m or n.
    static __device__ __forceinline__ int offset(int first, int step) {
        if constexpr (!K_CONTIGUOUS) return first * kElement / kRowBytes * kPanelBytes + step * 16 * kRowBytes;
        const int byte = step * kInstructionBytes;
        return byte / kRowBytes * kPanelBytes + first * kRowBytes + byte % kRowBytes;
    }
};

using LayoutA = Layout<BLOCK_M, kRowsA>;
using LayoutB = Layout<BLOCK_N, kRowsB>;
using Sums = Sum[kTiles][kGroupN / 2];
constexpr int kStageBytes = LayoutA::kStageBytes + LayoutB::kStageBytes;

template <typename D>
__device__ __forceinline__ void multiply(D (&sums)[kGroupN / 2], unsigned long long a, unsigned long long b) {
    constexpr bool kM = !kRowsA, kN = !kRowsB, kWide = A_DTYPE == CARVER_F8E5M2, kWideB = B_DTYPE == CARVER_F8E5M2;
    if constexpr (A_DTYPE == CARVER_F16) wgmma_f16<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (A_DTYPE == CARVER_BF16) wgmma_bf16<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (A_DTYPE == CARVER_TF32) wgmma_tf32<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (A_DTYPE == CARVER_I8) wgmma_i8<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (!kWide && !kWideB) wgmma_e4m3_e4m3<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (!kWide) wgmma_e4m3_e5m2<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (!kWideB) wgmma_e5m2_e4m3<kGroupN, kM, kN>(sums, a, b);
    else wgmma_e5m2_e5m2<kGroupN, kM, kN>(sums, a, b);
}

// The products of one stage, queued.
__device__ __forceinline__ void multiply_stage(Sums &sums, const Descriptor &from_a, const Descriptor &from_b, int stage) {
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
            multiply(sums[tile], from_a.at(stage + LayoutA::offset(64 * tile, step)), from_b.at(stage + LayoutB::offset(0, step)));
    wgmma_commit();
}

constexpr int kSlabColumns = 64, kLastColumns = kGroupN % 64 ? kGroupN % 64 : 64;  // of a row that are stored at a time, and last
constexpr int kSlabBytes = SPLIT_K > 1 ? 0 : Slab<kSlabColumns>::kBytes;

// Writes a group's sums, whose first stands at (m0, n0) of the output. `slabs`: one a warp, which nobody else uses. A warp
// has 16 of each 64 rows; its thread's sums are pairs in rows 8 apart, 8 columns further each time.
__device__ __forceinline__ void write_sums(Sums &sums, unsigned char *slabs, const C::type *bias, C::type *c, Sum *workspace, const Work &work,
                                           i64 m0, i64 n0, i64 m, i64 n, i64 batches, i64 ldc) {
    const int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    m0 += warp % 4 * 16;
    if constexpr (SPLIT_K > 1) {
        Sum *const partial = workspace + (work.split * batches + work.batch) * m * n;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int i = 0; i < kGroupN / 2; i += 2) {
                const i64 at = m0 + 64 * tile + row + i % 4 * 4;
                put_partial(partial, at, n0 + i / 4 * 8 + column, sums[tile][i], sums[tile][i + 1], m, n);
            }
    } else {
        const Slab<kSlabColumns> slab = {slabs + warp * kSlabBytes};
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int first = 0; first < kGroupN; first += kSlabColumns) {
#pragma unroll
                for (int i = 0; i < kSlabColumns / 2 && first + 2 * i < kGroupN; i += 2) {
                    const Sum one = sums[tile][first / 2 + i], next = sums[tile][first / 2 + i + 1];
                    slab.put(row + i % 4 * 4, i / 4 * 8 + column, one, next, bias, n0 + first, n);
                }
                C::type *const to = c + work.batch * m * ldc;
                if (first + kSlabColumns <= kGroupN) slab.write(to, m0 + 64 * tile, n0 + first, m, n, ldc);
                else slab.write<kLastColumns>(to, m0 + 64 * tile, n0 + first, m, n, ldc);
            }
    }
}

}  // namespace carver
