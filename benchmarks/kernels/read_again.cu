// Kernels that read what they, or others, have read before: a stencil of seven points by tiles, a norm whose rows are read twice.
//
//     nvcc -O3 -arch=sm_90 -o read_again read_again.cu && ./read_again read_again.jsonl
//
// Medians of 15 launches in random data, the L2 overwritten before each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_fp16.h>

__global__ void stencil3d(const float *__restrict__ x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z;
    if (i < 1 || i >= n - 1 || j < 1 || j >= n - 1 || k < 1 || k >= n - 1) return;
    int p = (k * n + j) * n + i;
    y[p] = x[p - 1] + x[p + 1] + x[p - n] + x[p + n] + x[p - n * n] + x[p + n * n] - 6 * x[p];
}

__global__ void rms(const uint4 *__restrict__ x, const uint4 *__restrict__ w, uint4 *y, int n) {
    const uint4 *row = x + blockIdx.x * (long long)(n / 8);
    __shared__ float sums[32];
    float sum = 0;
    for (int i = threadIdx.x; i < n / 8; i += blockDim.x) {
        uint4 v = row[i];
        const __half2 *h = reinterpret_cast<const __half2 *>(&v);
        for (int e = 0; e < 4; ++e) { float2 f = __half22float2(h[e]); sum += f.x * f.x + f.y * f.y; }
    }
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int k = 0; k < blockDim.x / 32; ++k) sum += sums[k];
    float scale = rsqrtf(sum / n + 1e-6f);
    for (int i = threadIdx.x; i < n / 8; i += blockDim.x) {
        uint4 v = row[i], u = w[i], out;
        const __half2 *h = reinterpret_cast<const __half2 *>(&v), *g = reinterpret_cast<const __half2 *>(&u);
        __half2 *o = reinterpret_cast<__half2 *>(&out);
        for (int e = 0; e < 4; ++e) {
            float2 f = __half22float2(h[e]), s = __half22float2(g[e]);
            o[e] = __floats2half2_rn(f.x * scale * s.x, f.y * scale * s.y);
        }
        y[blockIdx.x * (long long)(n / 8) + i] = out;
    }
}

__global__ void fill(unsigned *x, size_t n, unsigned seed, bool halves) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        unsigned h = (unsigned)i * 2654435761u ^ seed;
        h ^= h >> 15; h *= 2246822519u; h ^= h >> 13;
        x[i] = halves ? (h & 0x03ff03ffu) | 0x3c003c00u : (h & 0x7fffffu) | 0x3f800000u;
    }
}

template <typename F> double median_ms(F launch) {
    static char *flush = nullptr;
    const size_t bytes = 256u << 20;
    if (!flush) cudaMalloc(&flush, bytes);
    std::vector<float> times;
    cudaEvent_t a, b;
    cudaEventCreate(&a); cudaEventCreate(&b);
    for (int i = 0; i < 17; ++i) {
        cudaMemsetAsync(flush, i, bytes);
        cudaEventRecord(a); launch(); cudaEventRecord(b);
        cudaEventSynchronize(b);
        float ms; cudaEventElapsedTime(&ms, a, b);
        if (i > 1) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

int main(int, char **argv) {
    FILE *out = fopen(argv[1], "w");
    char *x, *y, *w;
    const size_t most = 1ull << 30;
    cudaMalloc(&x, most); cudaMalloc(&y, most); cudaMalloc(&w, 1 << 20);
    fill<<<1024, 256>>>((unsigned *)x, most / 4, 7, false);
    for (int n : {128, 256, 384, 512, 640})
        for (auto [bx, by] : std::vector<std::pair<int, int>>{{32, 4}, {32, 8}, {32, 32}, {64, 4}, {64, 16}, {128, 2}, {128, 8}, {128, 1}}) {
            dim3 grid((n + bx - 1) / bx, (n + by - 1) / by, n), block(bx, by);
            double ms = median_ms([&] { stencil3d<<<grid, block>>>((float *)x, (float *)y, n); });
            fprintf(out, "{\"kernel\": \"stencil3d\", \"n\": %d, \"block\": [%d, %d], \"ms\": %.5f, \"error\": %d}\n", n, bx, by, ms, (int)cudaGetLastError());
        }
    fill<<<1024, 256>>>((unsigned *)x, most / 4, 7, true);
    fill<<<64, 256>>>((unsigned *)w, (1 << 20) / 4, 9, true);
    for (int n : {1024, 2048, 4096, 8192, 16384, 32768, 65536})
        for (int threads : {64, 128, 256, 512, 1024})
            for (int mib : {128, 512}) {
                int rows = (size_t)mib * (1 << 20) / 2 / n;
                double ms = median_ms([&] { rms<<<rows, threads>>>((uint4 *)x, (uint4 *)w, (uint4 *)y, n); });
                fprintf(out, "{\"kernel\": \"rms\", \"n\": %d, \"rows\": %d, \"block\": [%d], \"ms\": %.5f, \"error\": %d}\n", n, rows, threads, ms, (int)cudaGetLastError());
            }
    fclose(out);
}
