// Kernels in CUDA C++ as tuned codes and public samples commonly have them, of kinds that no earlier set has: tunables are
// macros of Kernel Tuner's names, sizes arguments.
#include <cuda_pipeline.h>
#include <float.h>
#include <mma.h>
#include <stdint.h>
#ifdef unroll_factor
constexpr int kUnroll = unroll_factor;
#endif

#ifdef KERNEL_buffered  // C = A B in single precision, `stages` buffers filled by cp.async of 16 bytes; rows of A lie padded
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) buffered(float* C, const float* __restrict__ A, const float* __restrict__ B, int N, int K) {
  constexpr int BM = block_size_y * tile_size_y, BN = block_size_x * tile_size_x, T = block_size_x * block_size_y, LDA = tile_k + padding;
  extern __shared__ float4 pool[];
  float *as = (float*)pool, *bs = as + stages * BM * LDA;
  const int t = threadIdx.y * block_size_x + threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  auto fetch = [&](int k0) {
    int s = k0 / tile_k % stages;
    if (k0 < K) {
#pragma unroll
      for (int e = t; e < BM * tile_k / 4; e += T) __pipeline_memcpy_async(&as[(s * BM + e / (tile_k / 4)) * LDA + e % (tile_k / 4) * 4], &A[(size_t)(row0 + e / (tile_k / 4)) * K + k0 + e % (tile_k / 4) * 4], 16);
#pragma unroll
      for (int e = t; e < BN * tile_k / 4; e += T) __pipeline_memcpy_async(&bs[(s * tile_k + e / (BN / 4)) * BN + e % (BN / 4) * 4], &B[(size_t)(k0 + e / (BN / 4)) * N + col0 + e % (BN / 4) * 4], 16);
    }
    __pipeline_commit();
  };
  float sum[tile_size_y][tile_size_x] = {};
#pragma unroll
  for (int s = 0; s < stages - 1; s++) fetch(s * tile_k);
  for (int k0 = 0; k0 < K; k0 += tile_k) {
    __pipeline_wait_prior(stages - 2);
    __syncthreads();
    fetch(k0 + (stages - 1) * tile_k);
    const float *a = as + k0 / tile_k % stages * BM * LDA, *b = bs + k0 / tile_k % stages * tile_k * BN;
#pragma unroll
    for (int k = 0; k < tile_k; k++) {
      float right[tile_size_x];
#pragma unroll
      for (int j = 0; j < tile_size_x; j += 4) *(float4*)&right[j] = *(const float4*)&b[k * BN + j * block_size_x + threadIdx.x * 4];
#pragma unroll
      for (int i = 0; i < tile_size_y; i++) {
        float left = a[(threadIdx.y + i * block_size_y) * LDA + k];
#pragma unroll
        for (int j = 0; j < tile_size_x; j++) sum[i][j] += left * right[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < tile_size_y; i++)
#pragma unroll
    for (int j = 0; j < tile_size_x; j += 4) *(float4*)&C[(size_t)(row0 + threadIdx.y + i * block_size_y) * N + col0 + j * block_size_x + threadIdx.x * 4] = *(float4*)&sum[i][j];
}
#endif

#ifdef KERNEL_coulomb  // potentials on a slice of a lattice, summed over all atoms, which lie in constant or in shared memory
__constant__ float4 atoms[ATOMS];
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) coulomb(float* out, const float4* __restrict__ list, int width, int height, float spacing) {
  const int x0 = blockIdx.x * block_size_x * tile_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y;
  float sum[tile_size_x] = {};
  const float py = y * spacing, px = x0 * spacing;
#if in_shared
  __shared__ float4 held[250];
  for (int a0 = 0; a0 < ATOMS; a0 += 250) {
    __syncthreads();
    for (int e = threadIdx.y * block_size_x + threadIdx.x; e < 250; e += block_size_x * block_size_y) held[e] = list[a0 + e];
    __syncthreads();
#pragma unroll kUnroll
    for (int k = 0; k < 250; k++) {
      float4 atom = held[k];
#else
  {
#pragma unroll kUnroll
    for (int k = 0; k < ATOMS; k++) {
      float4 atom = atoms[k];
#endif
      float dy = py - atom.y, rest = dy * dy + atom.z * atom.z;
#pragma unroll
      for (int i = 0; i < tile_size_x; i++) {
        float dx = px + i * (block_size_x * spacing) - atom.x;
        sum[i] += atom.w * rsqrtf(dx * dx + rest + 0.01f);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < tile_size_x; i++)
    if (y < height && x0 + i * block_size_x < width) out[(size_t)y * width + x0 + i * block_size_x] = sum[i];
}
#endif

#ifdef KERNEL_sobel  // edges of an image of bytes, per_thread pixels in a row a thread; use_shared: a tile with its border
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) sobel(uint8_t* __restrict__ out, const uint8_t* __restrict__ in, int width, int height) {
  constexpr int W = block_size_x * per_thread;
  const int x0 = blockIdx.x * W, y0 = blockIdx.y * block_size_y;
#if use_shared
  __shared__ uint8_t tile[block_size_y + 2][(W + 2 + 3) / 4 * 4];
  for (int r = threadIdx.y; r < block_size_y + 2; r += block_size_y)
    for (int c = threadIdx.x; c < W + 2; c += block_size_x) tile[r][c] = in[(size_t)min(max(y0 + r - 1, 0), height - 1) * width + min(max(x0 + c - 1, 0), width - 1)];
  __syncthreads();
#endif
  const int y = y0 + threadIdx.y;
  if (y >= height) return;
  int held[3][per_thread + 2];
#pragma unroll
  for (int r = 0; r < 3; r++)
#pragma unroll
    for (int c = 0; c < per_thread + 2; c++) {
#if use_shared
      held[r][c] = tile[threadIdx.y + r][threadIdx.x * per_thread + c];
#else
      held[r][c] = in[(size_t)min(max(y + r - 1, 0), height - 1) * width + min(max(x0 + (int)threadIdx.x * per_thread + c - 1, 0), width - 1)];
#endif
    }
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < per_thread; i++) {
    int gx = held[0][i + 2] - held[0][i] + 2 * (held[1][i + 2] - held[1][i]) + held[2][i + 2] - held[2][i];
    int gy = held[2][i] - held[0][i] + 2 * (held[2][i + 1] - held[0][i + 1]) + held[2][i + 2] - held[0][i + 2];
    word |= (uint32_t)min(255, abs(gx) + abs(gy)) << (8 * i);
  }
  const int x = x0 + threadIdx.x * per_thread;
  if (x >= width) return;
#if words
  if (per_thread == 4) *(uint32_t*)&out[(size_t)y * width + x] = word;
  else *(uint16_t*)&out[(size_t)y * width + x] = (uint16_t)word;
#else
#pragma unroll
  for (int i = 0; i < per_thread; i++) out[(size_t)y * width + x + i] = (uint8_t)(word >> (8 * i));
#endif
}
#endif

#ifdef KERNEL_cumsum  // sums of all before along rows: a row a block, per_thread numbers a thread, by shuffles, and what is carried on
extern "C" __global__ void __launch_bounds__(block_size_x) cumsum(float* out, const float* __restrict__ in, int cols) {
  constexpr int WARPS = block_size_x / 32;
  __shared__ float sums[2][WARPS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  in += (size_t)blockIdx.x * cols;
  out += (size_t)blockIdx.x * cols;
  float carry = 0.0f;
  int turn = 0;
  for (int c = threadIdx.x * per_thread; c - (int)threadIdx.x * per_thread < cols; c += block_size_x * per_thread, turn ^= 1) {
    float v[per_thread];
#pragma unroll
    for (int i = 0; i < per_thread; i += vector) {
      if (vector == 4) *(float4*)&v[i] = c < cols ? *(const float4*)&in[c + i] : make_float4(0, 0, 0, 0);
      else v[i] = c < cols ? in[c + i] : 0.0f;
    }
#pragma unroll
    for (int i = 1; i < per_thread; i++) v[i] += v[i - 1];
    float mine = v[per_thread - 1], sum = mine;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      float far = __shfl_up_sync(~0u, sum, d);
      if (lane >= d) sum += far;
    }
    if (lane == 31) sums[turn][warp] = sum;
    __syncthreads();
    float before = carry;
#if scan_again
    float others = lane < WARPS ? sums[turn][lane] : 0.0f;
#pragma unroll
    for (int d = 1; d < WARPS; d *= 2) {
      float far = __shfl_up_sync(~0u, others, d);
      if (lane >= d) others += far;
    }
    float upto = __shfl_sync(~0u, others, max(warp - 1, 0));
    if (warp) before += upto;
    carry += __shfl_sync(~0u, others, WARPS - 1);
#else
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      float s = sums[turn][w];
      if (w < warp) before += s;
      carry += s;
    }
#endif
    before += sum - mine;
#pragma unroll
    for (int i = 0; i < per_thread; i++) v[i] += before;
    if (c < cols) {
#pragma unroll
      for (int i = 0; i < per_thread; i += vector) {
        if (vector == 4) *(float4*)&out[c + i] = *(float4*)&v[i];
        else out[c + i] = v[i];
      }
    }
  }
}
#endif

#ifdef KERNEL_winograd  // tiles of 4 x 4 numbers, two apart, as F(2 x 2, 3 x 3) takes its input: sixteen planes, or sixteen numbers in a row
extern "C" __global__ void __launch_bounds__(block_size_x) winograd(float* __restrict__ out, const float* __restrict__ in, int side, int planes) {
  const int half = side / 2, tiles = half * half;
  const size_t all = (size_t)planes * tiles;
#pragma unroll
  for (int turn = 0; turn < per_thread; turn++) {
    size_t at = ((size_t)blockIdx.x * per_thread + turn) * block_size_x + threadIdx.x;
    if (at >= all) return;
    int plane = at / tiles, tile = at % tiles, y0 = tile / half * 2 - 1, x0 = tile % half * 2 - 1;
    const float* from = in + (size_t)plane * side * side;
    float d[4][4], w[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) d[i][j] = y0 + i >= 0 && y0 + i < side && x0 + j >= 0 && x0 + j < side ? from[(y0 + i) * side + x0 + j] : 0.0f;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      w[0][j] = d[0][j] - d[2][j];
      w[1][j] = d[1][j] + d[2][j];
      w[2][j] = d[2][j] - d[1][j];
      w[3][j] = d[1][j] - d[3][j];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float4 v = make_float4(w[i][0] - w[i][2], w[i][1] + w[i][2], w[i][2] - w[i][1], w[i][1] - w[i][3]);
#if in_planes
      out[(4 * i) * all + at] = v.x;
      out[(4 * i + 1) * all + at] = v.y;
      out[(4 * i + 2) * all + at] = v.z;
      out[(4 * i + 3) * all + at] = v.w;
#else
      *(float4*)&out[at * 16 + 4 * i] = v;
#endif
    }
  }
}
#endif

#ifdef KERNEL_fdtd  // electric fields of a Yee cell from magnetic ones: tile_size_z planes a thread, the last plane kept or read again
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) fdtd(float* __restrict__ oex, float* __restrict__ oey, float* __restrict__ oez, const float* __restrict__ ex, const float* __restrict__ ey, const float* __restrict__ ez, const float* __restrict__ hx, const float* __restrict__ hy, const float* __restrict__ hz, int nx, int ny, int nz, float c) {
  const int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y, z0 = blockIdx.z * tile_size_z;
  if (x >= nx || y >= ny) return;
  const size_t plane = (size_t)nx * ny;
  size_t at = z0 * plane + (size_t)y * nx + x;
  const int left = x > 0 ? 1 : 0, up = y > 0 ? nx : 0;
  float hxb = 0.0f, hyb = 0.0f;
  if (keep) {
    size_t b = z0 > 0 ? at - plane : at;
    hxb = hx[b], hyb = hy[b];
  }
#pragma unroll kUnroll
  for (int k = 0; k < tile_size_z; k++, at += plane) {
    if (z0 + k >= nz) return;
    float hxm = hx[at], hym = hy[at], hzm = hz[at];
    if (!keep) {
      size_t b = z0 + k > 0 ? at - plane : at;
      hxb = hx[b], hyb = hy[b];
    }
    oex[at] = ex[at] + c * (hzm - hz[at - up] - hym + hyb);
    oey[at] = ey[at] + c * (hxm - hxb - hzm + hz[at - left]);
    oez[at] = ez[at] + c * (hym - hy[at - left] - hxm + hx[at - up]);
    hxb = hxm, hyb = hym;
  }
}
#endif

#ifdef KERNEL_asian  // means of paths of prices by Monte Carlo: a linear generator, Box and Muller; sums of payoffs by shuffles, a sum a block
extern "C" __global__ void __launch_bounds__(block_size_x) asian(float* partial, int paths, float drift, float spread) {
  float total = 0.0f;
  for (int p = 0; p < per_thread; p++) {
    int path = (blockIdx.x * per_thread + p) * block_size_x + threadIdx.x;
    if (path >= paths) break;
    uint32_t state = path * 2654435761u + 12345u;
    float s = 1.0f, mean = 0.0f;
#pragma unroll kUnroll
    for (int i = 0; i < STEPS; i += 2) {
      state = state * 1664525u + 1013904223u;
      float u = ((state >> 8) + 0.5f) * 5.9604645e-8f;
      state = state * 1664525u + 1013904223u;
      float v = ((state >> 8) + 0.5f) * 5.9604645e-8f, a, b;
#if fast_math
      float r = __fsqrt_rn(-2.0f * __logf(u));
      __sincosf(6.2831853f * v, &a, &b);
      s *= __expf(drift + spread * (r * a));
      mean += s;
      s *= __expf(drift + spread * (r * b));
#else
      float r = sqrtf(-2.0f * logf(u));
      sincosf(6.2831853f * v, &a, &b);
      s *= expf(drift + spread * (r * a));
      mean += s;
      s *= expf(drift + spread * (r * b));
#endif
      mean += s;
    }
    total += fmaxf(mean * (1.0f / STEPS) - 1.0f, 0.0f);
  }
  __shared__ float sums[block_size_x / 32];
#pragma unroll
  for (int d = 16; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < block_size_x / 32; w++) total += sums[w];
    partial[blockIdx.x] = total;
  }
}
#endif

#ifdef KERNEL_tables  // rounds of a cipher by four tables of words in shared memory, or one that is turned; or in global memory by L1
__constant__ uint32_t keys[64];
__device__ __forceinline__ uint32_t turn(uint32_t x, int by) { return by ? x << by | x >> (32 - by) : x; }
extern "C" __global__ void __launch_bounds__(block_size_x) tables(uint4* __restrict__ out, const uint4* __restrict__ in, const uint32_t* __restrict__ table, int count) {
#if in_shared
  __shared__ uint32_t held[one_table ? 1 : 4][256];
  for (int e = threadIdx.x; e < (one_table ? 256 : 1024); e += block_size_x) held[e / 256][e % 256] = turn(table[e % 256], e / 256 * 8);
  __syncthreads();
#define LOOK(n, x) (one_table ? turn(held[0][(x) & 255], n * 8) : held[one_table ? 0 : n][(x) & 255])
#else
#define LOOK(n, x) turn(table[(x) & 255], n * 8)
#endif
  for (int i = blockIdx.x * block_size_x + threadIdx.x; i < count; i += gridDim.x * block_size_x) {
    uint4 s = in[i];
#pragma unroll kUnroll
    for (int r = 0; r < ROUNDS; r++) {
      uint4 n;
      n.x = LOOK(0, s.x) ^ LOOK(1, s.y >> 8) ^ LOOK(2, s.z >> 16) ^ LOOK(3, s.w >> 24) ^ keys[4 * r];
      n.y = LOOK(0, s.y) ^ LOOK(1, s.z >> 8) ^ LOOK(2, s.w >> 16) ^ LOOK(3, s.x >> 24) ^ keys[4 * r + 1];
      n.z = LOOK(0, s.z) ^ LOOK(1, s.w >> 8) ^ LOOK(2, s.x >> 16) ^ LOOK(3, s.y >> 24) ^ keys[4 * r + 2];
      n.w = LOOK(0, s.w) ^ LOOK(1, s.x >> 8) ^ LOOK(2, s.y >> 16) ^ LOOK(3, s.z >> 24) ^ keys[4 * r + 3];
      s = n;
    }
    out[i] = s;
  }
}
#endif

#ifdef KERNEL_stats  // means and variances of channels of images, NCHW: a channel a block; running (Welford), or by two sums
extern "C" __global__ void __launch_bounds__(block_size_x) stats(float2* out, const float* __restrict__ in, int images, int channels, int plane) {
  float mean = 0.0f, square = 0.0f, count = 0.0f;
  for (int n = threadIdx.y; n < images; n += 1) {
    const float* from = in + ((size_t)n * channels + blockIdx.x) * plane;
#pragma unroll kUnroll
    for (int i = threadIdx.x * vector; i < plane; i += block_size_x * vector) {
      float v[vector];
      if (vector == 4) *(float4*)v = *(const float4*)&from[i];
      else v[0] = from[i];
#pragma unroll
      for (int j = 0; j < vector; j++) {
#if welford
        count += 1.0f;
        float d = v[j] - mean;
        mean += __fdividef(d, count);
        square += d * (v[j] - mean);
#else
        mean += v[j];
        square += v[j] * v[j];
#endif
      }
    }
  }
  __shared__ float sums[3][block_size_x / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto join = [&](float m, float s, float c) {
#if welford
    float all = count + c, d = m - mean;
    float part = all > 0.0f ? c / all : 0.0f;
    square += s + d * d * count * part;
    mean += d * part;
    count = all;
#else
    mean += m;
    square += s;
#endif
  };
#pragma unroll
  for (int d = 16; d; d /= 2) {
    float m = __shfl_down_sync(~0u, mean, d), s = __shfl_down_sync(~0u, square, d), c = __shfl_down_sync(~0u, count, d);
    join(m, s, c);
  }
  if (lane == 0) sums[0][warp] = mean, sums[1][warp] = square, sums[2][warp] = count;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < block_size_x / 32; w++) join(sums[0][w], sums[1][w], sums[2][w]);
    float all = (float)images * plane;
#if welford
    out[blockIdx.x] = make_float2(mean, square / all);
#else
    out[blockIdx.x] = make_float2(mean / all, square / all - mean / all * (mean / all));
#endif
  }
}
#endif

#ifdef KERNEL_tf32  // C = A B in tf32 by nvcuda::wmma 16 x 16 x 8: warps_y x warps_x warps of frags_y x frags_x, tiles by way of registers
extern "C" __global__ void __launch_bounds__(warps_x * warps_y * 32) tf32(float* C, const float* __restrict__ A, const float* __restrict__ B, int N, int K) {
  using namespace nvcuda::wmma;
  constexpr int BM = warps_y * frags_y * 16, BN = warps_x * frags_x * 16, T = warps_x * warps_y * 32, LDA = tile_k + padding, LDB = BN + padding;
  __shared__ float4 pool_a[BM * LDA / 4], pool_b[tile_k * LDB / 4];
  float *as = (float*)pool_a, *bs = (float*)pool_b;
  const int t = threadIdx.x, wy = t / 32 / warps_x, wx = t / 32 % warps_x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  constexpr int NA = BM * tile_k / 4 / T, NB = BN * tile_k / 4 / T;
  float4 ra[NA], rb[NB];
  auto read = [&](int k0) {
#pragma unroll
    for (int i = 0; i < NA; i++) {
      int e = t + i * T;
      ra[i] = *(const float4*)&A[(size_t)(row0 + e / (tile_k / 4)) * K + k0 + e % (tile_k / 4) * 4];
    }
#pragma unroll
    for (int i = 0; i < NB; i++) {
      int e = t + i * T;
      rb[i] = *(const float4*)&B[(size_t)(k0 + e / (BN / 4)) * N + col0 + e % (BN / 4) * 4];
    }
  };
  fragment<accumulator, 16, 16, 8, float> sum[frags_y][frags_x];
#pragma unroll
  for (int i = 0; i < frags_y; i++)
#pragma unroll
    for (int j = 0; j < frags_x; j++) fill_fragment(sum[i][j], 0.0f);
  read(0);
  for (int k0 = 0; k0 < K; k0 += tile_k) {
#pragma unroll
    for (int i = 0; i < NA; i++) *(float4*)&as[(t + i * T) / (tile_k / 4) * LDA + (t + i * T) % (tile_k / 4) * 4] = ra[i];
#pragma unroll
    for (int i = 0; i < NB; i++) *(float4*)&bs[(t + i * T) / (BN / 4) * LDB + (t + i * T) % (BN / 4) * 4] = rb[i];
    __syncthreads();
    if (k0 + tile_k < K) read(k0 + tile_k);
#pragma unroll
    for (int k = 0; k < tile_k; k += 8) {
      fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> a[frags_y];
      fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> b[frags_x];
#pragma unroll
      for (int i = 0; i < frags_y; i++) {
        load_matrix_sync(a[i], &as[(wy * frags_y + i) * 16 * LDA + k], LDA);
#pragma unroll
        for (int e = 0; e < a[i].num_elements; e++) a[i].x[e] = __float_to_tf32(a[i].x[e]);
      }
#pragma unroll
      for (int j = 0; j < frags_x; j++) {
        load_matrix_sync(b[j], &bs[k * LDB + (wx * frags_x + j) * 16], LDB);
#pragma unroll
        for (int e = 0; e < b[j].num_elements; e++) b[j].x[e] = __float_to_tf32(b[j].x[e]);
      }
#pragma unroll
      for (int i = 0; i < frags_y; i++)
#pragma unroll
        for (int j = 0; j < frags_x; j++) mma_sync(sum[i][j], a[i], b[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < frags_y; i++)
#pragma unroll
    for (int j = 0; j < frags_x; j++) store_matrix_sync(&C[(size_t)(row0 + (wy * frags_y + i) * 16) * N + col0 + (wx * frags_x + j) * 16], sum[i][j], N, mem_row_major);
}
#endif

#ifdef KERNEL_closest  // the eight smallest squared distances of each point to others in space, kept sorted in registers
extern "C" __global__ void __launch_bounds__(block_size_x) closest(float* out, const float4* __restrict__ points, const float4* __restrict__ others, int n, int m) {
  const int i = blockIdx.x * block_size_x + threadIdx.x;
  const float4 me = points[min(i, n - 1)];
  float best[8];
#pragma unroll
  for (int k = 0; k < 8; k++) best[k] = FLT_MAX;
  auto take = [&](float4 other) {
    float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z, d = dx * dx + dy * dy + dz * dz;
#if guarded
    if (d < best[7])
#endif
    {
#pragma unroll
      for (int k = 0; k < 8; k++) {
        float low = fminf(best[k], d);
        d = fmaxf(best[k], d);
        best[k] = low;
      }
    }
  };
#if in_shared
  __shared__ float4 held[tile];
  for (int j0 = 0; j0 < m; j0 += tile) {
    __syncthreads();
    for (int e = threadIdx.x; e < tile; e += block_size_x) held[e] = others[j0 + e];
    __syncthreads();
#pragma unroll kUnroll
    for (int j = 0; j < tile; j++) take(held[j]);
  }
#else
#pragma unroll kUnroll
  for (int j = 0; j < m; j++) take(others[j]);
#endif
  if (i < n) {
#pragma unroll
    for (int k = 0; k < 8; k++) out[(size_t)i * 8 + k] = best[k];
  }
}
#endif
