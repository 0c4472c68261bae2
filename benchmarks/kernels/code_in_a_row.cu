// Time of N products (16 bytes of code each), STRETCH of them in a row, and then SKIP more that a branch always leaves out:
// by blocks that run them once, one after another, or again and again, in step or not: a line of JSON each.
//   nvcc -O1 -Xptxas -O1 -arch=sm_90 -std=c++17 -o code_in_a_row code_in_a_row.cu && ./code_in_a_row code_in_a_row.jsonl
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call) do { cudaError_t e = (call); if (e) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
#define FMA8 asm volatile("fma.rn.f32 %0, %0, %8, %8; fma.rn.f32 %1, %1, %8, %8; fma.rn.f32 %2, %2, %8, %8; fma.rn.f32 %3, %3, %8, %8;" \
                         "fma.rn.f32 %4, %4, %8, %8; fma.rn.f32 %5, %5, %8, %8; fma.rn.f32 %6, %6, %8, %8; fma.rn.f32 %7, %7, %8, %8;" \
                         : "+f"(a0), "+f"(a1), "+f"(a2), "+f"(a3), "+f"(a4), "+f"(a5), "+f"(a6), "+f"(a7) : "f"(by))
template <int N, int STRETCH, int SKIP>
__global__ void row(float* y, int passes, unsigned skew, float by, int never) {
    extern __shared__ char room[];
    float a0 = threadIdx.x, a1 = a0 + 1, a2 = a0 + 2, a3 = a0 + 3, a4 = a0 + 4, a5 = a0 + 5, a6 = a0 + 6, a7 = a0 + 7;
    if (skew) {
        const long long until = clock64() + (blockIdx.x * 2654435761u >> 8) % skew;
        while (clock64() < until);
    }
#pragma unroll 1
    for (int k = 0; k < passes; k++) {
#pragma unroll
        for (int n = 0; n < N / STRETCH; n++) {
#pragma unroll
            for (int i = 0; i < STRETCH / 8; i++) FMA8;
            if (SKIP && never == n + 1) {
#pragma unroll
                for (int i = 0; i < SKIP / 8; i++) FMA8;
            }
        }
    }
    const float sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7;
    if (sum == 12345.678f) y[threadIdx.x] = sum + room[0];
}
FILE* out;
int sms;
template <int N, int STRETCH, int SKIP>
void run(float* y) {
    cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
    CHECK(cudaFuncSetAttribute(row<N, STRETCH, SKIP>, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
    for (int warps : {1, 2, 4, 8})
        for (int blocks : {1, 2, 4, 8, 16}) {
            if (warps * blocks > 32) continue;
            const int room = 227 * 1024 / blocks - 1024 * (blocks > 1);  // so many of an SM at a time
            for (int kind = 0; kind < 3; kind++) {  // 0: each block once, many blocks; 1: again and again, in step; 2: not
                const int passes = kind ? 16 : 1, grid = kind ? sms * blocks : sms * blocks * 16;
                float best = 1e9f;
                for (int again = 0; again < 4; again++) {
                    CHECK(cudaEventRecord(a));
                    row<N, STRETCH, SKIP><<<grid, 32 * warps, room>>>(y, passes, kind == 2 ? 4 * N : 0, 1.0f, -1);
                    CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b)); CHECK(cudaGetLastError());
                    float ms; CHECK(cudaEventElapsedTime(&ms, a, b));
                    best = std::min(best, ms);
                }
                fprintf(out, "{\"instructions\":%d,\"stretch\":%d,\"skipped\":%d,\"warps\":%d,\"blocks\":%d,\"kind\":\"%s\",\"ms\":%.5f,\"ns_per_warp_instruction\":%.5f}\n", N, STRETCH, SKIP, warps, blocks,
                        kind == 0 ? "once" : kind == 1 ? "in_step" : "apart", best, best * 1e6 * sms / ((double)grid * warps * N * passes));
                fflush(out);
            }
        }
}
int main(int argc, char** argv) {
    out = fopen(argv[1], "w");
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    float* y; CHECK(cudaMalloc(&y, 4096));
    run<512, 8, 0>(y); run<1024, 8, 0>(y); run<1536, 8, 0>(y); run<2048, 8, 0>(y); run<2560, 8, 0>(y); run<3072, 8, 0>(y);
    run<4096, 8, 0>(y); run<6144, 8, 0>(y); run<8192, 8, 0>(y); run<12288, 8, 0>(y); run<16384, 8, 0>(y);
    run<1024, 64, 0>(y); run<1024, 64, 64>(y); run<2048, 64, 0>(y); run<2048, 64, 64>(y); run<2048, 32, 64>(y);
    run<2048, 16, 64>(y); run<4096, 64, 64>(y); run<4096, 128, 64>(y); run<4096, 32, 64>(y); run<4096, 256, 64>(y);
    return 0;
}
