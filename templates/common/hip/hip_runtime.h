// What HIP's runtime header declares for device code, for compilers that come without ROCm: clang 17 and later.
// Only what kernels commonly use. With ROCm installed its own header is included, and not this one.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
// Threads of a block at most, and waves of a SIMD at least: registers follow from them. clang's own attribute is NVIDIA's.
#define CARVER_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define CARVER_BOUNDS_2(threads, waves) __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#define CARVER_BOUNDS(one, two, chosen, ...) chosen
#define __launch_bounds__(...) CARVER_BOUNDS(__VA_ARGS__, CARVER_BOUNDS_2, CARVER_BOUNDS_1, )(__VA_ARGS__)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

struct dim3 {
    uint x, y, z;
};

// Places and sizes are properties: reading one is the compiler's builtin.
#define CARVER_AXIS(axis, builtin)                                                \
    __declspec(property(get = get_##axis)) uint axis;                             \
    __device__ __forceinline__ uint get_##axis() const { return builtin##axis(); }
#define CARVER_AXES(name, builtin)                                                \
    struct carver_##name {                                                        \
        CARVER_AXIS(x, builtin) CARVER_AXIS(y, builtin) CARVER_AXIS(z, builtin)   \
    };                                                                            \
    extern const __device__ __attribute__((weak)) carver_##name name;
#define carver_blocks_x() (__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x())
#define carver_blocks_y() (__builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y())
#define carver_blocks_z() (__builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z())
CARVER_AXES(threadIdx, __builtin_amdgcn_workitem_id_)
CARVER_AXES(blockIdx, __builtin_amdgcn_workgroup_id_)
CARVER_AXES(blockDim, __builtin_amdgcn_workgroup_size_)
CARVER_AXES(gridDim, carver_blocks_)
#define warpSize __AMDGCN_WAVEFRONT_SIZE

__device__ __forceinline__ void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#define CARVER_VECTOR(type, name)                                                                      \
    struct __attribute__((aligned(2 * sizeof(type)))) name##2 { type x, y; };                          \
    struct name##3 { type x, y, z; };                                                                  \
    struct __attribute__((aligned(4 * sizeof(type)))) name##4 { type x, y, z, w; };                    \
    __host__ __device__ __forceinline__ name##2 make_##name##2(type x, type y) { return {x, y}; }      \
    __host__ __device__ __forceinline__ name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    __host__ __device__ __forceinline__ name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
CARVER_VECTOR(float, float)
CARVER_VECTOR(double, double)
CARVER_VECTOR(int, int)
CARVER_VECTOR(unsigned, uint)
CARVER_VECTOR(short, short)
CARVER_VECTOR(unsigned short, ushort)
CARVER_VECTOR(signed char, char)
CARVER_VECTOR(unsigned char, uchar)
typedef _Float16 half;
typedef _Float16 __half;
struct __attribute__((aligned(4))) half2 { half x, y; };
typedef half2 __half2;
__device__ __forceinline__ half2 make_half2(half x, half y) { return {x, y}; }
__device__ __forceinline__ half __float2half(float a) { return (half)a; }
__device__ __forceinline__ float __half2float(half a) { return (float)a; }
__device__ __forceinline__ half2 __floats2half2_rn(float a, float b) { return {(half)a, (half)b}; }
__device__ __forceinline__ half2 __float2half2_rn(float a) { return {(half)a, (half)a}; }
__device__ __forceinline__ float2 __half22float2(half2 a) { return {(float)a.x, (float)a.y}; }
__device__ __forceinline__ half2 __hadd2(half2 a, half2 b) { return {(half)(a.x + b.x), (half)(a.y + b.y)}; }
__device__ __forceinline__ half2 __hmul2(half2 a, half2 b) { return {(half)(a.x * b.x), (half)(a.y * b.y)}; }
__device__ __forceinline__ half2 __hfma2(half2 a, half2 b, half2 c) {
    return {(half)__builtin_fmaf16(a.x, b.x, c.x), (half)__builtin_fmaf16(a.y, b.y, c.y)};
}

#define CARVER_MATH1(name)                                                                       \
    __device__ __forceinline__ float name##f(float a) { return __builtin_##name##f(a); }        \
    __device__ __forceinline__ double name(double a) { return __builtin_##name(a); }            \
    __device__ __forceinline__ float name(float a) { return __builtin_##name##f(a); }
CARVER_MATH1(sqrt) CARVER_MATH1(fabs) CARVER_MATH1(floor) CARVER_MATH1(ceil) CARVER_MATH1(trunc) CARVER_MATH1(rint)
#define CARVER_MATH1F(name)                                                                      \
    __device__ __forceinline__ float name##f(float a) { return __builtin_##name##f(a); }        \
    __device__ __forceinline__ float __##name##f(float a) { return __builtin_##name##f(a); }
CARVER_MATH1F(exp) CARVER_MATH1F(log) CARVER_MATH1F(exp2) CARVER_MATH1F(log2) CARVER_MATH1F(sin) CARVER_MATH1F(cos)
__device__ __forceinline__ float rsqrtf(float a) { return __builtin_amdgcn_rsqf(a); }
__device__ __forceinline__ float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__device__ __forceinline__ double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__device__ __forceinline__ float fminf(float a, float b) { return __builtin_fminf(a, b); }
__device__ __forceinline__ float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
#define CARVER_LEAST(type)                                                              \
    __device__ __forceinline__ type min(type a, type b) { return b < a ? b : a; }      \
    __device__ __forceinline__ type max(type a, type b) { return a < b ? b : a; }
CARVER_LEAST(int) CARVER_LEAST(uint) CARVER_LEAST(long) CARVER_LEAST(unsigned long) CARVER_LEAST(float) CARVER_LEAST(double)
__device__ __forceinline__ int abs(int a) { return a < 0 ? -a : a; }
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
// AMD's device library is not there: these are plain formulas, some instructions shorter than its own.
__device__ __forceinline__ float __fdividef(float a, float b) { return a * __builtin_amdgcn_rcpf(b); }
__device__ __forceinline__ float __frcp_rn(float a) { return 1.0f / a; }
__device__ __forceinline__ float powf(float a, float b) { return __builtin_exp2f(b * __builtin_log2f(a)); }
__device__ __forceinline__ float __powf(float a, float b) { return powf(a, b); }
__device__ __forceinline__ float tanhf(float a) { return 1.0f - 2.0f / (1.0f + __builtin_expf(2.0f * a)); }
__device__ __forceinline__ float erff(float a) {
    float x = __builtin_fabsf(a), t = 1.0f / (1.0f + 0.3275911f * x);
    float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    return __builtin_copysignf(1.0f - p * __builtin_expf(-x * x), a);
}

template <typename T> struct carver_plain { typedef T type; };
#define CARVER_ATOMIC(name, fetch)                                                                             \
    template <typename T> __device__ __forceinline__ T name(T* at, typename carver_plain<T>::type value) {     \
        return __hip_atomic_##fetch(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                    \
    }
CARVER_ATOMIC(atomicAdd, fetch_add) CARVER_ATOMIC(atomicMax, fetch_max) CARVER_ATOMIC(atomicMin, fetch_min)
CARVER_ATOMIC(atomicAnd, fetch_and) CARVER_ATOMIC(atomicOr, fetch_or) CARVER_ATOMIC(atomicXor, fetch_xor)
CARVER_ATOMIC(atomicExch, exchange) CARVER_ATOMIC(unsafeAtomicAdd, fetch_add)
template <typename T> __device__ __forceinline__ T atomicSub(T* at, typename carver_plain<T>::type value) {
    return atomicAdd(at, -value);
}
template <typename T>
__device__ __forceinline__ T atomicCAS(T* at, typename carver_plain<T>::type old, typename carver_plain<T>::type value) {
    __hip_atomic_compare_exchange_strong(at, &old, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return old;
}
__device__ __forceinline__ void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__device__ __forceinline__ void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
template <typename T> __device__ __forceinline__ T __ldg(const T* at) { return *at; }

__device__ __forceinline__ uint __lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
__device__ __forceinline__ int __popc(uint a) { return __builtin_popcount(a); }
__device__ __forceinline__ int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
__device__ __forceinline__ int __clz(uint a) { return a ? __builtin_clz(a) : 32; }
__device__ __forceinline__ int __ffs(uint a) { return __builtin_ffs(a); }
__device__ __forceinline__ int __ffsll(unsigned long long a) { return __builtin_ffsll(a); }
__device__ __forceinline__ uint __brev(uint a) { return __builtin_bitreverse32(a); }
__device__ __forceinline__ int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
__device__ __forceinline__ uint __umulhi(uint a, uint b) { return (uint)((uint64_t)a * b >> 32); }
__device__ __forceinline__ float __int_as_float(int a) { return __builtin_bit_cast(float, a); }
__device__ __forceinline__ float __uint_as_float(uint a) { return __builtin_bit_cast(float, a); }
__device__ __forceinline__ int __float_as_int(float a) { return __builtin_bit_cast(int, a); }
__device__ __forceinline__ uint __float_as_uint(float a) { return __builtin_bit_cast(uint, a); }

#if __AMDGCN_WAVEFRONT_SIZE == 64
__device__ __forceinline__ unsigned long long __ballot(int holds) { return __builtin_amdgcn_ballot_w64(holds); }
#else
__device__ __forceinline__ unsigned long long __ballot(int holds) { return __builtin_amdgcn_ballot_w32(holds); }
#endif
__device__ __forceinline__ unsigned long long __activemask() { return __ballot(1); }
__device__ __forceinline__ int __any(int holds) { return __ballot(holds) != 0; }
__device__ __forceinline__ int __all(int holds) { return __ballot(holds) == __activemask(); }
__device__ __forceinline__ void __syncwarp() { __builtin_amdgcn_wave_barrier(); }

template <typename T> __device__ __forceinline__ T carver_from_lane(T value, uint lane) {
    constexpr int words = (sizeof(T) + 3) / 4;
    int held[words] = {};
    __builtin_memcpy(held, &value, sizeof(T));
    for (int i = 0; i < words; i++) held[i] = __builtin_amdgcn_ds_bpermute(lane << 2, held[i]);
    __builtin_memcpy(&value, held, sizeof(T));
    return value;
}
// Of lanes that lie in one group of `width`; another lane's value is the own one.
template <typename T> __device__ __forceinline__ T __shfl(T v, int lane, int width = warpSize) {
    return carver_from_lane(v, (lane & width - 1) + (__lane_id() & ~(width - 1)));
}
template <typename T> __device__ __forceinline__ T __shfl_up(T v, uint by, int width = warpSize) {
    int self = __lane_id(), at = self - (int)by;
    return carver_from_lane(v, at < (self & ~(width - 1)) ? self : at);
}
template <typename T> __device__ __forceinline__ T __shfl_down(T v, uint by, int width = warpSize) {
    int self = __lane_id(), at = self + by;
    return carver_from_lane(v, (self & width - 1) + (int)by >= width ? self : at);
}
template <typename T> __device__ __forceinline__ T __shfl_xor(T v, uint by, int width = warpSize) {
    int self = __lane_id(), at = self ^ by;
    return carver_from_lane(v, at >= ((self + width) & ~(width - 1)) ? self : at);
}
// As CUDA writes them, of which HIP takes the mask as given.
#define CARVER_SYNC(name) \
    template <typename T, typename... More> __device__ __forceinline__ T name##_sync(unsigned long long, T v, More... more) { return name(v, more...); }
CARVER_SYNC(__shfl) CARVER_SYNC(__shfl_up) CARVER_SYNC(__shfl_down) CARVER_SYNC(__shfl_xor)
