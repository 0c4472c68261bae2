// Clocks of an SM for each load or store of a warp that hits L1, by width and by how its lanes' words lie; and the
// latency of lines that lie a pitch apart, of which L1 may hold fewer than it has room for.
//
//     nvcc -arch=native -std=c++17 -O3 benchmarks/kernels/l1.cu -o l1 && ./l1 > l1.jsonl

#include <cstdint>
#include <cstdio>

constexpr int WARPS = 32, TURNS = 32, UNROLLED = 16, APART = 33 * 128;

template <int BYTES> __device__ __forceinline__ uint32_t load(const char* at) {
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if constexpr (BYTES == 1) { uint16_t h; asm volatile("ld.global.u8 %0, [%1];" : "=h"(h) : "l"(at)); a = h; }
    if constexpr (BYTES == 2) { uint16_t h; asm volatile("ld.global.u16 %0, [%1];" : "=h"(h) : "l"(at)); a = h; }
    if constexpr (BYTES == 4) asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(at));
    if constexpr (BYTES == 8) asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(at));
    if constexpr (BYTES == 16)
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(at));
    return a ^ b ^ c ^ d;
}

template <int BYTES> __device__ __forceinline__ void store(char* at, uint32_t v) {
    if constexpr (BYTES == 1) asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "h"(uint16_t(v)));
    if constexpr (BYTES == 2) asm volatile("st.global.u16 [%0], %1;" ::"l"(at), "h"(uint16_t(v)));
    if constexpr (BYTES == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(v));
    if constexpr (BYTES == 8) asm volatile("st.global.v2.u32 [%0], {%1, %1};" ::"l"(at), "r"(v));
    if constexpr (BYTES == 16) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"(v));
}

template <int BYTES, bool STORES>
__global__ void rate(char* base, int lane_bytes, int together, int group_bytes, int offset, int step,
                     long long* clocks, uint32_t* sink) {
    const int lane = threadIdx.x % 32;
    char* at = base + offset + lane / together * group_bytes + lane % together * lane_bytes;
    uint32_t sum = load<BYTES>(at);
    __syncthreads();
    const long long began = clock64();
    for (int turn = 0; turn < TURNS; turn++) {
#pragma unroll
        for (int i = 0; i < UNROLLED; i++) {
            if constexpr (STORES) store<BYTES>(at + i * APART, sum);
            else sum ^= load<BYTES>(at + i * APART);
        }
        at += step;  // 0, which the compiler does not know: it would load once
    }
    __syncthreads();
    if (threadIdx.x == 0) *clocks = clock64() - began;
    if (sum == 12345) *sink = sum;
}

__device__ __forceinline__ char** next(char** at) {
    char** to;
    asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(to) : "l"(at));
    return to;
}

__global__ void chase(char** first, int lines, long long* clocks, char** sink) {
    char** at = first;
    for (int i = 0; i < 2 * lines; i++) at = next(at);
    const long long began = clock64();
    for (int i = 0; i < 4 * lines; i++) at = next(at);
    *clocks = (clock64() - began) / (4 * lines);
    *sink = (char*)at;
}

__global__ void chained(char* base, long long pitch, int lines) {
    for (int i = 0; i < lines; i++) *(char**)(base + i * pitch) = base + (i + 1) % lines * pitch;
}

char* memory;
long long* clocks;

template <int BYTES, bool STORES> void lie(int lane_bytes, int together, int group_bytes, int offset) {
    long long best = 1ll << 60;
    for (int n = 0; n < 3; n++) {
        rate<BYTES, STORES><<<1, 32 * WARPS>>>(memory, lane_bytes, together, group_bytes, offset, 0, clocks,
                                               (uint32_t*)(clocks + 1));
        cudaDeviceSynchronize();
        if (*clocks < best) best = *clocks;
    }
    printf("{\"what\": \"%s\", \"bytes\": %d, \"lane_bytes\": %d, \"together\": %d, \"group_bytes\": %d, \"offset\": %d, "
           "\"clk\": %.3f}\n", STORES ? "store" : "load", BYTES, lane_bytes, together, group_bytes, offset,
           double(best) / (WARPS * TURNS * UNROLLED));
}

template <int BYTES, bool STORES> void width() {
    for (int lane_bytes : {0, BYTES, 2 * BYTES, 3 * BYTES, 4 * BYTES, 8 * BYTES})
        for (int offset : {0, BYTES, 16, 32, 64})
            if (lane_bytes * 32 <= 4096) lie<BYTES, STORES>(lane_bytes, 32, 0, offset);
    for (int together : {1, 2, 4, 8, 16})  // groups in lines of their own, and in banks of their own
        for (int between : {128, 256, 1024})
            if (together * BYTES <= 128 && 32 / together * between <= 4096)
                lie<BYTES, STORES>(BYTES, together, between + together * BYTES, 0);
    for (int together : {2, 4, 8, 16}) lie<BYTES, STORES>(BYTES, together, 128, 0);  // in the same banks
}

int main() {
    cudaMalloc(&memory, 1 << 28);
    cudaMemset(memory, 0, 1 << 28);
    cudaMallocManaged(&clocks, 64);
    width<1, false>(), width<2, false>(), width<4, false>(), width<8, false>(), width<16, false>();
    width<2, true>(), width<4, true>(), width<16, true>();
    for (long long pitch : {128, 1024, 2048, 4096, 8192, 16384, 32768, 20000, 20096, 16512})
        for (int lines : {8, 16, 32, 64, 128, 256, 512, 1024, 1536}) {
            if (pitch * lines > 1 << 28) continue;
            chained<<<1, 1>>>(memory, pitch, lines);
            chase<<<1, 1>>>((char**)memory, lines, clocks, (char**)(clocks + 1));
            cudaDeviceSynchronize();
            printf("{\"what\": \"chase\", \"pitch_bytes\": %lld, \"lines\": %d, \"clk\": %lld}\n", pitch, lines, *clocks);
        }
    const cudaError_t error = cudaGetLastError();
    if (error) fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return error != 0;
}
