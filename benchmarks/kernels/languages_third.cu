// Kernels in CUDA C++ as they are commonly written: sizes as arguments, guards, blockDim, dynamic shared memory, the
// pipeline and matrix libraries of the toolkit. Tunables are macros, see languages.cu.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <stdint.h>
#include <float.h>
#ifdef UNROLL
constexpr int kUnroll = UNROLL;
#endif

#ifdef KERNEL_sgemm  // C = alpha A B + beta C: BM x BN tiles, BK deep, warps of WM x WN, threads of TM x TN, float4 loads, A transposed in shared memory
extern "C" __global__ void __launch_bounds__(BM / WM * (BN / WN) * 32) sgemm(float* C, const float* A, const float* B, int M, int N, int K, float alpha, float beta) {
  constexpr int THREADS = BM / WM * (BN / WN) * 32, WSN = WN / TN >= 8 ? 8 : WN / TN, WSM = 32 / WSN;
  constexpr int IM = WM / (WSM * TM), IN = WN / (WSN * TN);
  __shared__ float As[BK * BM], Bs[BK * BN];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warpRow = warp / (BN / WN), warpCol = warp % (BN / WN), rowInWarp = lane / WSN, colInWarp = lane % WSN;
  A += blockIdx.y * BM * K;
  B += blockIdx.x * BN;
  C += (blockIdx.y * BM + warpRow * WM) * N + blockIdx.x * BN + warpCol * WN;
  float acc[IM * TM][IN * TN] = {0.0f}, regM[IM * TM], regN[IN * TN];
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = threadIdx.x; i < BM * BK / 4; i += THREADS) {
      const int row = i / (BK / 4), col = i % (BK / 4);
      const float4 t = reinterpret_cast<const float4*>(&A[row * K + col * 4])[0];
      As[(col * 4 + 0) * BM + row] = t.x;
      As[(col * 4 + 1) * BM + row] = t.y;
      As[(col * 4 + 2) * BM + row] = t.z;
      As[(col * 4 + 3) * BM + row] = t.w;
    }
    for (int i = threadIdx.x; i < BK * BN / 4; i += THREADS) {
      const int row = i / (BN / 4), col = i % (BN / 4);
      reinterpret_cast<float4*>(&Bs[row * BN + col * 4])[0] = reinterpret_cast<const float4*>(&B[row * N + col * 4])[0];
    }
    __syncthreads();
    for (int k = 0; k < BK; ++k) {
#pragma unroll
      for (int i = 0; i < IM; ++i)
#pragma unroll
        for (int m = 0; m < TM; ++m) regM[i * TM + m] = As[k * BM + warpRow * WM + i * WSM * TM + rowInWarp * TM + m];
#pragma unroll
      for (int j = 0; j < IN; ++j)
#pragma unroll
        for (int n = 0; n < TN; ++n) regN[j * TN + n] = Bs[k * BN + warpCol * WN + j * WSN * TN + colInWarp * TN + n];
#pragma unroll
      for (int m = 0; m < IM * TM; ++m)
#pragma unroll
        for (int n = 0; n < IN * TN; ++n) acc[m][n] += regM[m] * regN[n];
    }
    A += BK;
    B += BK * N;
    __syncthreads();
  }
  for (int i = 0; i < IM; ++i)
    for (int j = 0; j < IN; ++j)
      for (int m = 0; m < TM; ++m)
        for (int n = 0; n < TN; n += 4) {
          float4* at = reinterpret_cast<float4*>(&C[(i * WSM * TM + rowInWarp * TM + m) * N + j * WSN * TN + colInWarp * TN + n]);
          float4 c = *at;
          const float* r = &acc[i * TM + m][j * TN + n];
          c.x = alpha * r[0] + beta * c.x, c.y = alpha * r[1] + beta * c.y, c.z = alpha * r[2] + beta * c.z, c.w = alpha * r[3] + beta * c.w;
          *at = c;
        }
}
#endif

#ifdef KERNEL_hgemm  // C = A B in half by wmma, STAGES buffers filled with __pipeline_memcpy_async; WM x WN warps of FM x FN fragments
using namespace nvcuda;
extern "C" __global__ void hgemm(half* C, const half* A, const half* B, int M, int N, int K) {
  extern __shared__ half smem[];
  constexpr int BM = WM * FM * 16, BN = WN * FN * 16, LDA = BK + 8, LDB = BN + 8, SIZE = BM * LDA + BK * LDB;
  const int bm = blockIdx.y * BM, bn = blockIdx.x * BN, tid = threadIdx.x, warp = tid / 32, wm = warp / WN, wn = warp % WN;
  auto load = [&](int stage, int k0) {
    half *as = smem + stage * SIZE, *bs = as + BM * LDA;
    for (int i = tid; i < BM * BK / 8; i += blockDim.x) {
      int r = i / (BK / 8), c = i % (BK / 8) * 8;
      __pipeline_memcpy_async(as + r * LDA + c, A + (size_t)(bm + r) * K + k0 + c, 16);
    }
    for (int i = tid; i < BK * BN / 8; i += blockDim.x) {
      int r = i / (BN / 8), c = i % (BN / 8) * 8;
      __pipeline_memcpy_async(bs + r * LDB + c, B + (size_t)(k0 + r) * N + bn + c, 16);
    }
  };
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FM][FN];
  for (int i = 0; i < FM; i++)
    for (int j = 0; j < FN; j++) wmma::fill_fragment(acc[i][j], 0.0f);
  for (int s = 0; s < STAGES - 1; s++) {
    load(s, s * BK);
    __pipeline_commit();
  }
  int tiles = K / BK;
  for (int t = 0; t < tiles; t++) {
    if (t + STAGES - 1 < tiles) load((t + STAGES - 1) % STAGES, (t + STAGES - 1) * BK);
    __pipeline_commit();
    __pipeline_wait_prior(STAGES - 1);
    __syncthreads();
    half *as = smem + t % STAGES * SIZE, *bs = as + BM * LDA;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[FM];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[FN];
      for (int i = 0; i < FM; i++) wmma::load_matrix_sync(a[i], as + ((wm * FM + i) * 16) * LDA + k, LDA);
      for (int j = 0; j < FN; j++) wmma::load_matrix_sync(b[j], bs + k * LDB + (wn * FN + j) * 16, LDB);
      for (int i = 0; i < FM; i++)
        for (int j = 0; j < FN; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < FM; i++)
    for (int j = 0; j < FN; j++) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, half> out;
      for (int e = 0; e < out.num_elements; e++) out.x[e] = __float2half(acc[i][j].x[e]);
      wmma::store_matrix_sync(C + (size_t)(bm + (wm * FM + i) * 16) * N + bn + (wn * FN + j) * 16, out, N, wmma::mem_row_major);
    }
}
#endif

#ifdef KERNEL_box27  // means of 27 neighbours: BX x BY x BZ threads, the block with its halo in shared memory
extern "C" __global__ void box27(float* out, const float* in, int nx, int ny, int nz) {
  __shared__ float tile[BZ + 2][BY + 2][BX + 2];
  const int x0 = blockIdx.x * BX, y0 = blockIdx.y * BY, z0 = blockIdx.z * BZ;
  const int tid = (threadIdx.z * BY + threadIdx.y) * BX + threadIdx.x;
  for (int i = tid; i < (BX + 2) * (BY + 2) * (BZ + 2); i += BX * BY * BZ) {
    int lx = i % (BX + 2), ly = i / (BX + 2) % (BY + 2), lz = i / ((BX + 2) * (BY + 2));
    int gx = min(max(x0 + lx - 1, 0), nx - 1), gy = min(max(y0 + ly - 1, 0), ny - 1), gz = min(max(z0 + lz - 1, 0), nz - 1);
    tile[lz][ly][lx] = in[((size_t)gz * ny + gy) * nx + gx];
  }
  __syncthreads();
  const int x = x0 + threadIdx.x, y = y0 + threadIdx.y, z = z0 + threadIdx.z;
  if (x >= nx || y >= ny || z >= nz) return;
  float sum = 0;
#pragma unroll
  for (int dz = 0; dz < 3; dz++)
#pragma unroll
    for (int dy = 0; dy < 3; dy++)
#pragma unroll
      for (int dx = 0; dx < 3; dx++) sum += tile[threadIdx.z + dz][threadIdx.y + dy][threadIdx.x + dx];
  out[((size_t)z * ny + y) * nx + x] = sum / 27.0f;
}
#endif

#ifdef KERNEL_warpsoft  // softmax of rows of halves: a warp a row, ROWS_PER_WARP of them at once, VEC halves a load
extern "C" __global__ void warpsoft(half* out, const half* in, int rows, int cols) {
  constexpr int PER = COLS / 32;
  const int lane = threadIdx.x, first = (blockIdx.x * blockDim.y + threadIdx.y) * ROWS_PER_WARP;
  float v[ROWS_PER_WARP][PER];
  struct alignas(2 * VEC) Vec { half at[VEC]; };
#pragma unroll
  for (int r = 0; r < ROWS_PER_WARP; r++) {
    if (first + r >= rows) continue;
#pragma unroll
    for (int i = 0; i < PER; i += VEC) {
      Vec t = *reinterpret_cast<const Vec*>(in + (size_t)(first + r) * cols + i * 32 + lane * VEC);
#pragma unroll
      for (int j = 0; j < VEC; j++) v[r][i + j] = __half2float(t.at[j]);
    }
  }
  float m[ROWS_PER_WARP], s[ROWS_PER_WARP];
#pragma unroll
  for (int r = 0; r < ROWS_PER_WARP; r++) {
    m[r] = v[r][0];
    for (int i = 1; i < PER; i++) m[r] = m[r] > v[r][i] ? m[r] : v[r][i];
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2)
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++) {
      float b = __shfl_xor_sync(0xffffffff, m[r], o, 32);
      m[r] = m[r] < b ? b : m[r];
    }
#pragma unroll
  for (int r = 0; r < ROWS_PER_WARP; r++) {
    s[r] = 0;
    for (int i = 0; i < PER; i++) s[r] += (v[r][i] = expf(v[r][i] - m[r]));
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2)
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; r++) s[r] += __shfl_xor_sync(0xffffffff, s[r], o, 32);
#pragma unroll
  for (int r = 0; r < ROWS_PER_WARP; r++) {
    if (first + r >= rows) break;
#pragma unroll
    for (int i = 0; i < PER; i += VEC) {
      Vec t;
#pragma unroll
      for (int j = 0; j < VEC; j++) t.at[j] = __float2half(v[r][i + j] / s[r]);
      *reinterpret_cast<Vec*>(out + (size_t)(first + r) * cols + i * 32 + lane * VEC) = t;
    }
  }
}
#endif

#ifdef KERNEL_permute  // (batch, height, channels) to (batch, channels, height) of halves, one block a tile of TC channels x TH heights, VEC heights a store
extern "C" __global__ void permute(half* out, const half* in, int height, int channels) {
  __shared__ half tile[TH][TC + PAD];
  const int n = blockIdx.z, h0 = blockIdx.y * TH, c0 = blockIdx.x * TC;
  in += (size_t)n * height * channels;
  out += (size_t)n * height * channels;
  for (int i = threadIdx.x; i < TH * TC / 2; i += blockDim.x) {
    int h = i / (TC / 2), c = i % (TC / 2) * 2;
    *reinterpret_cast<half2*>(&tile[h][c]) = *reinterpret_cast<const half2*>(&in[(size_t)(h0 + h) * channels + c0 + c]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < TH * TC / VEC; i += blockDim.x) {
    int c = i / (TH / VEC), h = i % (TH / VEC) * VEC;
    alignas(2 * VEC) half t[VEC];
#pragma unroll
    for (int j = 0; j < VEC; j++) t[j] = tile[h + j][c];
    struct alignas(2 * VEC) Vec { half at[VEC]; };
    *reinterpret_cast<Vec*>(&out[(size_t)(c0 + c) * height + h0 + h]) = *reinterpret_cast<Vec*>(t);
  }
}
#endif

#ifdef KERNEL_dwconv  // depthwise 5 x 5, NCHW: a block a plane's tile of BX x BY threads, each OX outputs in a row
extern "C" __global__ void dwconv(float* out, const float* __restrict__ in, const float* __restrict__ w, int C, int H, int W) {
  const int plane = blockIdx.z, c = plane % C;
  const int ox = (blockIdx.x * blockDim.x + threadIdx.x) * OX, oy = blockIdx.y * blockDim.y + threadIdx.y;
  if (oy >= H || ox >= W) return;
  const float* src = in + (size_t)plane * H * W;
  float acc[OX] = {0};
#pragma unroll kUnroll
  for (int ky = 0; ky < 5; ky++) {
    const int y = oy + ky - 2;
    if (y < 0 || y >= H) continue;
    float row[OX + 4];
#pragma unroll
    for (int i = 0; i < OX + 4; i++) {
      const int x = ox + i - 2;
      row[i] = x >= 0 && x < W ? __ldg(src + y * W + x) : 0.0f;
    }
#pragma unroll
    for (int kx = 0; kx < 5; kx++) {
      const float k = __ldg(w + c * 25 + ky * 5 + kx);
#pragma unroll
      for (int i = 0; i < OX; i++) acc[i] += k * row[i + kx];
    }
  }
#pragma unroll
  for (int i = 0; i < OX; i++)
    if (ox + i < W) out[(size_t)plane * H * W + oy * W + ox + i] = acc[i];
}
#endif

#ifdef KERNEL_radix4  // one pass of a Stockham transform of radix 4 over all of n numbers in global memory
extern "C" __global__ void radix4(float2* out, const float2* in, int n, int p) {
  for (int r = 0; r < PER; r++) {
    const int i = (blockIdx.x * PER + r) * blockDim.x + threadIdx.x, quarter = n / 4;
    if (i >= quarter) return;
    const int k = i & (p - 1), j = ((i - k) << 2) + k;
    float2 u[4];
#pragma unroll
    for (int q = 0; q < 4; q++) u[q] = in[i + q * quarter];
    const float angle = -3.14159265358979f * k / (2 * p);
#pragma unroll
    for (int q = 1; q < 4; q++) {
      float s, c;
      if (FAST) __sincosf(angle * q, &s, &c);
      else sincosf(angle * q, &s, &c);
      u[q] = make_float2(u[q].x * c - u[q].y * s, u[q].x * s + u[q].y * c);
    }
    const float2 a = {u[0].x + u[2].x, u[0].y + u[2].y}, b = {u[0].x - u[2].x, u[0].y - u[2].y};
    const float2 d = {u[1].x + u[3].x, u[1].y + u[3].y}, e = {u[1].y - u[3].y, u[3].x - u[1].x};
    out[j] = make_float2(a.x + d.x, a.y + d.y);
    out[j + p] = make_float2(b.x + e.x, b.y + e.y);
    out[j + 2 * p] = make_float2(a.x - d.x, a.y - d.y);
    out[j + 3 * p] = make_float2(b.x - e.x, b.y - e.y);
  }
}
#endif

#ifdef KERNEL_ell  // a sparse matrix by columns of `width` slots a row: a thread a row
extern "C" __global__ void ell(float* __restrict__ y, const float* __restrict__ values, const int* __restrict__ cols, const float* __restrict__ x, int rows, int width) {
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
    float sum = 0;
#pragma unroll kUnroll
    for (int k = 0; k < width; k++) {
      const int col = cols[k * rows + row];
      if (col >= 0) sum += values[k * rows + row] * x[col];
    }
    y[row] = sum;
  }
}
#endif

#ifdef KERNEL_copy  // VEC floats a load, STREAM: with hints that nothing is read again
extern "C" __global__ void copy(float* __restrict__ out, const float* __restrict__ in, size_t n) {
  struct alignas(4 * VEC) Vec { float at[VEC]; };
  const size_t stride = (size_t)gridDim.x * blockDim.x, count = n / VEC;
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i + (UNROLL - 1) * stride < count; i += UNROLL * stride) {
    Vec t[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) t[u] = reinterpret_cast<const Vec*>(in)[i + u * stride];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) reinterpret_cast<Vec*>(out)[i + u * stride] = t[u];
  }
  for (; i < count; i += stride) reinterpret_cast<Vec*>(out)[i] = reinterpret_cast<const Vec*>(in)[i];
}
#endif

#ifdef KERNEL_options  // Black-Scholes, PER options a thread
__device__ float cnd(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  float c = 0.39894228040143267f * expf(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1.0f - c : c;
}
extern "C" __global__ void options(float* __restrict__ call, float* __restrict__ put, const float* __restrict__ price, const float* __restrict__ strike, const float* __restrict__ years, float r, float vol, int n) {
  for (int i0 = (blockIdx.x * blockDim.x + threadIdx.x) * PER; i0 < n; i0 += gridDim.x * blockDim.x * PER) {
#pragma unroll
    for (int j = 0; j < PER; j++) {
      const int i = i0 + j;
      if (i >= n) break;
      const float s = price[i] + 5.0f, x = strike[i] * 100.0f + 1.0f, t = years[i] * 10.0f + 0.25f, sq = sqrtf(t);
      const float d1 = (logf(s / x) + (r + 0.5f * vol * vol) * t) / (vol * sq), d2 = d1 - vol * sq, c1 = cnd(d1), c2 = cnd(d2);
      const float e = expf(-r * t);
      call[i] = s * c1 - x * e * c2;
      put[i] = x * e * (1.0f - c2) - s * (1.0f - c1);
    }
  }
}
#endif

#ifdef KERNEL_rope  // rotary embedding of halves: a block a token, threads over heads and pairs
extern "C" __global__ void rope(half* out, const half* in, const float* cosine, const float* sine, int heads, int dim) {
  const int half_dim = dim / 2;
  for (int t = 0; t < TOKENS; t++) {
    const size_t token = (size_t)blockIdx.x * TOKENS + t;
    for (int i = threadIdx.x; i < heads * half_dim / VEC; i += blockDim.x) {
      const int h = i / (half_dim / VEC), p = i % (half_dim / VEC) * VEC;
      const half* x = in + (token * heads + h) * dim;
      half* y = out + (token * heads + h) * dim;
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        const float c = cosine[token * half_dim + p + j], s = sine[token * half_dim + p + j];
        const float a = __half2float(x[p + j]), b = __half2float(x[p + j + half_dim]);
        y[p + j] = __float2half(a * c - b * s);
        y[p + j + half_dim] = __float2half(b * c + a * s);
      }
    }
  }
}
#endif

#ifdef KERNEL_quantised  // rows to bytes: the largest of a row, then the row again
extern "C" __global__ void quantised(int8_t* out, float* scales, const float* in, int cols) {
  __shared__ float part[32];
  const float4* row = reinterpret_cast<const float4*>(in + (size_t)blockIdx.x * cols);
  float most = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
    float4 v = row[i];
    most = fmaxf(most, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
  }
  for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_down_sync(~0u, most, o));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x < 32) {
    most = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_down_sync(~0u, most, o));
    if (threadIdx.x == 0) part[0] = most;
  }
  __syncthreads();
  const float scale = part[0] / 127.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  char4* to = reinterpret_cast<char4*>(out + (size_t)blockIdx.x * cols);
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
    float4 v = row[i];
    to[i] = make_char4(__float2int_rn(v.x / scale), __float2int_rn(v.y / scale), __float2int_rn(v.z / scale), __float2int_rn(v.w / scale));
  }
}
#endif

#ifdef KERNEL_w4gemv  // y = W x of weights in four bits with a scale each 128: WARPS warps a block, ROWS rows a warp
extern "C" __global__ void w4gemv(float* y, const uint4* __restrict__ W, const half* __restrict__ scales, const half* __restrict__ x, int rows, int cols) {
  const int warp = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  float sum[ROWS] = {0};
  for (int c = lane; c < cols / 32; c += 32) {
    half2 held[16];
#pragma unroll
    for (int i = 0; i < 4; i++) *reinterpret_cast<uint4*>(&held[i * 4]) = *reinterpret_cast<const uint4*>(x + c * 32 + i * 8);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const size_t row = warp * ROWS + r;
      const uint4 packed = W[row * (cols / 32) + c];
      const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
      float s = 0;
#pragma unroll
      for (int w = 0; w < 4; w++)
#pragma unroll
        for (int b = 0; b < 4; b++) {
          const float lo = (float)((int)(words[w] >> (8 * b) & 15) - 8), hi = (float)((int)(words[w] >> (8 * b + 4) & 15) - 8);
          const float2 f = __half22float2(held[w * 4 + b]);
          s += lo * f.x + hi * f.y;
        }
      sum[r] += s * __half2float(scales[row * (cols / 128) + c / 4]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    for (int o = 16; o; o >>= 1) sum[r] += __shfl_xor_sync(~0u, sum[r], o);
    if (lane == 0) y[warp * ROWS + r] = sum[r];
  }
}
#endif

#ifdef KERNEL_flash  // attention in single precision, BR queries a block, BC keys a tile, a thread a query
extern "C" __global__ void __launch_bounds__(BR) flash(float* O, const float* Q, const float* K, const float* V, int n, float scale) {
  constexpr int D = 64;
  extern __shared__ float sram[];
  float *Kj = sram, *Vj = sram + BC * D;
  const size_t head = (size_t)blockIdx.y * n * D;
  const int row = blockIdx.x * BR + threadIdx.x;
  float q[D], o[D], m = -FLT_MAX, l = 0;
#pragma unroll
  for (int d = 0; d < D; d++) q[d] = Q[head + (size_t)row * D + d] * scale, o[d] = 0;
  for (int j = 0; j < n; j += BC) {
    __syncthreads();
    for (int i = threadIdx.x; i < BC * D / 4; i += BR) {
      reinterpret_cast<float4*>(Kj)[i] = reinterpret_cast<const float4*>(K + head + (size_t)j * D)[i];
      reinterpret_cast<float4*>(Vj)[i] = reinterpret_cast<const float4*>(V + head + (size_t)j * D)[i];
    }
    __syncthreads();
    for (int y = 0; y < BC; y += STEP) {
      float s[STEP], top = m;
#pragma unroll
      for (int u = 0; u < STEP; u++) {
        s[u] = 0;
#pragma unroll
        for (int d = 0; d < D; d++) s[u] += q[d] * Kj[(y + u) * D + d];
        top = fmaxf(top, s[u]);
      }
      const float shrink = __expf(m - top);
      l *= shrink;
#pragma unroll
      for (int d = 0; d < D; d++) o[d] *= shrink;
#pragma unroll
      for (int u = 0; u < STEP; u++) {
        const float p = __expf(s[u] - top);
        l += p;
#pragma unroll
        for (int d = 0; d < D; d++) o[d] += p * Vj[(y + u) * D + d];
      }
      m = top;
    }
  }
#pragma unroll
  for (int d = 0; d < D; d++) O[head + (size_t)row * D + d] = o[d] / l;
}
#endif

#ifdef KERNEL_lattice  // a step of a lattice of nine speeds (D2Q9): pulled, collided, stored; periodic
extern "C" __global__ void lattice(float* out, const float* in, int w, int h, float omega) {
  const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  const float weight[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
  for (int r = 0; r < PER; r++) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = (blockIdx.y * PER + r) * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float f[9], rho = 0, ux = 0, uy = 0;
#pragma unroll
    for (int i = 0; i < 9; i++) {
      const int sx = (x - cx[i] + w) % w, sy = (y - cy[i] + h) % h;
      f[i] = in[((size_t)i * h + sy) * w + sx] + 0.5f;
      rho += f[i], ux += cx[i] * f[i], uy += cy[i] * f[i];
    }
    ux /= rho, uy /= rho;
    const float sq = 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int i = 0; i < 9; i++) {
      const float cu = 3.0f * (cx[i] * ux + cy[i] * uy);
      out[((size_t)i * h + y) * w + x] = f[i] + omega * (weight[i] * rho * (1.0f + cu + 0.5f * cu * cu - sq) - f[i]);
    }
  }
}
#endif

#ifdef KERNEL_nearest  // which of k centres of D numbers is nearest: centres in shared memory by CHUNK of them, PER points a thread
extern "C" __global__ void nearest(int* out, const float* __restrict__ points, const float* __restrict__ centres, int n, int k) {
  constexpr int D = 16;
  __shared__ float held[CHUNK * D];
  float p[PER][D], best[PER];
  int which[PER];
#pragma unroll
  for (int j = 0; j < PER; j++) {
    const int i = (blockIdx.x * PER + j) * blockDim.x + threadIdx.x;
    best[j] = FLT_MAX, which[j] = 0;
#pragma unroll
    for (int d = 0; d < D; d++) p[j][d] = i < n ? points[(size_t)d * n + i] : 0;
  }
  for (int c0 = 0; c0 < k; c0 += CHUNK) {
    for (int i = threadIdx.x; i < CHUNK * D; i += blockDim.x) held[i] = centres[c0 * D + i];
    __syncthreads();
    for (int c = 0; c < CHUNK; c++)
#pragma unroll
      for (int j = 0; j < PER; j++) {
        float s = 0;
#pragma unroll
        for (int d = 0; d < D; d++) {
          const float t = p[j][d] - held[c * D + d];
          s += t * t;
        }
        if (s < best[j]) best[j] = s, which[j] = c0 + c;
      }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < PER; j++) {
    const int i = (blockIdx.x * PER + j) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = which[j];
  }
}
#endif

#ifdef KERNEL_adam  // a step of Adam over four arrays, VEC numbers a thread
extern "C" __global__ void adam(float* __restrict__ p, float* __restrict__ m, float* __restrict__ v, const float* __restrict__ w, const float* __restrict__ g, float lr, float b1, float b2, float eps, int n) {
  struct alignas(4 * VEC) Vec { float at[VEC]; };
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / VEC; i += gridDim.x * blockDim.x) {
    const Vec grad = ((const Vec*)g)[i], old = ((const Vec*)w)[i];
    Vec pp, mm, vv;
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      mm.at[j] = (1 - b1) * grad.at[j];
      vv.at[j] = (1 - b2) * grad.at[j] * grad.at[j];
      pp.at[j] = old.at[j] - lr * (mm.at[j] / (1 - b1)) / (sqrtf(vv.at[j] / (1 - b2)) + eps);
    }
    ((Vec*)p)[i] = pp, ((Vec*)m)[i] = mm, ((Vec*)v)[i] = vv;
  }
}
#endif

#ifdef KERNEL_bilateral  // a filter of edges over (2 R + 1)^2 pixels, weights by __expf; SHARED: a tile with its halo
extern "C" __global__ void bilateral(float* out, const float* __restrict__ in, int w, int h, float near, float like) {
  constexpr int R = 3;
  __shared__ float tile[SHARED ? (BY + 2 * R) * (BX + 2 * R) : 1];
  const int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
  if (SHARED) {
    for (int i = threadIdx.y * BX + threadIdx.x; i < (BY + 2 * R) * (BX + 2 * R); i += BX * BY) {
      int gx = blockIdx.x * BX + i % (BX + 2 * R) - R, gy = blockIdx.y * BY + i / (BX + 2 * R) - R;
      tile[i] = in[min(max(gy, 0), h - 1) * w + min(max(gx, 0), w - 1)];
    }
    __syncthreads();
  }
  if (x >= w || y >= h) return;
  const float c = SHARED ? tile[(threadIdx.y + R) * (BX + 2 * R) + threadIdx.x + R] : in[y * w + x];
  float sum = 0, total = 0;
#pragma unroll kUnroll
  for (int dy = -R; dy <= R; dy++)
#pragma unroll
    for (int dx = -R; dx <= R; dx++) {
      const float v = SHARED ? tile[(threadIdx.y + R + dy) * (BX + 2 * R) + threadIdx.x + R + dx] : in[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)];
      const float k = __expf(-(dx * dx + dy * dy) * near - (v - c) * (v - c) * like);
      sum += k * v, total += k;
    }
  out[y * w + x] = sum / total;
}
#endif

#ifdef KERNEL_loss  // cross entropy over a vocabulary in half: one pass with running maximum and sum, a block a row
extern "C" __global__ void loss(float* out, const half* __restrict__ logits, int vocab) {
  struct alignas(2 * VEC) Vec { half at[VEC]; };
  __shared__ float2 part[32];
  const Vec* row = reinterpret_cast<const Vec*>(logits + (size_t)blockIdx.x * vocab);
  float m = -FLT_MAX, s = 0;
  for (int i = threadIdx.x; i < vocab / VEC; i += blockDim.x) {
    const Vec t = row[i];
    float top = m;
#pragma unroll
    for (int j = 0; j < VEC; j++) top = fmaxf(top, __half2float(t.at[j]));
    s *= __expf(m - top);
#pragma unroll
    for (int j = 0; j < VEC; j++) s += __expf(__half2float(t.at[j]) - top);
    m = top;
  }
  for (int o = 16; o; o >>= 1) {
    const float om = __shfl_xor_sync(~0u, m, o), os = __shfl_xor_sync(~0u, s, o), top = fmaxf(m, om);
    s = s * __expf(m - top) + os * __expf(om - top), m = top;
  }
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = make_float2(m, s);
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < blockDim.x / 32; i++) {
      const float top = fmaxf(m, part[i].x);
      s = s * __expf(m - top) + part[i].y * __expf(part[i].x - top), m = top;
    }
    out[blockIdx.x] = m + logf(s);
  }
}
#endif
