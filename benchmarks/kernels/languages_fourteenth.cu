// Kernels in CUDA C++ of a fourteenth set: a product with its epilogue, volumes, largest places, scans by heads, joint histograms, blocks of a sparse matrix, shallow water.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>
#ifdef UNROLL
constexpr int kUnroll = UNROLL;
#endif

#ifdef KERNEL_linear  // C = gelu(A B' + bias) + R in bf16: mma.sync with ldmatrix, STAGES of cp.async, WM x WN warps of FM x FN fragments
__device__ __forceinline__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void __launch_bounds__(WM * WN * 32) linear(__nv_bfloat16* __restrict__ C, const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, const float* __restrict__ bias, const __nv_bfloat16* __restrict__ R, int N, int K) {
  constexpr int BM = WM * FM * 16, BN = WN * FN * 8, LINE = BK + 8, THREADS = WM * WN * 32, STAGE = (BM + BN) * LINE;
  extern __shared__ __align__(16) __nv_bfloat16 ring[];
  const int tid = threadIdx.x, lane = tid % 32, wm = tid / 32 / WN * FM * 16, wn = tid / 32 % WN * FN * 8;
  const __nv_bfloat16 *a = A + (size_t)blockIdx.y * BM * K, *b = B + (size_t)blockIdx.x * BN * K;
  float sum[FM][FN][4] = {};
  auto copy = [&](int s, int k0) {
    __nv_bfloat16* to = ring + s * STAGE;
    for (int i = tid; i < (BM + BN) * BK / 8; i += THREADS) {
      const int r = i / (BK / 8), c = i % (BK / 8) * 8;
      const __nv_bfloat16* from = r < BM ? a + (size_t)r * K + k0 + c : b + (size_t)(r - BM) * K + k0 + c;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place(to + r * LINE + c)), "l"(from));
    }
  };
  for (int s = 0; s < STAGES - 1; s++) {
    copy(s, s * BK);
    asm volatile("cp.async.commit_group;");
  }
  for (int k0 = 0, s = 0; k0 < K; k0 += BK, s = s + 1 == STAGES ? 0 : s + 1) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    if (k0 + (STAGES - 1) * BK < K) copy((s + STAGES - 1) % STAGES, k0 + (STAGES - 1) * BK);
    asm volatile("cp.async.commit_group;");
    const __nv_bfloat16 *as = ring + s * STAGE, *bs = as + BM * LINE;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      unsigned x[FM][4], y[FN][2];
#pragma unroll
      for (int i = 0; i < FM; i++)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3]) : "r"(place(as + (wm + i * 16 + lane % 16) * LINE + k + lane / 16 * 8)));
#pragma unroll
      for (int j = 0; j < FN; j += 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(y[j][0]), "=r"(y[j][1]), "=r"(y[j + 1][0]), "=r"(y[j + 1][1]) : "r"(place(bs + (wn + j * 8 + lane / 16 * 8 + lane % 8) * LINE + k + lane / 8 % 2 * 8)));
#pragma unroll
      for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3]) : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j][0]), "r"(y[j][1]));
    }
  }
#pragma unroll
  for (int i = 0; i < FM; i++)
#pragma unroll
    for (int j = 0; j < FN; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int col = blockIdx.x * BN + wn + j * 8 + lane % 4 * 2;
        const size_t at = (size_t)(blockIdx.y * BM + wm + i * 16 + h * 8 + lane / 4) * N + col;
        const float2 add = *(const float2*)(bias + col), given = __bfloat1622float2(*(const __nv_bfloat162*)(R + at));
        float2 v = make_float2(sum[i][j][h * 2] + add.x, sum[i][j][h * 2 + 1] + add.y);
        v.x *= 0.5f * (1.0f + erff(v.x * 0.70710678f)), v.y *= 0.5f * (1.0f + erff(v.y * 0.70710678f));
        *(__nv_bfloat162*)(C + at) = __floats2bfloat162_rn(v.x + given.x, v.y + given.y);
      }
}
#endif

#ifdef KERNEL_conv3d  // 3 x 3 x 3 over CIN channels: a thread has PER columns of DEEP planes for OWN output channels; weights by way of shared memory
extern "C" __global__ void __launch_bounds__(BX * BY) conv3d(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ w, int width, int height, int deep) {
  __shared__ float held[CIN * 27 * OWN];
  const int tid = threadIdx.y * BX + threadIdx.x, i = (blockIdx.x * BX + threadIdx.x) * PER, j = blockIdx.y * BY + threadIdx.y;
  const int groups = COUT / OWN, k = blockIdx.z / groups, o = blockIdx.z % groups * OWN, W = width + 2, H = height + 2;
  for (int q = tid; q < CIN * 27 * OWN; q += BX * BY) held[q] = w[(size_t)(o + q % OWN) * CIN * 27 + q / OWN];
  __syncthreads();
  float sum[OWN][PER] = {};
#pragma unroll 1
  for (int c = 0; c < CIN; c++) {
#pragma unroll
    for (int u = 0; u < 3; u++)
#pragma unroll kUnroll
      for (int v = 0; v < 3; v++) {
        float row[PER + 2];
        const float* from = x + (((size_t)c * (deep + 2) + k + u) * H + j + v) * W + i;
#pragma unroll
        for (int p = 0; p < PER + 2; p++) row[p] = from[p];
#pragma unroll
        for (int t = 0; t < 3; t++)
#pragma unroll
          for (int n = 0; n < OWN; n++) {
            const float by = held[((c * 3 + u) * 9 + v * 3 + t) * OWN + n];
#pragma unroll
            for (int p = 0; p < PER; p++) sum[n][p] += by * row[p + t];
          }
      }
  }
#pragma unroll
  for (int n = 0; n < OWN; n++)
#pragma unroll
    for (int p = 0; p < PER; p++) out[(((size_t)(o + n) * deep + k) * height + j) * width + i + p] = sum[n][p];
}
#endif

#ifdef KERNEL_peaks  // the largest of each row and where it is: ROWS rows of LANES x WARPS threads a block, VEC halves at a time
extern "C" __global__ void __launch_bounds__(BLOCK) peaks(float* __restrict__ best, int* __restrict__ where, const __half* __restrict__ x, int cols) {
  __shared__ float tops[32];
  __shared__ int places[32];
  const __half* from = x + (size_t)blockIdx.x * cols;
  float top = -1e30f;
  int at = 0;
  struct alignas(VEC * 2) Some { __half v[VEC]; };
#pragma unroll kUnroll
  for (int c = threadIdx.x * VEC; c < cols; c += BLOCK * VEC) {
    const Some some = *(const Some*)(from + c);
#pragma unroll
    for (int e = 0; e < VEC; e++) {
      const float v = __half2float(some.v[e]);
      if (v > top) top = v, at = c + e;
    }
  }
  auto joined = [&](int far) {
    const float other = __shfl_xor_sync(~0u, top, far);
    const int there = __shfl_xor_sync(~0u, at, far);
    if (other > top || (other == top && there < at)) top = other, at = there;
  };
  for (int far = 16; far; far /= 2) joined(far);
  if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top, places[threadIdx.x / 32] = at;
  __syncthreads();
  if (threadIdx.x < 32) {
    top = threadIdx.x < BLOCK / 32 ? tops[threadIdx.x] : -1e30f, at = threadIdx.x < BLOCK / 32 ? places[threadIdx.x] : 1 << 30;
    for (int far = 16; far; far /= 2) joined(far);
    if (threadIdx.x == 0) best[blockIdx.x] = top, where[blockIdx.x] = at;
  }
}
#endif

#ifdef KERNEL_headed  // sums that begin again at each head, within tiles of BLOCK x ITEMS numbers
extern "C" __global__ void __launch_bounds__(BLOCK) headed(float* __restrict__ out, const float* __restrict__ x, const uint8_t* __restrict__ heads) {
  __shared__ float totals[BLOCK / 32];
  __shared__ int cuts[BLOCK / 32];
  __shared__ float staged[STAGED ? BLOCK * ITEMS + BLOCK * ITEMS / 32 : 1];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const size_t first = (size_t)blockIdx.x * BLOCK * ITEMS;
  float v[ITEMS];
  int cut[ITEMS];
  auto padded = [](int i) { return i + i / 32; };
  if (STAGED) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) staged[padded(i * BLOCK + t)] = x[first + i * BLOCK + t];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < ITEMS; i++) v[i] = STAGED ? staged[padded(t * ITEMS + i)] : x[first + t * ITEMS + i], cut[i] = heads[first + t * ITEMS + i];
#pragma unroll
  for (int i = 1; i < ITEMS; i++) v[i] += cut[i] ? 0.0f : v[i - 1], cut[i] |= cut[i - 1];
  float total = v[ITEMS - 1];
  int any = cut[ITEMS - 1];
  for (int far = 1; far < 32; far *= 2) {
    const float other = __shfl_up_sync(~0u, total, far);
    const int there = __shfl_up_sync(~0u, any, far);
    if (lane >= far) total += any ? 0.0f : other, any |= there;
  }
  float before = __shfl_up_sync(~0u, total, 1);
  int cut_before = __shfl_up_sync(~0u, any, 1);
  if (lane == 0) before = 0.0f, cut_before = 0;
  if (lane == 31) totals[warp] = total, cuts[warp] = any;
  __syncthreads();
  float above = 0.0f;
  for (int w = 0; w < warp; w++) above = totals[w] + (cuts[w] ? 0.0f : above);
  before += cut_before ? 0.0f : above;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) v[i] += cut[i] ? 0.0f : before;
  if (STAGED) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) staged[padded(t * ITEMS + i)] = v[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) out[first + i * BLOCK + t] = staged[padded(i * BLOCK + t)];
  } else {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) out[first + t * ITEMS + i] = v[i];
  }
}
#endif

#ifdef KERNEL_joint  // how often levels of two pictures meet, BINS x BINS: COPIES tables in shared memory a block
extern "C" __global__ void __launch_bounds__(BLOCK) joint(int* __restrict__ out, const uint32_t* __restrict__ one, const uint32_t* __restrict__ two, int words) {
  __shared__ int held[COPIES * BINS * BINS];
  for (int i = threadIdx.x; i < COPIES * BINS * BINS; i += BLOCK) held[i] = 0;
  __syncthreads();
  int* mine = held + threadIdx.x / 32 % COPIES * BINS * BINS;
#pragma unroll kUnroll
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < words; i += gridDim.x * BLOCK) {
    const uint32_t a = one[i], b = two[i];
#pragma unroll
    for (int s = 0; s < 32; s += 8) atomicAdd(mine + (a >> s & 255) * BINS / 256 * BINS + (b >> s & 255) * BINS / 256, 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < BINS * BINS; i += BLOCK) {
    int total = 0;
#pragma unroll
    for (int c = 0; c < COPIES; c++) total += held[c * BINS * BINS + i];
    atomicAdd(out + i, total);
  }
}
#endif

#ifdef KERNEL_blockrows  // a sparse matrix of blocks of 32 x 32 halves times COLS columns by wmma: WARPS warps of 16 x FN x 16 each
extern "C" __global__ void __launch_bounds__(2 * WARPS * 32) blockrows(float* __restrict__ out, const int* __restrict__ starts, const int* __restrict__ cols, const __half* __restrict__ held, const __half* __restrict__ x) {
  using namespace nvcuda;
  const int warp = threadIdx.x / 32, half_row = warp % 2, n0 = (blockIdx.x * WARPS + warp / 2) * FN * 16, row = blockIdx.y;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[FN];
#pragma unroll
  for (int j = 0; j < FN; j++) wmma::fill_fragment(sum[j], 0.0f);
  const int last = starts[row + 1];
#pragma unroll kUnroll
  for (int b = starts[row]; b < last; b++) {
    const __half *a = held + (size_t)b * 1024 + half_row * 512, *from = x + (size_t)cols[b] * 32 * COLS + n0;
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
      wmma::load_matrix_sync(left, a + k, 32);
#pragma unroll
      for (int j = 0; j < FN; j++) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
        wmma::load_matrix_sync(right, from + (size_t)k * COLS + j * 16, COLS);
        wmma::mma_sync(sum[j], left, right, sum[j]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < FN; j++) wmma::store_matrix_sync(out + (size_t)(row * 32 + half_row * 16) * COLS + n0 + j * 16, sum[j], COLS, wmma::mem_row_major);
}
#endif

#ifdef KERNEL_shallow  // a step of shallow water (Lax and Friedrichs): three fields, TILED: a tile with its border in shared memory
struct Water { float h, u, v; };
extern "C" __global__ void __launch_bounds__(BX * BY) shallow(float* __restrict__ out, const float* __restrict__ in, int width, int height, float by) {
  const int W = width + 2, i = blockIdx.x * BX + threadIdx.x;
  const size_t plane = (size_t)W * (height + 2), own = (size_t)width * height;
#if TILED
  __shared__ float held[3][BY * PER + 2][BX + 2];
  for (int q = threadIdx.y * BX + threadIdx.x; q < (BY * PER + 2) * (BX + 2); q += BX * BY) {
    const int r = q / (BX + 2), c = q % (BX + 2);
#pragma unroll
    for (int f = 0; f < 3; f++) held[f][r][c] = in[f * plane + (size_t)(blockIdx.y * BY * PER + r) * W + blockIdx.x * BX + c];
  }
  __syncthreads();
#endif
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int r = threadIdx.y + p * BY, j = blockIdx.y * BY * PER + r;
    auto at = [&](int y, int x) {
#if TILED
      return Water{held[0][r + y][threadIdx.x + x], held[1][r + y][threadIdx.x + x], held[2][r + y][threadIdx.x + x]};
#else
      const size_t to = (size_t)(j + y) * W + i + x;
      return Water{in[to], in[plane + to], in[2 * plane + to]};
#endif
    };
    const Water w = at(1, 0), e = at(1, 2), n = at(0, 1), s = at(2, 1);
    const float g = 4.905f;
    const float iw = 1.0f / w.h, ie = 1.0f / e.h, in_ = 1.0f / n.h, is = 1.0f / s.h;
    const size_t to = (size_t)j * width + i;
    out[to] = 0.25f * (w.h + e.h + n.h + s.h) - by * (e.u - w.u + s.v - n.v);
    out[own + to] = 0.25f * (w.u + e.u + n.u + s.u) - by * (e.u * e.u * ie + g * e.h * e.h - w.u * w.u * iw - g * w.h * w.h + s.u * s.v * is - n.u * n.v * in_);
    out[2 * own + to] = 0.25f * (w.v + e.v + n.v + s.v) - by * (e.u * e.v * ie - w.u * w.v * iw + s.v * s.v * is + g * s.h * s.h - n.v * n.v * in_ - g * n.h * n.h);
  }
}
#endif
