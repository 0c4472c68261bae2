// Hopper's matrix instruction: a warp group of 128 threads multiplies tiles that lie in shared memory, and goes on
// before they are done. sm_90a. Like ptx.cuh, nothing but inline assembly.
#pragma once

#include "common/ptx.cuh"

namespace carver {

// What this thread wrote to shared memory, copies it has waited for included, becomes visible to the matrix unit. A
// barrier has to follow, since the tile is everybody's.
__device__ __forceinline__ void show_to_matrix_unit() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Between other uses of the sums and the first instruction that adds to them.
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Returns when at most PENDING of the newest groups of instructions are still at work.
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// The compiler sees no tie between a wait and the sums it waits for. This one keeps every use of them behind it.
template <int N> __device__ __forceinline__ void wgmma_done(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> __device__ __forceinline__ void wgmma_done(int (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// Where an operand lies whose rows of `row_bytes` (128 or 64) have their 16-byte chunks exchanged, in patterns of 8 rows.
// `along`: bytes to the next eight rows. `across`, of an operand with rows of k: bytes to its next 128 bytes of m or n.
// Source: PTX ISA 9.0, asynchronous warpgroup-level matrix shared memory layout.
struct Descriptor {
    unsigned low, high;
    __device__ __forceinline__ Descriptor(unsigned shared, int row_bytes, int across, int along)
        : low((shared & 0x3ffff) >> 4 | static_cast<unsigned>(across >> 4) << 16),
          high(static_cast<unsigned>(along >> 4) | (row_bytes == 128 ? 1u : 2u) << 30) {}
    __device__ __forceinline__ unsigned long long at(int bytes) const {
        return static_cast<unsigned long long>(high) << 32 | (low + static_cast<unsigned>(bytes >> 4));
    }
};

#define CARVER_D16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CARVER_D32 CARVER_D16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CARVER_D40 CARVER_D32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define CARVER_D48 CARVER_D40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define CARVER_D56 CARVER_D48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define CARVER_D64 CARVER_D56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define CARVER_D72 CARVER_D64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define CARVER_D80 CARVER_D72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define CARVER_D88 CARVER_D80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define CARVER_D96 CARVER_D88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define CARVER_D104 CARVER_D96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define CARVER_D112 CARVER_D104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define CARVER_D120 CARVER_D112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define CARVER_D128 CARVER_D120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define CARVER_4(C, i) "+" C(d[i]), "+" C(d[i + 1]), "+" C(d[i + 2]), "+" C(d[i + 3])
#define CARVER_8(C, i) CARVER_4(C, i), CARVER_4(C, i + 4)
#define CARVER_16(C, i) CARVER_8(C, i), CARVER_8(C, i + 8)
#define CARVER_32(C, i) CARVER_16(C, i), CARVER_16(C, i + 16)
#define CARVER_40(C, i) CARVER_32(C, i), CARVER_8(C, i + 32)
#define CARVER_48(C, i) CARVER_40(C, i), CARVER_8(C, i + 40)
#define CARVER_56(C, i) CARVER_48(C, i), CARVER_8(C, i + 48)
#define CARVER_64(C, i) CARVER_56(C, i), CARVER_8(C, i + 56)
#define CARVER_72(C, i) CARVER_64(C, i), CARVER_8(C, i + 64)
#define CARVER_80(C, i) CARVER_72(C, i), CARVER_8(C, i + 72)
#define CARVER_88(C, i) CARVER_80(C, i), CARVER_8(C, i + 80)
#define CARVER_96(C, i) CARVER_88(C, i), CARVER_8(C, i + 88)
#define CARVER_104(C, i) CARVER_96(C, i), CARVER_8(C, i + 96)
#define CARVER_112(C, i) CARVER_104(C, i), CARVER_8(C, i + 104)
#define CARVER_120(C, i) CARVER_112(C, i), CARVER_8(C, i + 112)
#define CARVER_128(C, i) CARVER_120(C, i), CARVER_8(C, i + 120)

// d += a * b, 64 rows by COLUMNS, 32 bytes of k. Thread t of the group has d[4 j + 2 o + i] at row 16 (t / 32) + 8 o +
// t % 32 / 4 and column 8 j + 2 (t % 4) + i. What the instructions take behind the operands: whether to add to d, two
// signs, and which operands are contiguous along m or n.
#define CARVER_WGMMA_N(N, COUNT, A, B, KIND, C, TAIL)                                                                  \
    if constexpr (COLUMNS == N)                                                                                        \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N KIND " {" CARVER_D##COUNT "}, %" #A ", %" #B TAIL ";"      \
                     : CARVER_##COUNT(C, 0)                                                                            \
                     : "l"(a), "l"(b), "n"(M_CONTIGUOUS), "n"(N_CONTIGUOUS));
#define CARVER_WGMMA(NAME, KIND, D, C, TAIL)                                                                           \
    template <int COLUMNS, bool M_CONTIGUOUS, bool N_CONTIGUOUS>                                                       \
    __device__ __forceinline__ void NAME(D(&d)[COLUMNS / 2], unsigned long long a, unsigned long long b) {             \
        static_assert(COLUMNS % 16 == 0 && COLUMNS >= 64 && COLUMNS <= 256, "no form of this width");                  \
        CARVER_WGMMA_N(64, 32, 32, 33, KIND, C, TAIL(34, 35))                                                          \
        CARVER_WGMMA_N(80, 40, 40, 41, KIND, C, TAIL(42, 43))                                                          \
        CARVER_WGMMA_N(96, 48, 48, 49, KIND, C, TAIL(50, 51))                                                          \
        CARVER_WGMMA_N(112, 56, 56, 57, KIND, C, TAIL(58, 59))                                                         \
        CARVER_WGMMA_N(128, 64, 64, 65, KIND, C, TAIL(66, 67))                                                         \
        CARVER_WGMMA_N(144, 72, 72, 73, KIND, C, TAIL(74, 75))                                                         \
        CARVER_WGMMA_N(160, 80, 80, 81, KIND, C, TAIL(82, 83))                                                         \
        CARVER_WGMMA_N(176, 88, 88, 89, KIND, C, TAIL(90, 91))                                                         \
        CARVER_WGMMA_N(192, 96, 96, 97, KIND, C, TAIL(98, 99))                                                         \
        CARVER_WGMMA_N(208, 104, 104, 105, KIND, C, TAIL(106, 107))                                                    \
        CARVER_WGMMA_N(224, 112, 112, 113, KIND, C, TAIL(114, 115))                                                    \
        CARVER_WGMMA_N(240, 120, 120, 121, KIND, C, TAIL(122, 123))                                                    \
        CARVER_WGMMA_N(256, 128, 128, 129, KIND, C, TAIL(130, 131))                                                    \
    }
#define CARVER_TRANSPOSABLE(M, N) ", 1, 1, 1, %" #M ", %" #N
#define CARVER_SIGNED(M, N) ", 1, 1, 1"
#define CARVER_PLAIN(M, N) ", 1"
CARVER_WGMMA(wgmma_f16, "k16.f32.f16.f16", float, "f", CARVER_TRANSPOSABLE)
CARVER_WGMMA(wgmma_bf16, "k16.f32.bf16.bf16", float, "f", CARVER_TRANSPOSABLE)
CARVER_WGMMA(wgmma_tf32, "k8.f32.tf32.tf32", float, "f", CARVER_SIGNED)
CARVER_WGMMA(wgmma_e4m3_e4m3, "k32.f32.e4m3.e4m3", float, "f", CARVER_SIGNED)
CARVER_WGMMA(wgmma_e4m3_e5m2, "k32.f32.e4m3.e5m2", float, "f", CARVER_SIGNED)
CARVER_WGMMA(wgmma_e5m2_e4m3, "k32.f32.e5m2.e4m3", float, "f", CARVER_SIGNED)
CARVER_WGMMA(wgmma_e5m2_e5m2, "k32.f32.e5m2.e5m2", float, "f", CARVER_SIGNED)
CARVER_WGMMA(wgmma_i8, "k32.s32.s8.s8", int, "r", CARVER_PLAIN)

}  // namespace carver
