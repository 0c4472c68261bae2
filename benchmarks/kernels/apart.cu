// Words that are stored apart or anywhere, rows that threads walk along, blocks that one warp finishes: a line of JSON each.
//   nvcc -O3 -arch=sm_90 --extended-lambda -std=c++17 -o apart apart.cu && ./apart > apart.jsonl
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define KERNEL extern "C" __global__ void
#define AT int i = blockIdx.x * blockDim.x + threadIdx.x

KERNEL strided(const float* x, float* y, int n, int step) { AT; if (i < n) y[(long long)i * step] = x[i]; }
KERNEL scat(const int* at, const float* x, float* y, int n) { AT; if (i < n) y[at[i]] = x[i]; }
KERNEL gath(const int* at, const float* x, float* y, int n) { AT; if (i < n) y[i] = x[at[i]]; }
KERNEL hist(const int* at, float* y, int n) { AT; if (i < n) atomicAdd(y + at[i], 1.f); }
#define WALK(name, type, words, unroll, sum) KERNEL name(const type* x, float* y, int columns) { \
    AT; float total = 0; \
    _Pragma(unroll) for (int c = 0; c < columns / words; c++) { \
        type v = x[(long long)i * columns / words + c]; total += sum; } \
    y[i] = total; }
WALK(walk, float, 1, "unroll 1", v)
WALK(walk2, float2, 2, "unroll 1", v.x + v.y)
WALK(walk4, float4, 4, "unroll 1", v.x + v.y + v.z + v.w)
WALK(rowwise, float, 1, "unroll 4", v)
#define TAIL(name, last) KERNEL name(const float* x, float* y, int times) { \
    extern __shared__ float held[]; \
    int i = threadIdx.x; float v = x[blockIdx.x * blockDim.x + i]; \
    _Pragma("unroll 1") for (int k = 0; k < times; k++) { \
        v = v * 1.0001f + 0.5f; v = v * 1.0002f + 0.25f; v = v * 0.999f + 0.125f; v = v * 0.998f + 0.1f; } \
    held[i] = v; __syncthreads(); \
    if (i < last) { \
        _Pragma("unroll 1") for (int j = i % 32 + 32; j < blockDim.x; j += 32) v += held[j]; \
        y[blockIdx.x * 32 + i % 32] = v; } }
TAIL(by_one_warp, 32)
TAIL(by_all_warps, 1024)
KERNEL fill(int* at, int n, unsigned words) {
    AT;
    unsigned long long z = (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    if (i < n) at[i] = (int)((z ^ (z >> 31)) % words);
}

#define CHECK(call) do { cudaError_t e = (call); if (e) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
constexpr size_t SWEPT = 512u << 20, MOST = 1u << 30;
float *x, *y;
int* at;
char* swept;
cudaEvent_t begin, end;

template <class F> float timed(F launch) {
    std::vector<float> ms;
    for (int k = 0; k < 14; k++) {
        float each;
        CHECK(cudaMemsetAsync(swept, k, SWEPT));
        CHECK(cudaEventRecord(begin));
        launch();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        CHECK(cudaEventElapsedTime(&each, begin, end));
        if (k > 3) ms.push_back(each);
    }
    std::sort(ms.begin(), ms.end());
    return ms[ms.size() / 2];
}

int main() {
    const int n = 1 << 22;
    CHECK(cudaMalloc(&x, MOST)); CHECK(cudaMalloc(&y, 2 * MOST)); CHECK(cudaMalloc(&at, 4 * n)); CHECK(cudaMalloc(&swept, SWEPT));
    CHECK(cudaMemset(x, 0, MOST)); CHECK(cudaMemset(y, 0, 2 * MOST));
    CHECK(cudaEventCreate(&begin)); CHECK(cudaEventCreate(&end));
    for (int step : {1, 2, 3, 4, 6, 7, 8, 9, 12, 16, 24, 32, 33, 48, 64})
        printf("{\"kernel\":\"strided\",\"n\":%d,\"step\":%d,\"ms\":%.6f}\n", n, step,
               timed([&] { strided<<<n / 256, 256>>>(x, y, n, step); }));
    for (int bits : {8, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 26, 28}) {
        fill<<<n / 256, 256>>>(at, n, 1u << bits);
        float read = timed([&] { gath<<<n / 256, 256>>>(at, x, y, n); });
        float stored = timed([&] { scat<<<n / 256, 256>>>(at, x, y, n); });
        float added = timed([&] { hist<<<n / 256, 256>>>(at, y, n); });
        printf("{\"kernel\":\"anywhere\",\"n\":%d,\"words\":%d,\"gather_ms\":%.6f,\"scatter_ms\":%.6f,\"histogram_ms\":%.6f}\n",
               n, 1 << bits, read, stored, added);
    }
    for (int rows : {8192, 33792, 65536})
        for (int columns : {512, 2048, 3840}) {
            float one = timed([&] { walk<<<rows / 128, 128>>>(x, y, columns); });
            float two = timed([&] { walk2<<<rows / 128, 128>>>((float2*)x, y, columns); });
            float four = timed([&] { walk4<<<rows / 128, 128>>>((float4*)x, y, columns); });
            float unrolled = timed([&] { rowwise<<<rows / 128, 128>>>(x, y, columns); });
            printf("{\"kernel\":\"walks\",\"rows\":%d,\"columns\":%d,\"walk_ms\":%.6f,\"walk2_ms\":%.6f,\"walk4_ms\":%.6f,"
                   "\"rowwise_ms\":%.6f}\n", rows, columns, one, two, four, unrolled);
        }
    CHECK(cudaFuncSetAttribute(by_one_warp, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
    CHECK(cudaFuncSetAttribute(by_all_warps, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
    for (int bytes : {1024, 60000, 100000, 200000})
        for (int times : {20, 200, 2000}) {
            float one = timed([&] { by_one_warp<<<1320, 256, bytes>>>(x, y, times); });
            float all = timed([&] { by_all_warps<<<1320, 256, bytes>>>(x, y, times); });
            printf("{\"kernel\":\"tails\",\"shared_bytes\":%d,\"times\":%d,\"one_warp_ms\":%.6f,\"all_warps_ms\":%.6f}\n", bytes,
                   times, one, all);
        }
}
