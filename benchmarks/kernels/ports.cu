// Clocks that an SM takes for loads that hit L1 or shared memory, for words of constant memory that lanes read on their
// own, and for special registers, a warp and instruction, by how many different places lanes want and how far these are
// apart: nvcc -O3 -arch=sm_90 ports.cu -o ports; ./ports FILE.jsonl
#include <cstdio>
#include <cuda_runtime.h>
__constant__ unsigned table[4096];
enum { N = 16 };
template <int KIND> __global__ void __launch_bounds__(1024) look(const char* x, const int* own, unsigned* out, long long* clk, int times, int step, int mask) {
  extern __shared__ char held[];
  const char* base = KIND >= 8 ? (const char*)table + own[threadIdx.x % 32] : x + own[threadIdx.x % 32];
  unsigned sh = (unsigned)__cvta_generic_to_shared(held) + own[threadIdx.x % 32];
  unsigned sum = 0;
  for (int w = 0; w < 2; w++) {  // the first to warm up
    __syncthreads();
    long long begun = clock64();
#pragma unroll 1
    for (int t = 0; t < (w ? times : 4); t++) {
      int move = t * step & mask;
      const char* at = base + move;
#pragma unroll
      for (int i = 0; i < N; i++) {
        unsigned v = 0;
        if (KIND == 0) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at + i * 128));
        if (KIND == 1) { unsigned short b; asm volatile("ld.global.u8 %0, [%1];" : "=h"(b) : "l"(at + i * 128)); v = b; }
        if (KIND == 2) { unsigned u; asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v), "=r"(u) : "l"(at + i * 128)); v ^= u; }
        if (KIND == 3) { unsigned u, p, q; asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v), "=r"(u), "=r"(p), "=r"(q) : "l"(at + i * 128)); v ^= u ^ p ^ q; }
        if (KIND == 4) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(sh + move + i * 128));
        if (KIND == 5) asm volatile("mov.u32 %0, %%smid;" : "=r"(v));
        if (KIND == 6) asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(v));
        if (KIND == 7) asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(at + i * 128));
        if (KIND == 8) v = *(const unsigned*)(at + i * 4);
        if (KIND == 9) { uint2 b = *(const uint2*)(at + i * 8); v = b.x ^ b.y; }
        sum ^= v;
      }
    }
    __syncthreads();
    if (threadIdx.x == 0 && w) clk[blockIdx.x] = clock64() - begun;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
char* x; int* own; unsigned* out; long long* clk; FILE* file;
template <typename F> void run(const char* name, int threads, int times, F launch, int lanes, int apart) {
  long long host[132];
  launch(); launch();
  if (cudaDeviceSynchronize()) return;
  cudaMemcpy(host, clk, sizeof host, cudaMemcpyDeviceToHost);
  long long least = host[0];
  for (long long c : host) if (c < least) least = c;
  fprintf(file, "{\"what\": \"%s\", \"threads\": %d, \"distinct\": %d, \"apart\": %d, \"clk\": %.3f}\n", name, threads, lanes, apart, (double)least / ((double)threads / 32 * N * times));
  fflush(file);
}
void places(int distinct, int apart, int from) {
  int host[32];
  for (int i = 0; i < 32; i++) host[i] = from + i % distinct * apart;
  cudaMemcpy(own, host, sizeof host, cudaMemcpyHostToDevice);
}
int main(int argc, char** argv) {
  file = fopen(argv[1], "w");
  cudaMalloc(&x, 1 << 20); cudaMemset(x, 1, 1 << 20); cudaMalloc(&own, 4096); cudaMalloc(&out, 132 * 4096); cudaMalloc(&clk, 4096);
  unsigned host[4096]; for (int i = 0; i < 4096; i++) host[i] = i * 2654435761u; cudaMemcpyToSymbol(table, host, sizeof host);
  for (int threads : {1024, 512, 128, 32}) {
    int times = threads > 128 ? 200 : 400;
#define LOOK(name, kind, distinct, apart, from) places(distinct, apart, from), run(name, threads, times, [&] { look<kind><<<132, threads, 16384>>>(x, own, out, clk, times, kind >= 8 ? 4 : 2048, kind >= 8 ? 12 : 6144); }, distinct, apart)
    LOOK("word", 0, 1, 4, 0); LOOK("word", 0, 32, 4, 0); LOOK("word, in two lines", 0, 32, 4, 64); LOOK("word, five sectors", 0, 32, 4, 16); LOOK("word", 0, 8, 4, 0); LOOK("word", 0, 32, 8, 0); LOOK("word", 0, 32, 16, 0); LOOK("word", 0, 32, 32, 0); LOOK("word", 0, 32, 76, 0); LOOK("word", 0, 32, 96, 0); LOOK("word", 0, 32, 128, 0);
    LOOK("word", 0, 32, 132, 0); LOOK("word", 0, 2, 132, 0); LOOK("word", 0, 4, 132, 0); LOOK("word", 0, 8, 132, 0); LOOK("word", 0, 16, 132, 0);
    LOOK("byte", 1, 1, 1, 0); LOOK("byte", 1, 32, 1, 0); LOOK("byte, not aligned", 1, 32, 1, 5); LOOK("byte, in two lines", 1, 32, 1, 112); LOOK("byte", 1, 32, 4, 0);
    LOOK("two words", 2, 32, 8, 0); LOOK("two words", 2, 1, 8, 0); LOOK("four words", 3, 32, 16, 0); LOOK("four words", 3, 1, 16, 0);
    LOOK("shared word", 4, 32, 4, 0); LOOK("shared word", 4, 1, 4, 0); LOOK("word, nc", 7, 1, 4, 0); LOOK("word, nc", 7, 32, 4, 0);
    LOOK("S2R smid", 5, 1, 4, 0); LOOK("globaltimer", 6, 1, 4, 0);
    for (int apart : {4, 64}) for (int distinct : {1, 2, 4, 8, 16, 32}) LOOK("LDC", 8, distinct, apart, 0);
    for (int distinct : {1, 4, 8, 32}) LOOK("LDC.64", 9, distinct, 64, 0);
  }
}
