// Atomic additions a second of all SMs, by type, whether their results are used, and how many counters there are.
//
//     nvcc -arch=native -std=c++17 -O3 benchmarks/kernels/atomics.cu -o atomics && ./atomics > atomics.jsonl

#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>

constexpr int THREADS = 256, EACH = 8;

__device__ __forceinline__ uint32_t mixed(uint32_t x) {
    x ^= x >> 16, x *= 0x7feb352d, x ^= x >> 15, x *= 0x846ca68b;
    return x ^ x >> 16;
}

// `spread`: 0 for counters at random, else neighbours of a warp share one and the next so many lie side by side.
template <typename T, bool RETURNS>
__global__ void add(T* counters, uint32_t mask, int spread, uint32_t* sink) {
    uint32_t sum = 0;
    for (int i = 0; i < EACH; i++) {
        const uint32_t n = (blockIdx.x * EACH + i) * THREADS + threadIdx.x;
        const uint32_t at = (spread ? n / spread : mixed(n)) & mask;
        if constexpr (RETURNS) {
            const T old = atomicAdd(counters + at, T(1));
            sum += uint32_t(float(old));
        } else {
            atomicAdd(counters + at, T(1));
        }
    }
    if (RETURNS && sum == 123456789) *sink = sum;
}

char* memory;
uint32_t* sink;

template <typename T, bool RETURNS> void time(const char* type, uint32_t counters, int spread, int blocks) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    float best = 1e30f;
    for (int n = 0; n < 4; n++) {
        cudaMemset(memory, 0, size_t(counters) * sizeof(T));
        cudaEventRecord(begin);
        add<T, RETURNS><<<blocks, THREADS>>>((T*)memory, counters - 1, spread, sink);
        cudaEventRecord(end), cudaEventSynchronize(end);
        float ms;
        cudaEventElapsedTime(&ms, begin, end);
        if (n && ms < best) best = ms;
    }
    printf("{\"type\": \"%s\", \"returns\": %d, \"counters\": %u, \"spread\": %d, \"operations\": %d, \"ms\": %.5f}\n", type,
           RETURNS, counters, spread, blocks * THREADS * EACH, best);
}

template <typename T> void all(const char* type, int blocks) {
    for (int spread : {0, 1, 4, 32, 1024})
        for (uint32_t counters : {1u, 8u, 64u, 256u, 2048u, 16384u, 1u << 20, 1u << 25}) {
            if (spread && counters < 64) continue;
            time<T, false>(type, counters, spread, blocks);
            time<T, true>(type, counters, spread, blocks);
        }
}

int main() {
    cudaMalloc(&memory, 1 << 28), cudaMalloc(&sink, 64);
    all<int>("int32", 1024);
    all<float>("float32", 1024);
    all<__half>("float16", 64);
    const cudaError_t error = cudaGetLastError();
    if (error) fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return error != 0;
}
