// Kernels in CUDA C++ of a fifteenth set: shortest ways by tiles, slopes of a loss, medians of nine, rows of a table with a norm.
#include <cuda_fp16.h>
#include <stdint.h>
#ifdef UNROLL
constexpr int kUnroll = UNROLL;
#endif

#ifdef KERNEL_ways  // C = min(C0, min over k of A[i][k] + B[k][j]): tiles of BM x BN by BK in shared memory, TM x TN ways a thread
extern "C" __global__ void __launch_bounds__(BM / TM * (BN / TN)) ways(float* __restrict__ C, const float* __restrict__ C0, const float* __restrict__ A, const float* __restrict__ B, int N, int K) {
  constexpr int THREADS = BM / TM * (BN / TN);
  __shared__ float as[BK][BM + 1];
  __shared__ __align__(16) float bs[BK][BN];
  const int t = threadIdx.x, x = t % (BN / TN), y = t / (BN / TN);
  const float *a = A + (size_t)blockIdx.y * BM * K, *b = B + blockIdx.x * BN;
  float best[TM][TN];
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) best[i][j] = C0[(size_t)(blockIdx.y * BM + y + i * (BM / TM)) * N + blockIdx.x * BN + x + j * (BN / TN)];
  for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
    for (int i = t; i < BM * BK; i += THREADS) as[i % BK][i / BK] = a[(size_t)(i / BK) * K + k0 + i % BK];
#pragma unroll
    for (int i = t; i < BN * BK / 4; i += THREADS) *(float4*)&bs[i / (BN / 4)][i % (BN / 4) * 4] = *(const float4*)(b + (size_t)(k0 + i / (BN / 4)) * N + i % (BN / 4) * 4);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k++) {
      float u[TM], v[TN];
#pragma unroll
      for (int i = 0; i < TM; i++) u[i] = as[k][y + i * (BM / TM)];
#pragma unroll
      for (int j = 0; j < TN; j++) v[j] = bs[k][x + j * (BN / TN)];
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) best[i][j] = fminf(best[i][j], u[i] + v[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) C[(size_t)(blockIdx.y * BM + y + i * (BM / TM)) * N + blockIdx.x * BN + x + j * (BN / TN)] = best[i][j];
}
#endif

#ifdef KERNEL_crossed  // slopes of a cross entropy: softmax of a row of halves less one at its label, in two walks of BLOCK threads by VEC
extern "C" __global__ void __launch_bounds__(BLOCK) crossed(__half* __restrict__ out, const __half* __restrict__ x, const int* __restrict__ labels, int cols, float by) {
  __shared__ float tops[32], sums[32];
  struct alignas(VEC * 2) Some { __half v[VEC]; };
  const size_t first = (size_t)blockIdx.x * cols;
  const int t = threadIdx.x, label = labels[blockIdx.x];
  float top = -1e30f, sum = 0.0f;
#pragma unroll kUnroll
  for (int c = t * VEC; c < cols; c += BLOCK * VEC) {
    const Some some = *(const Some*)(x + first + c);
    float here = top;
#pragma unroll
    for (int e = 0; e < VEC; e++) here = fmaxf(here, __half2float(some.v[e]));
    sum *= __expf(top - here);
#pragma unroll
    for (int e = 0; e < VEC; e++) sum += __expf(__half2float(some.v[e]) - here);
    top = here;
  }
  auto joined = [&](float other, float more) {
    const float here = fmaxf(top, other);
    sum = sum * __expf(top - here) + more * __expf(other - here);
    top = here;
  };
  for (int far = 16; far; far /= 2) joined(__shfl_xor_sync(~0u, top, far), __shfl_xor_sync(~0u, sum, far));
  if (BLOCK > 32) {
    if (t % 32 == 0) tops[t / 32] = top, sums[t / 32] = sum;
    __syncthreads();
    top = t % 32 < BLOCK / 32 ? tops[t % 32] : -1e30f, sum = t % 32 < BLOCK / 32 ? sums[t % 32] : 0.0f;
    for (int far = 16; far; far /= 2) joined(__shfl_xor_sync(~0u, top, far), __shfl_xor_sync(~0u, sum, far));
  }
  const float over = by / sum;
#pragma unroll kUnroll
  for (int c = t * VEC; c < cols; c += BLOCK * VEC) {
    Some some = *(const Some*)(x + first + c);
#pragma unroll
    for (int e = 0; e < VEC; e++) some.v[e] = __float2half(__expf(__half2float(some.v[e]) - top) * over - (c + e == label ? by : 0.0f));
    *(Some*)(out + first + c) = some;
  }
}
#endif

#ifdef KERNEL_medians  // the median of three by three, PER rows a thread, columns sorted once; TILED: by way of shared memory
__device__ __forceinline__ void sorted(float& a, float& b) { const float low = fminf(a, b); b = fmaxf(a, b), a = low; }
extern "C" __global__ void __launch_bounds__(BX * BY) medians(float* __restrict__ out, const float* __restrict__ in, int width, int height) {
  const int W = width + 2, i = blockIdx.x * BX + threadIdx.x, r0 = threadIdx.y * PER, j0 = blockIdx.y * BY * PER + r0;
#if TILED
  __shared__ float held[BY * PER + 2][BX + 2];
  for (int q = threadIdx.y * BX + threadIdx.x; q < (BY * PER + 2) * (BX + 2); q += BX * BY)
    held[q / (BX + 2)][q % (BX + 2)] = in[(size_t)(blockIdx.y * BY * PER + q / (BX + 2)) * W + blockIdx.x * BX + q % (BX + 2)];
  __syncthreads();
#endif
  float v[3][3];
  auto row = [&](int r) {
#pragma unroll
    for (int c = 0; c < 3; c++)
#if TILED
      v[r % 3][c] = held[r0 + r][threadIdx.x + c];
#else
      v[r % 3][c] = in[(size_t)(j0 + r) * W + i + c];
#endif
  };
  row(0), row(1);
#pragma unroll
  for (int p = 0; p < PER; p++) {
    row(p + 2);
    float low = -1e30f, high = 1e30f, mid[3];
#pragma unroll
    for (int c = 0; c < 3; c++) {
      float a = v[0][c], b = v[1][c], d = v[2][c];
      sorted(a, b), sorted(b, d), sorted(a, b);
      low = fmaxf(low, a), mid[c] = b, high = fminf(high, d);
    }
    sorted(mid[0], mid[1]), sorted(mid[1], mid[2]), sorted(mid[0], mid[1]);
    sorted(low, mid[1]), sorted(mid[1], high), sorted(low, mid[1]);
    out[(size_t)(j0 + p) * width + i] = mid[1];
  }
}
#endif

#ifdef KERNEL_embedded  // rows of a table by number plus one by place, less their mean over their deviation: a warp a row, ROWS rows a warp, VEC halves at a time
extern "C" __global__ void __launch_bounds__(WARPS * 32) embedded(__half* __restrict__ out, const int* __restrict__ ids, const __half* __restrict__ table, const __half* __restrict__ places, const float* __restrict__ gamma, const float* __restrict__ beta, int seq) {
  constexpr int PARTS = COLS / (VEC * 32);
  struct alignas(VEC * 2) Some { __half v[VEC]; };
  const int lane = threadIdx.x % 32;
#pragma unroll kUnroll
  for (int q = 0; q < ROWS; q++) {
    const int row = (blockIdx.x * WARPS + threadIdx.x / 32) * ROWS + q;
    const __half *from = table + (size_t)ids[row] * COLS, *add = places + (size_t)(row % seq) * COLS;
    float v[PARTS][VEC], sum = 0.0f, square = 0.0f;
#pragma unroll
    for (int k = 0; k < PARTS; k++) {
      const Some one = *(const Some*)(from + (k * 32 + lane) * VEC), two = *(const Some*)(add + (k * 32 + lane) * VEC);
#pragma unroll
      for (int e = 0; e < VEC; e++) v[k][e] = __half2float(one.v[e]) + __half2float(two.v[e]), sum += v[k][e];
    }
    for (int far = 16; far; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
    const float mean = sum / COLS;
#pragma unroll
    for (int k = 0; k < PARTS; k++)
#pragma unroll
      for (int e = 0; e < VEC; e++) v[k][e] -= mean, square += v[k][e] * v[k][e];
    for (int far = 16; far; far /= 2) square += __shfl_xor_sync(~0u, square, far);
    const float over = rsqrtf(square / COLS + 1e-5f);
#pragma unroll
    for (int k = 0; k < PARTS; k++) {
      Some some;
#pragma unroll
      for (int e = 0; e < VEC; e++) some.v[e] = __float2half(v[k][e] * over * gamma[(k * 32 + lane) * VEC + e] + beta[(k * 32 + lane) * VEC + e]);
      *(Some*)(out + (size_t)row * COLS + (k * 32 + lane) * VEC) = some;
    }
  }
}
#endif
