// The instructions that CUDA C++ has no function for. Inline assembly is here, and in wgmma.cuh.
#pragma once

namespace carver {

__device__ __forceinline__ unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Whether there is cp.async. Without it what goes from global to shared memory passes registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool kAsyncCopy = false;
#else
constexpr bool kAsyncCopy = true;
#endif

// From here on the compiler cannot see where the pointer comes from. nvcc 13.0 moves the last additions of a pass of a loop
// behind it, once for the next pass and once for the end, and may take the former's register at the end.
template <typename T> __device__ __forceinline__ void hide(T *&pointer) { asm volatile("" : "+l"(pointer)); }

// Starts to copy BYTES from global to shared memory. The 16-byte form goes past L1: a block reads a tile once.
template <int BYTES> __device__ __forceinline__ void copy_async(unsigned shared, const void *global) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(global), "n"(BYTES));
}

// The same for `valid` bytes; the rest of BYTES becomes zero.
template <int BYTES>
__device__ __forceinline__ void copy_async(unsigned shared, const void *global, int valid) {
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(valid));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global), "n"(BYTES), "r"(valid));
}

// Without cp.async no group is ever in flight.
__device__ __forceinline__ void copy_async_commit() {
    if constexpr (kAsyncCopy) asm volatile("cp.async.commit_group;" ::);
}

// Returns when at most PENDING of the newest groups are still in flight.
template <int PENDING> __device__ __forceinline__ void copy_async_wait() {
    if constexpr (kAsyncCopy) asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ void store_shared_8(unsigned shared, unsigned char value) {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(shared), "r"(static_cast<unsigned>(value)) : "memory");
}
__device__ __forceinline__ void store_shared_16(unsigned shared, unsigned short value) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(shared), "h"(value) : "memory");
}
__device__ __forceinline__ unsigned load_shared_32(unsigned shared) {
    unsigned value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(shared));
    return value;
}
__device__ __forceinline__ void load_shared_64(unsigned &low, unsigned &high, unsigned shared) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(shared));
}

__device__ __forceinline__ void store_shared(unsigned shared, const unsigned (&words)[1]) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(words[0]) : "memory");
}
__device__ __forceinline__ void store_shared(unsigned shared, const unsigned (&words)[2]) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(words[0]), "r"(words[1]) : "memory");
}
__device__ __forceinline__ void store_shared(unsigned shared, const unsigned (&words)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// One store of N words, which start on a multiple of their bytes. Compilers take a store of narrow elements apart.
__device__ __forceinline__ void store_global(void *global, const unsigned (&words)[1]) {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(global), "r"(words[0]) : "memory");
}
__device__ __forceinline__ void store_global(void *global, const unsigned (&words)[2]) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(global), "r"(words[0]), "r"(words[1]) : "memory");
}
__device__ __forceinline__ void store_global(void *global, const unsigned (&words)[4]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// Four 8 x 8 matrices of 16-bit elements; lanes 8 j .. 8 j + 7 give the row addresses of matrix j, which goes to r[j].
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared));
}
__device__ __forceinline__ void load_matrices_transposed(unsigned (&r)[4], unsigned shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared));
}

// d += a * b on the matrix unit, one 16 x 8 tile a warp, 32 bytes of k. a in row order, b in column order.
#define CARVER_MMA(NAME, SHAPE, ACC, TYPES, D, CONSTRAINT)                                                             \
    __device__ __forceinline__ void NAME(D(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2]) {                     \
        asm volatile("mma.sync.aligned." SHAPE ".row.col." ACC "." TYPES "." ACC                                       \
                     " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                \
                     : "+" CONSTRAINT(d[0]), "+" CONSTRAINT(d[1]), "+" CONSTRAINT(d[2]), "+" CONSTRAINT(d[3])          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
    }
CARVER_MMA(mma_bf16, "m16n8k16", "f32", "bf16.bf16", float, "f")
CARVER_MMA(mma_tf32, "m16n8k8", "f32", "tf32.tf32", float, "f")
CARVER_MMA(mma_e4m3_e4m3, "m16n8k32", "f32", "e4m3.e4m3", float, "f")
CARVER_MMA(mma_e4m3_e5m2, "m16n8k32", "f32", "e4m3.e5m2", float, "f")
CARVER_MMA(mma_e5m2_e4m3, "m16n8k32", "f32", "e5m2.e4m3", float, "f")
CARVER_MMA(mma_e5m2_e5m2, "m16n8k32", "f32", "e5m2.e5m2", float, "f")
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
CARVER_MMA(mma_f16, "m16n8k16", "f32", "f16.f16", float, "f")
CARVER_MMA(mma_i8, "m16n8k32", "s32", "s8.s8", int, "r")

// The same with two half-precision sums a register.
__device__ __forceinline__ void mma_f16_half(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else  // sm_75: instructions of 16 bytes of k, and for integers of 8 rows. The operands lie in registers as they do above.
__device__ __forceinline__ void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
}
__device__ __forceinline__ void mma_f16_half(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                     : "+r"(d[0]), "+r"(d[1])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
}
__device__ __forceinline__ void mma_i8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int row = 0; row < 2; ++row)
            asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                         : "+r"(d[2 * row]), "+r"(d[2 * row + 1])
                         : "r"(a[2 * half + row]), "r"(b[half]));
}
#endif
#undef CARVER_MMA

// sm_80 has the instruction for 8 rows only.
__device__ __forceinline__ void mma_f64(double (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    const double column = __hiloint2double(b[1], b[0]), above = __hiloint2double(a[1], a[0]), below = __hiloint2double(a[3], a[2]);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    const double rows[2] = {above, below};
#pragma unroll
    for (int row = 0; row < 2; ++row)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(d[2 * row]), "+d"(d[2 * row + 1])
                     : "d"(rows[row]), "d"(column));
#else
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(above), "d"(below), "d"(column));
#endif
}

__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Two at a time, the first in the low bits: that saves taking the pair apart and putting it together.
__device__ __forceinline__ void halves_to_floats(unsigned pair, float &first, float &second) {
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
        : "=f"(first), "=f"(second)
        : "r"(pair));
}
__device__ __forceinline__ unsigned floats_to_halves(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(first), "f"(second));
    return pair;
#else
    return float_to_half(first) | static_cast<unsigned>(float_to_half(second)) << 16;
#endif
}

// 2 to the power of x; below 2^-126 nothing is left.
__device__ __forceinline__ float power_of_two(float x) {
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}

// Nearest tf32, ties away from zero. The matrix unit would cut the low bits off, which biases every product towards zero.
__device__ __forceinline__ unsigned float_to_tf32(unsigned bits) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
}

__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // NaN: rounding could carry into infinity
    return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
__device__ __forceinline__ unsigned floats_to_bfloats(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(first), "f"(second));
    return pair;
#else
    return float_to_bfloat(first) | static_cast<unsigned>(float_to_bfloat(second)) << 16;
#endif
}

}  // namespace carver
