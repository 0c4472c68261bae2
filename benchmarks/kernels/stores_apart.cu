// Stores whose words fill sectors by turns: by words in a row of a thread, what is stored or done in between, warps of an SM.
//   nvcc -O3 -arch=sm_90 -std=c++17 -o stores_apart stores_apart.cu && ./stores_apart stores_apart.jsonl
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call) do { cudaError_t e = (call); if (e) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
constexpr size_t SPAN = 16u << 20, TOTAL = 128u << 20;
__device__ __forceinline__ void put(unsigned short* at, int v) { asm volatile("st.global.u16 [%0], %1;" :: "l"(at), "h"((short)v) : "memory"); }
__device__ __forceinline__ void put(unsigned* at, int v) { asm volatile("st.global.u32 [%0], %1;" :: "l"(at), "r"(v) : "memory"); }
__device__ __forceinline__ void put(uint2* at, int v) { asm volatile("st.global.v2.u32 [%0], {%1, %1};" :: "l"(at), "r"(v) : "memory"); }
template <int GAP> __device__ __forceinline__ int later(int v) {
#pragma unroll
    for (int k = 0; k < GAP; k++) asm volatile("mad.lo.s32 %0, %0, 3, 1;" : "+r"(v));
    return v;
}
// a thread has E groups of W items side by side; PARTS: all first items of its groups, then all second ones
template <class T, int W, int E, bool PARTS, int GAP> __global__ void stores(T* y, int v) {
    constexpr size_t up = W == 6 ? 8 : W, groups = SPAN / (up * sizeof(T)), all = TOTAL / (up * sizeof(T));
    const size_t each = (size_t)gridDim.x * blockDim.x;
    for (size_t g = blockIdx.x * (size_t)blockDim.x + threadIdx.x; g < all; g += each * E) {
#pragma unroll
        for (int k = 0; k < W * E; k++) {
            const int w = PARTS ? k / E : k % W, e = PARTS ? k % E : k / W;
            put(y + ((g + e * each) % groups) * W + w, v);
            v = later<GAP>(v);
        }
    }
}
cudaEvent_t begin, end;
void* y;
FILE* out;
template <class T, int W, int E, bool PARTS, int GAP> void one() {
    int sms; CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    auto kernel = stores<T, W, E, PARTS, GAP>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 220000));
    for (int blocks : {1, 4, 8}) {  // of 256 threads, of an SM
        int shared = blocks == 8 ? 0 : 220000 / blocks - 2048;
        std::vector<float> ms;
        for (int k = 0; k < 8; k++) {
            float each;
            CHECK(cudaEventRecord(begin));
            kernel<<<sms * blocks, 256, shared>>>((T*)y, k);
            CHECK(cudaEventRecord(end));
            CHECK(cudaEventSynchronize(end));
            CHECK(cudaGetLastError());
            CHECK(cudaEventElapsedTime(&each, begin, end));
            if (k > 1) ms.push_back(each);
        }
        std::sort(ms.begin(), ms.end());
        fprintf(out, "{\"item_bytes\":%d,\"row\":%d,\"groups\":%d,\"parts_first\":%d,\"gap\":%d,\"blocks_of_256\":%d,\"total_mb\":128,\"span_mb\":16,\"ms\":%.6f}\n",
                (int)sizeof(T), W, E, (int)PARTS, GAP, blocks, ms[ms.size() / 2]);
        fflush(out);
    }
}
template <class T, int W, int GAP> void three() { one<T, W, 1, false, GAP>(); one<T, W, 4, false, GAP>(); one<T, W, 4, true, GAP>(); }
template <class T, int W> void gaps() { three<T, W, 0>(); three<T, W, 4>(); three<T, W, 32>(); }
template <class T> void rows() { gaps<T, 1>(); gaps<T, 2>(); gaps<T, 4>(); gaps<T, 6>(); gaps<T, 8>(); gaps<T, 16>(); }
int main(int argc, char** argv) {
    out = fopen(argv[1], "w");
    CHECK(cudaMalloc(&y, SPAN + 4096)); CHECK(cudaMemset(y, 0, SPAN));
    CHECK(cudaEventCreate(&begin)); CHECK(cudaEventCreate(&end));
    rows<unsigned short>(); rows<unsigned>(); rows<uint2>();
    return 0;
}
