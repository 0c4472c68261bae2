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
CARVER_VECTOR(_Float16, half)

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

template <typename T> __device__ __forceinline__ T atomicAdd(T* at, T value) {
    return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <typename T> __device__ __forceinline__ T __ldg(const T* at) { return *at; }

__device__ __forceinline__ uint carver_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
template <typename T> __device__ __forceinline__ T carver_from_lane(T value, uint lane) {
    static_assert(sizeof(T) == 4, "values of four bytes are exchanged");
    return __builtin_bit_cast(T, __builtin_amdgcn_ds_bpermute(lane << 2, __builtin_bit_cast(int, value)));
}
template <typename T> __device__ __forceinline__ T __shfl(T v, int lane) { return carver_from_lane(v, lane); }
template <typename T> __device__ __forceinline__ T __shfl_down(T v, uint by) { return carver_from_lane(v, carver_lane() + by); }
template <typename T> __device__ __forceinline__ T __shfl_up(T v, uint by) { return carver_from_lane(v, carver_lane() - by); }
template <typename T> __device__ __forceinline__ T __shfl_xor(T v, uint by) { return carver_from_lane(v, carver_lane() ^ by); }
