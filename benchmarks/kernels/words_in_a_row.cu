// Threads that have S words in a row each, one load or store at a time: time by S, threads of a block, size.
// nvcc -O3 -arch=sm_90a words_in_a_row.cu -o words_in_a_row && ./words_in_a_row OUT.jsonl
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>

template <int S, int KIND> __global__ void rows(float* x, int tiles) {  // KIND 0: stores, 1: loads, 2: both, 3: stores, words of a warp interleaved
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    float* p = x + ((size_t)t * blockDim.x + threadIdx.x) * S;
    float v[S];
#pragma unroll
    for (int i = 0; i < S; i++) v[i] = KIND == 1 || KIND == 2 ? p[i] : t + i;
    if (KIND == 1) {
      float s = 0;
#pragma unroll
      for (int i = 0; i < S; i++) s += v[i];
      if (s == 1234.5f) x[threadIdx.x] = s;
    } else if (KIND == 3) {
      float* q = x + ((size_t)t * blockDim.x + threadIdx.x / 32 * 32) * S + threadIdx.x % 32;
#pragma unroll
      for (int i = 0; i < S; i++) q[i * 32] = v[i];
    } else {
#pragma unroll
      for (int i = 0; i < S; i++) p[i] = v[i] + 1.0f;
    }
  }
}

static FILE* file;
static cudaEvent_t a, b;
template <int S, int KIND> void one(float* x, int sms) {
  for (size_t bytes : {(size_t)8 << 20, (size_t)128 << 20})
    for (int threads : {64, 128, 256, 512, 1024})
      for (int per : {1, 2048 / threads}) {
        int tiles = bytes / 4 / S / threads;
        float best = 1e9f;
        for (int i = 0; i < 6; i++) {
          cudaEventRecord(a);
          rows<S, KIND><<<std::min(tiles, sms * std::min(per, 32)), threads>>>(x, tiles);
          cudaEventRecord(b);
          cudaEventSynchronize(b);
          float t;
          cudaEventElapsedTime(&t, a, b);
          best = std::min(best, t);
        }
        fprintf(file, "{\"words\": %d, \"kind\": %d, \"bytes\": %zu, \"threads\": %d, \"per_sm\": %d, \"ms\": %.5f}\n", S, KIND, bytes, threads, std::min(per, 32), best);
      }
  fflush(file);
}
template <int S> void all(float* x, int sms) { one<S, 0>(x, sms); one<S, 1>(x, sms); one<S, 2>(x, sms); one<S, 3>(x, sms); }

int main(int n, char** v) {
  file = fopen(v[1], "w");
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  float* x;
  cudaMalloc(&x, (size_t)256 << 20);
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  all<1>(x, p.multiProcessorCount); all<2>(x, p.multiProcessorCount); all<4>(x, p.multiProcessorCount);
  all<8>(x, p.multiProcessorCount); all<16>(x, p.multiProcessorCount); all<32>(x, p.multiProcessorCount);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
