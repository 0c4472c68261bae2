// Clocks that a block takes for 16 independent multiply-adds a thread and round on the vector units.
// KIND: 0 float64, 1 float32, 8 int32, 7 int8 (four products an instruction), as in carver.cuh.
#ifndef KIND
#define KIND 1
#endif

#include "common/carver.cuh"

template <int DTYPE> struct Unit;
template <> struct Unit<CARVER_F64> {
    using type = double;
    static __device__ __forceinline__ double multiply_add(double a, double b, double c) { return fma(a, b, c); }
};
template <> struct Unit<CARVER_F32> {
    using type = float;
    static __device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
};
template <> struct Unit<CARVER_I32> {
    using type = int;
    static __device__ __forceinline__ int multiply_add(int a, int b, int c) { return a * b + c; }
};
template <> struct Unit<CARVER_I8> {
    using type = int;
    static __device__ __forceinline__ int multiply_add(int a, int b, int c) { return __dp4a(a, b, c); }
};

extern "C" __global__ void __launch_bounds__(1024) carver_vector(int *clocks, float *out, carver::i64 rounds) {
    using U = Unit<KIND>;
    typename U::type sums[16], b = static_cast<typename U::type>(threadIdx.x | 1), c = static_cast<typename U::type>(rounds);
    for (int i = 0; i < 16; ++i) sums[i] = static_cast<typename U::type>(threadIdx.x + i);
    __syncthreads();
    const long long began = clock64();
#pragma unroll 1
    for (int round = 0; round < static_cast<int>(rounds); ++round) {
#pragma unroll
        for (int i = 0; i < 16; ++i) sums[i] = U::multiply_add(sums[i], b, c);
    }
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = static_cast<int>(clock64() - began);
    typename U::type total = 0;
    for (int i = 0; i < 16; ++i) total += sums[i];
    if (total == static_cast<typename U::type>(12345)) *out = static_cast<float>(total);
}
