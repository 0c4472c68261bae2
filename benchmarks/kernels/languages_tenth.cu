// Kernels in CUDA C++ of kinds that no earlier set has: solvers, transforms, lattices, graphs, and layers of networks.
#include <cuda_fp16.h>
#include <stdint.h>
#ifdef UNROLL
constexpr int kUnroll = UNROLL;
#endif

#ifdef KERNEL_sampled  // products of rows of two matrices, at the places of a sparse one: LANES lanes a place, PER places in turn
extern "C" __global__ void __launch_bounds__(BLOCK) sampled(float* out, const int* __restrict__ rows, const int* __restrict__ cols, const float* __restrict__ A, const float* __restrict__ B) {
  const int lane = threadIdx.x % LANES, first = (blockIdx.x * BLOCK + threadIdx.x) / LANES * PER;
#pragma unroll
  for (int e = first; e < first + PER; e++) {
    const float *a = A + (size_t)rows[e] * DIM, *b = B + (size_t)cols[e] * DIM;
    float sum = 0.0f;
#pragma unroll
    for (int d = lane * VEC; d < DIM; d += LANES * VEC) {
      float u[VEC], v[VEC];
      if (VEC == 4) {
        *(float4*)u = *(const float4*)&a[d];
        *(float4*)v = *(const float4*)&b[d];
      } else {
        u[0] = a[d];
        v[0] = b[d];
      }
#pragma unroll
      for (int i = 0; i < VEC; i++) sum += u[i] * v[i];
    }
#pragma unroll
    for (int far = LANES / 2; far; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
    if (lane == 0) out[e] = sum;
  }
}
#endif

#ifdef KERNEL_byted  // y = scale (W x), weights of a byte: ROWS rows a warp, VEC bytes a load
extern "C" __global__ void __launch_bounds__(WARPS * 32) byted(float* y, const int8_t* __restrict__ W, const half* __restrict__ x, const float* __restrict__ scale, int K) {
  const int lane = threadIdx.x % 32, row = (blockIdx.x * WARPS + threadIdx.x / 32) * ROWS;
  float sum[ROWS] = {};
#pragma unroll 2
  for (int k = lane * VEC; k < K; k += 32 * VEC) {
    alignas(16) half right[VEC];
#pragma unroll
    for (int i = 0; i < VEC; i += VEC < 8 ? VEC : 8) {
      if (VEC >= 8) *(uint4*)&right[i] = *(const uint4*)&x[k + i];
      else *(uint2*)&right[i] = *(const uint2*)&x[k + i];
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      alignas(16) int8_t left[VEC];
      const int8_t* from = W + (size_t)(row + r) * K + k;
      if (VEC == 16) *(uint4*)left = *(const uint4*)from;
      else if (VEC == 8) *(uint2*)left = *(const uint2*)from;
      else *(uint32_t*)left = *(const uint32_t*)from;
#pragma unroll
      for (int i = 0; i < VEC; i++) sum[r] += (float)left[i] * __half2float(right[i]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
#pragma unroll
    for (int far = 16; far; far /= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], far);
    if (lane == 0) y[row + r] = scale[row + r] * sum[r];
  }
}
#endif

#ifdef KERNEL_fft512  // transforms of 512 complex numbers, 64 threads each of radix 8, exchanged through shared memory
__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ __forceinline__ void four(float2& a, float2& b, float2& c, float2& d) {
  float2 s = a + c, t = a - c, u = b + d, v = make_float2(b.y - d.y, d.x - b.x);
  a = s + u, b = t + v, c = s - u, d = t - v;
}
__device__ __forceinline__ void eight(float2* v) {
  four(v[0], v[2], v[4], v[6]);
  four(v[1], v[3], v[5], v[7]);
  const float h = 0.70710678f;
  float2 o[4] = {v[1], v[3] * make_float2(h, -h), make_float2(v[5].y, -v[5].x), v[7] * make_float2(-h, -h)};
  float2 e[4] = {v[0], v[2], v[4], v[6]};
#pragma unroll
  for (int k = 0; k < 4; k++) v[k] = e[k] + o[k], v[k + 4] = e[k] - o[k];
}
extern "C" __global__ void __launch_bounds__(64 * transforms) fft512(float2* out, const float2* __restrict__ in, const float2* __restrict__ roots) {
  constexpr int LINE = 512 + padding * 64;
#if in_parts
  __shared__ float pool[transforms * LINE];
#else
  __shared__ float2 pool[transforms * LINE];
#endif
  const int t = threadIdx.x % 64, which = threadIdx.x / 64;
  const size_t row = ((size_t)blockIdx.x * transforms + which) * 512;
  auto* held = pool + which * LINE;
  float2 v[8];
#pragma unroll
  for (int r = 0; r < 8; r++) v[r] = in[row + t + r * 64];
#pragma unroll
  for (int n = 1; n <= 64; n *= 8) {
#pragma unroll
    for (int r = 1; r < 8; r++) {
      int turn = t % n * (64 / n) * r;
      float2 w;
      if (by_table) w = roots[turn];
      else __sincosf(turn * -0.012271846f, &w.y, &w.x);
      if (n > 1) v[r] = v[r] * w;
    }
    eight(v);
    const int to = t / n * n * 8 + t % n;
    if (n == 64) {
#pragma unroll
      for (int r = 0; r < 8; r++) out[row + to + r * n] = v[r];
    } else {
#define AT(i) ((i) + padding * ((i) / 8))
#if in_parts
#pragma unroll
      for (int part = 0; part < 2; part++) {
        __syncthreads();
#pragma unroll
        for (int r = 0; r < 8; r++) held[AT(to + r * n)] = part ? v[r].y : v[r].x;
        __syncthreads();
#pragma unroll
        for (int r = 0; r < 8; r++) (part ? v[r].y : v[r].x) = held[AT(t + r * 64)];
      }
#else
      __syncthreads();
#pragma unroll
      for (int r = 0; r < 8; r++) held[AT(to + r * n)] = v[r];
      __syncthreads();
#pragma unroll
      for (int r = 0; r < 8; r++) v[r] = held[AT(t + r * 64)];
#endif
    }
  }
}
#endif

#ifdef KERNEL_solved  // L X = B for many triangles of ORDER: a warp each, a column of 32 a lane; L from L1, shared memory, or by shuffles
extern "C" __global__ void __launch_bounds__(WARPS * 32) solved(float* X, const float* __restrict__ L, const float* __restrict__ B) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const size_t one = (size_t)blockIdx.x * WARPS + warp;
  const float* l = L + one * ORDER * ORDER;
#if way == 1
  __shared__ float held[WARPS][ORDER * ORDER];
  for (int e = lane; e < ORDER * ORDER; e += 32) held[warp][e] = l[e];
  __syncwarp();
#elif way == 2
  float mine[ORDER];
#pragma unroll
  for (int i = 0; i < ORDER; i++) mine[i] = lane < ORDER ? l[i * ORDER + lane] : 0.0f;
#endif
  float x[ORDER];
#pragma unroll
  for (int i = 0; i < ORDER; i++) x[i] = B[(one * ORDER + i) * 32 + lane];
#pragma unroll
  for (int i = 0; i < ORDER; i++) {
    float sum = x[i];
#pragma unroll
    for (int j = 0; j <= i; j++) {
#if way == 0
      float v = __ldg(&l[i * ORDER + j]);
#elif way == 1
      float v = held[warp][i * ORDER + j];
#else
      float v = __shfl_sync(~0u, mine[i], j);
#endif
      if (j < i) sum -= v * x[j];
      else x[i] = fast_division ? __fdividef(sum, v) : sum / v;
    }
  }
#pragma unroll
  for (int i = 0; i < ORDER; i++) X[(one * ORDER + i) * 32 + lane] = x[i];
}
#endif

#ifdef KERNEL_gated  // C = silu(A G') * (A U') in half: mma.sync with ldmatrix, STAGES of cp.async, WM x WN warps of FM x FN
extern "C" __global__ void __launch_bounds__(WM * WN * 32) gated(half* C, const half* __restrict__ A, const half* __restrict__ G, const half* __restrict__ U, int N, int K) {
  constexpr int BM = WM * FM * 16, BN = WN * FN * 16, LINE = BK + 8, THREADS = WM * WN * 32, ALL = BM + 2 * BN;
  extern __shared__ __align__(128) half ring[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, wm = warp / WN, wn = warp % WN;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  float sum[2][FM][FN * 2][4] = {};
  auto copy = [&](int s, int k0) {
    for (int i = tid; i < ALL * (BK / 8); i += THREADS) {
      const int r = i / (BK / 8), c = i % (BK / 8) * 8;
      const half* from = r < BM ? A + (size_t)(m0 + r) * K : r < BM + BN ? G + (size_t)(n0 + r - BM) * K : U + (size_t)(n0 + r - BM - BN) * K;
      const unsigned to = __cvta_generic_to_shared(ring + (s * ALL + r) * LINE + c);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from + k0 + c));
    }
  };
  for (int s = 0; s < STAGES - 1; s++) {
    copy(s, s * BK);
    asm volatile("cp.async.commit_group;");
  }
  for (int t = 0; t < K / BK; t++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    if (t + STAGES - 1 < K / BK) copy((t + STAGES - 1) % STAGES, (t + STAGES - 1) * BK);
    asm volatile("cp.async.commit_group;");
    const half* as = ring + t % STAGES * ALL * LINE;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      unsigned a[FM][4];
#pragma unroll
      for (int i = 0; i < FM; i++) {
        const unsigned at = __cvta_generic_to_shared(as + ((wm * FM + i) * 16 + lane % 16) * LINE + k + lane / 16 * 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(at));
      }
#pragma unroll
      for (int of = 0; of < 2; of++)
#pragma unroll
        for (int j = 0; j < FN; j++) {
          unsigned b[4];
          const unsigned at = __cvta_generic_to_shared(as + (BM + of * BN + (wn * FN + j) * 16 + lane % 16) * LINE + k + lane / 16 * 8);
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at));
#pragma unroll
          for (int i = 0; i < FM; i++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
              float* d = sum[of][i][j * 2 + h];
              asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                           : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                           : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[h]), "r"(b[h + 2]));
            }
        }
    }
  }
#pragma unroll
  for (int i = 0; i < FM; i++)
#pragma unroll
    for (int j = 0; j < FN * 2; j++) {
      half* to = C + (size_t)(m0 + (wm * FM + i) * 16 + lane / 4) * N + n0 + wn * FN * 16 + j * 8 + lane % 4 * 2;
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; e++) v[e] = __fdividef(sum[0][i][j][e], 1.0f + __expf(-sum[0][i][j][e])) * sum[1][i][j][e];
      *(half2*)to = __floats2half2_rn(v[0], v[1]);
      *(half2*)(to + (size_t)8 * N) = __floats2half2_rn(v[2], v[3]);
    }
}
#endif

#ifdef KERNEL_combined  // what TOP experts made of a token, by weights: rows that a list names, TOKENS tokens a block, VEC halves a load
extern "C" __global__ void __launch_bounds__(BLOCK) combined(half* out, const half* __restrict__ made, const int* __restrict__ where, const float* __restrict__ weights, int dim) {
#pragma unroll 1
  for (int i = 0; i < TOKENS; i++) {
    const int token = blockIdx.x * TOKENS + i;
    int row[TOP];
    float by[TOP];
#pragma unroll
    for (int k = 0; k < TOP; k++) row[k] = where[token * TOP + k], by[k] = weights[token * TOP + k];
    for (int c = threadIdx.x * VEC; c < dim; c += BLOCK * VEC) {
      float sum[VEC] = {};
#pragma unroll
      for (int k = 0; k < TOP; k++) {
        alignas(16) half2 v[VEC / 2];
        const half* from = made + (size_t)row[k] * dim + c;
        if (VEC == 8) *(uint4*)v = *(const uint4*)from;
        else if (VEC == 4) *(uint2*)v = *(const uint2*)from;
        else v[0] = *(const half2*)from;
#pragma unroll
        for (int e = 0; e < VEC / 2; e++) {
          float2 w = __half22float2(v[e]);
          sum[2 * e] += by[k] * w.x;
          sum[2 * e + 1] += by[k] * w.y;
        }
      }
      alignas(16) half2 v[VEC / 2];
#pragma unroll
      for (int e = 0; e < VEC / 2; e++) v[e] = __floats2half2_rn(sum[2 * e], sum[2 * e + 1]);
      half* to = out + (size_t)token * dim + c;
      if (VEC == 8) *(uint4*)to = *(uint4*)v;
      else if (VEC == 4) *(uint2*)to = *(uint2*)v;
      else *(half2*)to = v[0];
    }
  }
}
#endif

#ifdef KERNEL_lattice19  // a step of a lattice of 19 speeds in space: pulled, relaxed, stored; periodic; planes of a speed, or cells of 19 numbers
__constant__ float weights[19] = {1 / 3.f, 1 / 18.f, 1 / 18.f, 1 / 18.f, 1 / 18.f, 1 / 18.f, 1 / 18.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) lattice19(float* __restrict__ to, const float* __restrict__ from, int nx, int ny, int nz, float omega) {
  constexpr int CX[19] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0};
  constexpr int CY[19] = {0, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 1, -1, 1, -1};
  constexpr int CZ[19] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, -1, -1, 1, 1, -1, -1, 1};
  const int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y;
  if (x >= nx || y >= ny) return;
  const int cells = nx * ny * nz;
  const int xs[3] = {x == nx - 1 ? 0 : x + 1, x, x == 0 ? nx - 1 : x - 1}, ys[3] = {y == ny - 1 ? 0 : y + 1, y, y == 0 ? ny - 1 : y - 1};
#pragma unroll 1
  for (int z = blockIdx.z * tile_size_z; z < min(nz, (int)(blockIdx.z + 1) * tile_size_z); z++) {
    const int zs[3] = {z == nz - 1 ? 0 : z + 1, z, z == 0 ? nz - 1 : z - 1};
    float f[19], rho = 0.0f, ux = 0.0f, uy = 0.0f, uz = 0.0f;
#pragma unroll
    for (int q = 0; q < 19; q++) {
      int at = (zs[CZ[q] + 1] * ny + ys[CY[q] + 1]) * nx + xs[CX[q] + 1];
      f[q] = from[in_planes ? q * cells + at : at * 19 + q];
      rho += f[q], ux += CX[q] * f[q], uy += CY[q] * f[q], uz += CZ[q] * f[q];
    }
    const float over = fast_division ? __fdividef(1.0f, rho) : 1.0f / rho;
    ux *= over, uy *= over, uz *= over;
    const float rest = 1.0f - 1.5f * (ux * ux + uy * uy + uz * uz);
    const int at = (z * ny + y) * nx + x;
#pragma unroll
    for (int q = 0; q < 19; q++) {
      float cu = CX[q] * ux + CY[q] * uy + CZ[q] * uz;
      float even = weights[q] * rho * (rest + 3.0f * cu + 4.5f * cu * cu);
      to[in_planes ? q * cells + at : at * 19 + q] = f[q] + omega * (even - f[q]);
    }
  }
}
#endif

#ifdef KERNEL_elements  // a diffusion operator on spectral elements of ORDER^3 points: a layer at a time, a column of points a thread
__constant__ float slopes[ORDER * ORDER];
extern "C" __global__ void __launch_bounds__(ORDER * ORDER * many) elements(float* __restrict__ out, const float* __restrict__ u, const float* __restrict__ g, const float* __restrict__ D) {
  constexpr int P = ORDER, POINTS = P * P * P;
  __shared__ float layer[many][P][P + padding], along[many][P][P + padding], across[many][P][P + padding];
  const int i = threadIdx.x, j = threadIdx.y, e = threadIdx.z;
#if by_constant
#define SLOPE(a, b) slopes[(a) * P + (b)]
#else
  __shared__ float held[P][P + padding];
  if (e == 0) held[j][i] = D[j * P + i];
#define SLOPE(a, b) held[a][b]
#endif
  const size_t at = ((size_t)blockIdx.x * many + e) * POINTS + j * P + i;
  float col[P], sum[P] = {};
#pragma unroll
  for (int k = 0; k < P; k++) col[k] = u[at + k * P * P];
#pragma unroll
  for (int k = 0; k < P; k++) {
    __syncthreads();
    layer[e][j][i] = col[k];
    __syncthreads();
    float r = 0.0f, s = 0.0f, t = 0.0f;
#pragma unroll
    for (int m = 0; m < P; m++) {
      r += SLOPE(i, m) * layer[e][j][m];
      s += SLOPE(j, m) * layer[e][m][i];
      t += SLOPE(k, m) * col[m];
    }
    const float* by = g + (at - j * P - i) * 3 + k * P * P + j * P + i;
    along[e][j][i] = by[0] * r;
    across[e][j][i] = by[POINTS] * s;
    t *= by[2 * POINTS];
    __syncthreads();
#pragma unroll
    for (int m = 0; m < P; m++) {
      sum[k] += SLOPE(m, i) * along[e][j][m] + SLOPE(m, j) * across[e][m][i];
      sum[m] += SLOPE(k, m) * t;
    }
  }
#pragma unroll
  for (int k = 0; k < P; k++) out[at + k * P * P] = sum[k];
}
#endif

#ifdef KERNEL_disparity  // of two images, how far what is around a pixel lies apart: sums of absolute differences over 5 x 5, DEPTH shifts
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) disparity(int* __restrict__ out, const uint8_t* __restrict__ left, const uint8_t* __restrict__ right, int width, int height) {
  constexpr int ROWS = block_size_y * per_thread;
  const int x0 = blockIdx.x * block_size_x, y0 = blockIdx.y * ROWS, x = x0 + threadIdx.x;
  auto clamped = [&](const uint8_t* of, int r, int c) { return of[(size_t)min(max(r, 0), height - 1) * width + min(max(c, 0), width - 1)]; };
#if use_shared
  __shared__ uint8_t a[ROWS + 4][block_size_x + 4], b[ROWS + 4][block_size_x + DEPTH + 3];
  for (int r = threadIdx.y; r < ROWS + 4; r += block_size_y) {
    for (int c = threadIdx.x; c < block_size_x + 4; c += block_size_x) a[r][c] = clamped(left, y0 + r - 2, x0 + c - 2);
    for (int c = threadIdx.x; c < block_size_x + DEPTH + 3; c += block_size_x) b[r][c] = clamped(right, y0 + r - 2, x0 + c - DEPTH - 1);
  }
  __syncthreads();
#define LEFT(r, c) a[(r) - y0 + 2][(c) - x0 + 2]
#define RIGHT(r, c) b[(r) - y0 + 2][(c) - x0 + DEPTH + 1]
#else
#define LEFT(r, c) clamped(left, r, c)
#define RIGHT(r, c) clamped(right, r, c)
#endif
  if (x >= width) return;
  const int y = y0 + threadIdx.y * per_thread;
  int mine[per_thread + 4][5], best[per_thread];
#pragma unroll
  for (int r = 0; r < per_thread + 4; r++)
#pragma unroll
    for (int c = 0; c < 5; c++) mine[r][c] = LEFT(y + r - 2, x + c - 2);
#pragma unroll
  for (int i = 0; i < per_thread; i++) best[i] = 0x7fffffff;
#pragma unroll 1
  for (int d = 0; d < DEPTH; d++) {
    int rows[per_thread + 4];
#pragma unroll
    for (int r = 0; r < per_thread + 4; r++) {
      rows[r] = 0;
#pragma unroll
      for (int c = 0; c < 5; c++) rows[r] += abs(mine[r][c] - (int)RIGHT(y + r - 2, x + c - 2 - d));
    }
#pragma unroll
    for (int i = 0; i < per_thread; i++) best[i] = min(best[i], (rows[i] + rows[i + 1] + rows[i + 2] + rows[i + 3] + rows[i + 4]) * DEPTH + d);
  }
#pragma unroll
  for (int i = 0; i < per_thread; i++)
    if (y + i < height) out[(size_t)(y + i) * width + x] = best[i];
}
#endif

#ifdef KERNEL_stepped  // x + a p, r - a q, and r r summed: the last block that ends adds up what the others have left
extern "C" __global__ void __launch_bounds__(BLOCK) stepped(float* __restrict__ xo, float* __restrict__ ro, float* total, float* partial, unsigned* ended, const float* __restrict__ x, const float* __restrict__ r, const float* __restrict__ p, const float* __restrict__ q, float a, int n) {
  __shared__ float sums[BLOCK / 32];
  __shared__ bool last;
  auto added = [&](float v) {
#pragma unroll
    for (int far = 16; far; far /= 2) v += __shfl_down_sync(~0u, v, far);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < BLOCK / 32 ? sums[threadIdx.x] : 0.0f;
#pragma unroll
    for (int far = BLOCK / 64; far; far /= 2) v += __shfl_down_sync(~0u, v, far);
    return v;
  };
  float sum = 0.0f;
#pragma unroll kUnroll
  for (int i = (blockIdx.x * BLOCK + threadIdx.x) * VEC; i < n; i += gridDim.x * BLOCK * VEC) {
    alignas(16) float u[VEC], v[VEC], s[VEC], t[VEC];
    if (VEC == 4) {
      *(float4*)u = *(const float4*)&x[i];
      *(float4*)v = *(const float4*)&r[i];
      *(float4*)s = *(const float4*)&p[i];
      *(float4*)t = *(const float4*)&q[i];
    } else {
      u[0] = x[i], v[0] = r[i], s[0] = p[i], t[0] = q[i];
    }
#pragma unroll
    for (int e = 0; e < VEC; e++) u[e] += a * s[e], v[e] -= a * t[e], sum += v[e] * v[e];
    if (VEC == 4) {
      *(float4*)&xo[i] = *(float4*)u;
      *(float4*)&ro[i] = *(float4*)v;
    } else {
      xo[i] = u[0], ro[i] = v[0];
    }
  }
  sum = added(sum);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(ended, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  sum = 0.0f;
  for (int i = threadIdx.x; i < gridDim.x; i += BLOCK) sum += __ldcg(&partial[i]);
  sum = added(sum);
  if (threadIdx.x == 0) total[0] = sum;
}
#endif
