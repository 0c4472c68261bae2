// Kernels in CUDA C++ of a sixteenth set: as courses write them, threads that walk rows of their own and what is written instead.
#include <cuda_fp16.h>
#include <stdint.h>
#ifdef UNROLL
constexpr int kUnroll = UNROLL;
#endif
#ifdef VEC
struct alignas(VEC * 4) Floats { float v[VEC]; };
#endif
__device__ __forceinline__ float warp_sum(float x) {
  for (int far = 16; far; far /= 2) x += __shfl_xor_sync(~0u, x, far);
  return x;
}

#ifdef KERNEL_walked  // sums of rows: a thread a row, VEC numbers at a time; LANES 32: a warp a row
extern "C" __global__ void __launch_bounds__(BLOCK) walked(float* __restrict__ out, const float* __restrict__ x) {
  const int row = (blockIdx.x * BLOCK + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  const float* mine = x + (size_t)row * COLS;
  float sum = 0.0f;
#pragma unroll kUnroll
  for (int c = lane * VEC; c < COLS; c += LANES * VEC) {
    const Floats some = *(const Floats*)(mine + c);
#pragma unroll
    for (int e = 0; e < VEC; e++) sum += some.v[e];
  }
  if (LANES == 32) sum = warp_sum(sum);
  if (lane == 0) out[row] = sum;
}
#endif

#ifdef KERNEL_naivemv  // y = A x: a thread a row
extern "C" __global__ void __launch_bounds__(BLOCK) naivemv(float* __restrict__ y, const float* __restrict__ A, const float* __restrict__ x, int cols) {
  const int row = blockIdx.x * BLOCK + threadIdx.x;
  float sum = 0.0f;
#pragma unroll kUnroll
  for (int c = 0; c < cols; c += VEC) {
    const Floats some = *(const Floats*)(A + (size_t)row * cols + c), by = *(const Floats*)(x + c);
#pragma unroll
    for (int e = 0; e < VEC; e++) sum += some.v[e] * by.v[e];
  }
  y[row] = sum;
}
#endif

#ifdef KERNEL_ownsoft  // softmax of rows, three walks of a thread over a row of its own
extern "C" __global__ void __launch_bounds__(BLOCK) ownsoft(float* __restrict__ out, const float* __restrict__ x, int cols) {
  const size_t first = (size_t)(blockIdx.x * BLOCK + threadIdx.x) * cols;
  float top = -1e30f, sum = 0.0f;
#pragma unroll kUnroll
  for (int c = 0; c < cols; c++) top = fmaxf(top, x[first + c]);
#pragma unroll kUnroll
  for (int c = 0; c < cols; c++) sum += __expf(x[first + c] - top);
#pragma unroll kUnroll
  for (int c = 0; c < cols; c++) out[first + c] = __expf(x[first + c] - top) / sum;
}
#endif

#ifdef KERNEL_structs  // lengths of FIELDS numbers each: APART 0: an array of structs, 1: an array of each field
extern "C" __global__ void __launch_bounds__(BLOCK) structs(float* __restrict__ out, const float* __restrict__ x, int n) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  float sum = 0.0f;
#pragma unroll kUnroll
  for (int f = 0; f < FIELDS; f++) {
    const float v = APART ? x[(size_t)f * n + i] : x[(size_t)i * FIELDS + f];
    sum += v * v;
  }
  out[i] = sum;
}
#endif

#ifdef KERNEL_binned  // counts of 256 values in COPIES of shared memory a block, a warp's by its number, STRIDE words apart
extern "C" __global__ void __launch_bounds__(BLOCK) binned(int* __restrict__ out, const int* __restrict__ x, int n) {
  __shared__ int held[COPIES * (256 * STRIDE + 1)];
  for (int i = threadIdx.x; i < COPIES * (256 * STRIDE + 1); i += BLOCK) held[i] = 0;
  __syncthreads();
  int* mine = held + threadIdx.x / 32 % COPIES * (256 * STRIDE + 1);
#pragma unroll kUnroll
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) atomicAdd(mine + x[i] * STRIDE, 1);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += BLOCK) {
    int sum = 0;
    for (int c = 0; c < COPIES; c++) sum += held[c * (256 * STRIDE + 1) + b * STRIDE];
    if (sum) atomicAdd(out + b, sum);
  }
}
#endif

#ifdef KERNEL_ladder  // C = A B as a course's steps: 0 lanes down a column, 1 along a row, 2 tiles of shared memory, 3 a column of TM a thread, 4 TM x TM, 5 the same by four
extern "C" __global__ void __launch_bounds__(THREADS) ladder(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int N, int K) {
#if STEP <= 1
  const int first = threadIdx.x / SIDE, second = threadIdx.x % SIDE;
  const int row = blockIdx.y * (THREADS / SIDE) + (STEP ? first : second), col = blockIdx.x * SIDE + (STEP ? second : first);
  float sum = 0.0f;
  for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + col];
  C[row * N + col] = sum;
#elif STEP == 2
  __shared__ float as[SIDE][SIDE], bs[SIDE][SIDE];
  const int r = threadIdx.x / SIDE, c = threadIdx.x % SIDE, row = blockIdx.y * SIDE + r, col = blockIdx.x * SIDE + c;
  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += SIDE) {
    as[r][c] = A[row * K + k0 + c], bs[r][c] = B[(k0 + r) * N + col];
    __syncthreads();
    for (int k = 0; k < SIDE; k++) sum += as[r][k] * bs[k][c];
    __syncthreads();
  }
  C[row * N + col] = sum;
#else
  constexpr int BK = 8, TN = STEP == 3 ? 1 : TM;
  __shared__ __align__(16) float as[STEP == 5 ? BK * SIDE : SIDE * BK], bs[BK * SIDE];
  const int t = threadIdx.x, r = t / (SIDE / TN), c = t % (SIDE / TN);
  A += (size_t)blockIdx.y * SIDE * K, B += blockIdx.x * SIDE;
  float sums[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
#if STEP == 5
#pragma unroll
    for (int i = t; i < SIDE * BK / 4; i += THREADS) {
      const float4 v = *(const float4*)(A + (size_t)(i / (BK / 4)) * K + k0 + i % (BK / 4) * 4);
      const float each[4] = {v.x, v.y, v.z, v.w};
      for (int e = 0; e < 4; e++) as[(i % (BK / 4) * 4 + e) * SIDE + i / (BK / 4)] = each[e];
      *(float4*)(bs + i * 4) = *(const float4*)(B + (size_t)(k0 + i / (SIDE / 4)) * N + i % (SIDE / 4) * 4);
    }
#else
    for (int i = t; i < SIDE * BK; i += THREADS) {
      as[i] = A[(size_t)(i / BK) * K + k0 + i % BK];
      bs[i] = B[(size_t)(k0 + i / SIDE) * N + i % SIDE];
    }
#endif
    __syncthreads();
    for (int k = 0; k < BK; k++) {
      float u[TM], v[TN];
#pragma unroll
      for (int i = 0; i < TM; i++) u[i] = STEP == 5 ? as[k * SIDE + r * TM + i] : as[(r * TM + i) * BK + k];
#pragma unroll
      for (int j = 0; j < TN; j++) v[j] = bs[k * SIDE + c * TN + j];
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sums[i][j] += u[i] * v[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) C[(size_t)(blockIdx.y * SIDE + r * TM + i) * N + blockIdx.x * SIDE + c * TN + j] = sums[i][j];
#endif
}
#endif

#ifdef KERNEL_rowmv  // y = A x of halves: LANES threads a row, a warp or a block
extern "C" __global__ void __launch_bounds__(BLOCK) rowmv(float* __restrict__ y, const __half* __restrict__ A, const __half* __restrict__ x, int cols) {
  struct alignas(WIDE * 2) Some { __half v[WIDE]; };
  __shared__ float parts[32];
  const int t = threadIdx.x, lane = t % LANES, row = blockIdx.x * (BLOCK / LANES) + t / LANES;
  float sum = 0.0f;
#pragma unroll kUnroll
  for (int c = lane * WIDE; c < cols; c += LANES * WIDE) {
    const Some some = *(const Some*)(A + (size_t)row * cols + c), by = *(const Some*)(x + c);
#pragma unroll
    for (int e = 0; e < WIDE; e++) sum += __half2float(some.v[e]) * __half2float(by.v[e]);
  }
  sum = warp_sum(sum);
  if (LANES > 32) {
    if (t % 32 == 0) parts[t / 32] = sum;
    __syncthreads();
    sum = warp_sum(t % 32 < LANES / 32 ? parts[t % 32] : 0.0f);
  }
  if (lane == 0) y[row] = sum;
}
#endif

#ifdef KERNEL_csr  // a sparse matrix by a vector: LANES threads a row
extern "C" __global__ void __launch_bounds__(BLOCK) csr(float* __restrict__ y, const int* __restrict__ starts, const int* __restrict__ cols, const float* __restrict__ held, const float* __restrict__ x) {
  const int row = (blockIdx.x * BLOCK + threadIdx.x) / LANES, last = starts[row + 1];
  float sum = 0.0f;
#pragma unroll kUnroll
  for (int i = starts[row] + threadIdx.x % LANES; i < last; i += LANES) sum += held[i] * x[cols[i]];
  for (int far = LANES / 2; far; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
  if (threadIdx.x % LANES == 0) y[row] = sum;
}
#endif

#ifdef KERNEL_scanned  // sums of each row's numbers so far: a block a row, PER numbers a thread at a time, its own in a row
extern "C" __global__ void __launch_bounds__(BLOCK) scanned(float* __restrict__ out, const float* __restrict__ x, int cols) {
  __shared__ float parts[32];
  const int t = threadIdx.x;
  const size_t first = (size_t)blockIdx.x * cols;
  float carried = 0.0f;
  for (int c = 0; c < cols; c += BLOCK * PER) {
    float v[PER];
#pragma unroll
    for (int e = 0; e < PER; e++) v[e] = x[first + c + t * PER + e] + (e ? v[e ? e - 1 : 0] : 0.0f);
    float sum = v[PER - 1];
    for (int far = 1; far < 32; far *= 2) {
      const float before = __shfl_up_sync(~0u, sum, far);
      if (t % 32 >= far) sum += before;
    }
    if (t % 32 == 31) parts[t / 32] = sum;
    __syncthreads();
    float base = carried + sum - v[PER - 1];
    for (int w = 0; w < BLOCK / 32; w++) {
      if (w < t / 32) base += parts[w];
      carried += parts[w];
    }
#pragma unroll
    for (int e = 0; e < PER; e++) out[first + c + t * PER + e] = base + v[e];
    __syncthreads();
  }
}
#endif

#ifdef KERNEL_pulled  // n bodies, each thread one, by way of tiles of shared memory or not
extern "C" __global__ void __launch_bounds__(BLOCK) pulled(float* __restrict__ out, const float* __restrict__ pos, int n) {
  const float4* p = (const float4*)pos;
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  const float4 me = p[i];
  float x = 0.0f, y = 0.0f, z = 0.0f;
  auto pull = [&](float4 o) {
    const float a = o.x - me.x, b = o.y - me.y, c = o.z - me.z, far = rsqrtf(a * a + b * b + c * c + 1e-3f), by = o.w * far * far * far;
    x += a * by, y += b * by, z += c * by;
  };
#if TILED
  __shared__ float4 held[BLOCK];
  for (int j = 0; j < n; j += BLOCK) {
    held[threadIdx.x] = p[j + threadIdx.x];
    __syncthreads();
#pragma unroll kUnroll
    for (int k = 0; k < BLOCK; k++) pull(held[k]);
    __syncthreads();
  }
#else
#pragma unroll kUnroll
  for (int j = 0; j < n; j++) pull(p[j]);
#endif
  ((float4*)out)[i] = make_float4(x, y, z, 0.0f);
}
#endif

#ifdef KERNEL_turned  // transposes: WAY 0 lanes along rows read, 1 along rows written, 2 by shared memory, 3 with a column more
extern "C" __global__ void __launch_bounds__(SIDE * DEEP) turned(float* __restrict__ out, const float* __restrict__ x, int rows, int cols) {
  const int tx = threadIdx.x, ty = threadIdx.y;
#if WAY <= 1
#pragma unroll
  for (int j = 0; j < SIDE; j += DEEP) {
    const int r = WAY ? blockIdx.y * SIDE + tx : blockIdx.y * SIDE + ty + j, c = WAY ? blockIdx.x * SIDE + ty + j : blockIdx.x * SIDE + tx;
    out[(size_t)c * rows + r] = x[(size_t)r * cols + c];
  }
#else
  __shared__ float held[SIDE][SIDE + WAY - 2];
#pragma unroll
  for (int j = 0; j < SIDE; j += DEEP) held[ty + j][tx] = x[(size_t)(blockIdx.y * SIDE + ty + j) * cols + blockIdx.x * SIDE + tx];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < SIDE; j += DEEP) out[(size_t)(blockIdx.x * SIDE + ty + j) * rows + blockIdx.y * SIDE + tx] = held[tx][ty + j];
#endif
}
#endif

#ifdef KERNEL_seven  // a stencil of seven points, PER planes a thread; KEPT: the planes behind stay in registers
extern "C" __global__ void __launch_bounds__(BX * BY) seven(float* __restrict__ out, const float* __restrict__ in, int width, int height) {
  const int W = width + 2, i = blockIdx.x * BX + threadIdx.x + 1, j = blockIdx.y * BY + threadIdx.y + 1, k0 = blockIdx.z * PER + 1;
  const size_t plane = (size_t)W * (height + 2), at = (size_t)j * W + i;
  float below = in[(k0 - 1) * plane + at], here = in[k0 * plane + at];
#pragma unroll
  for (int k = k0; k < k0 + PER; k++) {
    const float* p = in + k * plane + at;
    if (!KEPT) below = p[-(ptrdiff_t)plane], here = p[0];
    const float above = p[plane];
    out[((size_t)(k - 1) * height + j - 1) * width + i - 1] = 0.4f * here + 0.1f * (below + above + p[-1] + p[1] + p[-W] + p[W]);
    below = here, here = above;
  }
}
#endif

#ifdef KERNEL_entropies  // cross entropies of rows, a block a row, one walk
extern "C" __global__ void __launch_bounds__(BLOCK) entropies(float* __restrict__ out, const float* __restrict__ x, const int* __restrict__ labels, int cols) {
  __shared__ float tops[32], sums[32];
  const float* mine = x + (size_t)blockIdx.x * cols;
  const int t = threadIdx.x;
  float top = -1e30f, sum = 0.0f;
#pragma unroll kUnroll
  for (int c = t * VEC; c < cols; c += BLOCK * VEC) {
    const Floats some = *(const Floats*)(mine + c);
    float here = top;
#pragma unroll
    for (int e = 0; e < VEC; e++) here = fmaxf(here, some.v[e]);
    sum *= __expf(top - here);
#pragma unroll
    for (int e = 0; e < VEC; e++) sum += __expf(some.v[e] - here);
    top = here;
  }
  auto joined = [&](float other, float more) {
    const float here = fmaxf(top, other);
    sum = sum * __expf(top - here) + more * __expf(other - here);
    top = here;
  };
  for (int far = 16; far; far /= 2) joined(__shfl_xor_sync(~0u, top, far), __shfl_xor_sync(~0u, sum, far));
  if (t % 32 == 0) tops[t / 32] = top, sums[t / 32] = sum;
  __syncthreads();
  top = t % 32 < BLOCK / 32 ? tops[t % 32] : -1e30f, sum = t % 32 < BLOCK / 32 ? sums[t % 32] : 0.0f;
  for (int far = 16; far; far /= 2) joined(__shfl_xor_sync(~0u, top, far), __shfl_xor_sync(~0u, sum, far));
  if (t == 0) out[blockIdx.x] = __logf(sum) + top - mine[labels[blockIdx.x]];
}
#endif

#ifdef KERNEL_decoded  // attention of one query a head, 128 halves: WARPS warps share its keys, each lane four of a row
extern "C" __global__ void __launch_bounds__(WARPS * 32) decoded(float* __restrict__ out, const float* __restrict__ q, const __half* __restrict__ K, const __half* __restrict__ V, int seq) {
  struct alignas(8) Some { __half v[4]; };
  __shared__ float tops[WARPS], sums[WARPS], parts[WARPS][128];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const size_t first = (size_t)blockIdx.x * seq * 128 + lane * 4;
  float asked[4], made[4] = {}, top = -1e30f, sum = 0.0f;
  for (int e = 0; e < 4; e++) asked[e] = q[blockIdx.x * 128 + lane * 4 + e] * 0.08838835f;
#pragma unroll kUnroll
  for (int s = warp; s < seq; s += WARPS) {
    const Some key = *(const Some*)(K + first + (size_t)s * 128), held = *(const Some*)(V + first + (size_t)s * 128);
    float dot = 0.0f;
    for (int e = 0; e < 4; e++) dot += asked[e] * __half2float(key.v[e]);
    dot = warp_sum(dot);
    const float here = fmaxf(top, dot), old = __expf(top - here), now = __expf(dot - here);
    sum = sum * old + now, top = here;
    for (int e = 0; e < 4; e++) made[e] = made[e] * old + now * __half2float(held.v[e]);
  }
  for (int e = 0; e < 4; e++) parts[warp][lane * 4 + e] = made[e];
  if (lane == 0) tops[warp] = top, sums[warp] = sum;
  __syncthreads();
  for (int d = threadIdx.x; d < 128; d += WARPS * 32) {
    float most = -1e30f, over = 0.0f, all = 0.0f;
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, tops[w]);
    for (int w = 0; w < WARPS; w++) over += sums[w] * __expf(tops[w] - most), all += parts[w][d] * __expf(tops[w] - most);
    out[blockIdx.x * 128 + d] = all / over;
  }
}
#endif
