// Further kernels in CUDA C++ as they are commonly written: sparse rows, routing, serving, gradients, transforms, scans.
// Tunables are macros, see languages.cu.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>
#include <float.h>
#ifdef UNROLL
constexpr int kUnroll = UNROLL;
#endif

#ifdef KERNEL_scored  // softmax of the rows of a sparse matrix: LANES threads a row, three passes over its numbers
extern "C" __global__ void scored(float* out, const int* __restrict__ starts, const float* __restrict__ held, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  if (row >= rows) return;
  const int begin = starts[row], end = starts[row + 1];
  float top = -FLT_MAX, sum = 0;
  for (int i = begin + lane; i < end; i += LANES) top = fmaxf(top, held[i]);
  for (int o = LANES / 2; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o, LANES));
  for (int i = begin + lane; i < end; i += LANES) sum += __expf(held[i] - top);
  for (int o = LANES / 2; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o, LANES);
  const float scale = 1 / sum;
  for (int i = begin + lane; i < end; i += LANES) out[i] = __expf(held[i] - top) * scale;
}
#endif

#ifdef KERNEL_edges  // messages along the edges of a graph are added to their targets: a thread a number of DIM
extern "C" __global__ void edges(float* out, const float* __restrict__ x, const float* __restrict__ weight, const int* __restrict__ from, const int* __restrict__ to, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count * (DIM / VEC); i += gridDim.x * blockDim.x) {
    const int edge = i / (DIM / VEC);
    const int d = i % (DIM / VEC) * VEC;
    const float w = weight[edge];
    const float* src = x + (size_t)from[edge] * DIM + d;
    float* dst = out + (size_t)to[edge] * DIM + d;
#pragma unroll
    for (int v = 0; v < VEC; v++) atomicAdd(dst + v, w * src[v]);
  }
}
#endif

#ifdef KERNEL_mixed  // causal convolution of width 4 along time with SiLU, channels last: a thread VEC channels of CHUNK steps
extern "C" __global__ void mixed(half* out, const half* __restrict__ x, const half* __restrict__ w, const half* __restrict__ bias, int T, int C) {
  const int c = (blockIdx.x * blockDim.x + threadIdx.x) * VEC, t0 = blockIdx.y * CHUNK;
  if (c >= C) return;
  const half* src = x + (size_t)blockIdx.z * T * C + c;
  float taps[4][VEC], past[4][VEC], b[VEC];
#pragma unroll
  for (int v = 0; v < VEC; v++) {
    b[v] = __half2float(bias[c + v]);
    for (int k = 0; k < 4; k++) taps[k][v] = __half2float(w[(c + v) * 4 + k]);
    for (int k = 0; k < 3; k++) past[k][v] = t0 + k >= 3 ? __half2float(src[(size_t)(t0 + k - 3) * C + v]) : 0.0f;
  }
#pragma unroll 4
  for (int t = t0; t < t0 + CHUNK; t++) {
    half in[VEC], res[VEC];
    if (VEC == 8) *reinterpret_cast<uint4*>(in) = *reinterpret_cast<const uint4*>(src + (size_t)t * C);
    else if (VEC == 2) *reinterpret_cast<half2*>(in) = *reinterpret_cast<const half2*>(src + (size_t)t * C);
    else in[0] = src[(size_t)t * C];
#pragma unroll
    for (int v = 0; v < VEC; v++) {
      past[3][v] = __half2float(in[v]);
      float sum = b[v];
      for (int k = 0; k < 4; k++) sum += taps[k][v] * past[k][v];
      for (int k = 0; k < 3; k++) past[k][v] = past[k + 1][v];
      res[v] = __float2half(sum / (1 + __expf(-sum)));
    }
    half* dst = out + ((size_t)blockIdx.z * T + t) * C + c;
    if (VEC == 8) *reinterpret_cast<uint4*>(dst) = *reinterpret_cast<uint4*>(res);
    else if (VEC == 2) *reinterpret_cast<half2*>(dst) = *reinterpret_cast<half2*>(res);
    else dst[0] = res[0];
  }
}
#endif

#ifdef KERNEL_pooled  // largest of 3 x 3 with stride 2, NCHW: BX x BY threads, PER rows a thread
extern "C" __global__ void pooled(float* out, const float* __restrict__ in, int H, int W, int OH, int OW) {
  const int ox = blockIdx.x * blockDim.x + threadIdx.x;
  const float* src = in + (size_t)blockIdx.z * H * W;
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int oy = (blockIdx.y * PER + p) * blockDim.y + threadIdx.y;
    if (ox >= OW || oy >= OH) continue;
    float top = -FLT_MAX;
    for (int ky = 0; ky < 3; ky++)
      for (int kx = 0; kx < 3; kx++) {
        const int y = oy * 2 + ky - 1, x = ox * 2 + kx - 1;
        if (y >= 0 && y < H && x >= 0 && x < W) top = fmaxf(top, src[y * W + x]);
      }
    out[((size_t)blockIdx.z * OH + oy) * OW + ox] = top;
  }
}
#endif

#ifdef KERNEL_w4gemm  // half times weights of four bits, with a scale each 128 of K: unpacked into shared memory, then wmma
using namespace nvcuda;
extern "C" __global__ void w4gemm(half* C, const half* __restrict__ A, const uint32_t* __restrict__ W, const half* __restrict__ scales, int M, int N, int K) {
  constexpr int BM = WM * FM * 16, BN = WN * FN * 16, LDA = BK + 8, LDB = BK + 8;
  __shared__ __align__(16) half as[BM * LDA], bs[BN * LDB];
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, warp = threadIdx.x / 32, wm = warp / WN, wn = warp % WN;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FM][FN];
  for (int i = 0; i < FM; i++)
    for (int j = 0; j < FN; j++) wmma::fill_fragment(acc[i][j], 0.0f);
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = threadIdx.x; i < BM * BK / 8; i += blockDim.x) {
      const int r = i / (BK / 8), c = i % (BK / 8) * 8;
      *reinterpret_cast<uint4*>(as + r * LDA + c) = *reinterpret_cast<const uint4*>(A + (size_t)(m0 + r) * K + k0 + c);
    }
    for (int i = threadIdx.x; i < BN * BK / 8; i += blockDim.x) {
      const int r = i / (BK / 8), c = i % (BK / 8) * 8;
      const uint32_t word = W[((size_t)(n0 + r) * K + k0 + c) / 8];
      const half s = scales[(size_t)(n0 + r) * (K / 128) + (k0 + c) / 128];
#pragma unroll
      for (int e = 0; e < 8; e++) bs[r * LDB + c + e] = __hmul(__int2half_rn(int(word >> (4 * e) & 15) - 8), s);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[FM];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b[FN];
      for (int i = 0; i < FM; i++) wmma::load_matrix_sync(a[i], as + (wm * FM + i) * 16 * LDA + k, LDA);
      for (int j = 0; j < FN; j++) wmma::load_matrix_sync(b[j], bs + (wn * FN + j) * 16 * LDB + k, LDB);
      for (int i = 0; i < FM; i++)
        for (int j = 0; j < FN; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < FM; i++)
    for (int j = 0; j < FN; j++) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, half> res;
      for (int e = 0; e < res.num_elements; e++) res.x[e] = __float2half(acc[i][j].x[e]);
      wmma::store_matrix_sync(C + (size_t)(m0 + (wm * FM + i) * 16) * N + n0 + (wn * FN + j) * 16, res, N, wmma::mem_row_major);
    }
}
#endif

#ifdef KERNEL_paged  // decoding over pages of 16 keys: a block a head of a sequence, GROUP lanes a key, D of 128
extern "C" __global__ void paged(float* out, const half* __restrict__ q, const half* __restrict__ kcache, const half* __restrict__ vcache, const int* __restrict__ table, int pages, int heads, int length, float scale) {
  constexpr int D = 128, THREADS = WARPS * 32, GROUPS = THREADS / GROUP;
  extern __shared__ float logits[];
  __shared__ float part[WARPS], query[D];
  const int head = blockIdx.x, seq = blockIdx.y, tid = threadIdx.x, group = tid / GROUP, lane = tid % GROUP;
  const int* mine = table + seq * pages;
  if (tid < D) query[tid] = __half2float(q[((size_t)seq * heads + head) * D + tid]) * scale;
  __syncthreads();
  float top = -FLT_MAX;
  for (int key = group; key < length; key += GROUPS) {
    const half* k = kcache + (((size_t)mine[key / 16] * heads + head) * 16 + key % 16) * D;
    float dot = 0;
#pragma unroll
    for (int d = lane * 8; d < D; d += GROUP * 8) {
      const uint4 raw = *reinterpret_cast<const uint4*>(k + d);
      const half2* pair = reinterpret_cast<const half2*>(&raw);
      for (int e = 0; e < 4; e++) {
        const float2 f = __half22float2(pair[e]);
        dot += f.x * query[d + 2 * e] + f.y * query[d + 2 * e + 1];
      }
    }
    for (int o = GROUP / 2; o; o >>= 1) dot += __shfl_xor_sync(~0u, dot, o);
    if (lane == 0) logits[key] = dot;
    top = fmaxf(top, dot);
  }
  for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  if (tid % 32 == 0) part[tid / 32] = top;
  __syncthreads();
  for (int w = 0; w < WARPS; w++) top = fmaxf(top, part[w]);
  __syncthreads();
  float sum = 0;
  for (int key = tid; key < length; key += THREADS) sum += logits[key] = __expf(logits[key] - top);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (tid % 32 == 0) part[tid / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < WARPS; w++) sum += part[w];
  for (int d = tid; d < D; d += THREADS) {
    float acc = 0;
#pragma unroll 8
    for (int key = 0; key < length; key++)
      acc += logits[key] * __half2float(vcache[(((size_t)mine[key / 16] * heads + head) * 16 + key % 16) * D + d]);
    out[((size_t)seq * heads + head) * D + d] = acc / sum;
  }
}
#endif

#ifdef KERNEL_slopes  // gradients of a layer norm's scale and shift: sums over rows, BX columns x BY rows a block, then atomics
extern "C" __global__ void slopes(float* dgamma, float* dbeta, const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ rstd, int rows, int cols) {
  __shared__ float g[BY][BX + 1], b[BY][BX + 1];
  const int col = blockIdx.x * BX + threadIdx.x;
  float sg = 0, sb = 0;
#pragma unroll kUnroll
  for (int r = blockIdx.y * BY + threadIdx.y; r < rows; r += gridDim.y * BY) {
    const float d = dy[(size_t)r * cols + col];
    sg += d * (x[(size_t)r * cols + col] - mean[r]) * rstd[r];
    sb += d;
  }
  g[threadIdx.y][threadIdx.x] = sg;
  b[threadIdx.y][threadIdx.x] = sb;
  __syncthreads();
  if (threadIdx.y == 0) {
    for (int i = 1; i < BY; i++) sg += g[i][threadIdx.x], sb += b[i][threadIdx.x];
    atomicAdd(dgamma + col, sg);
    atomicAdd(dbeta + col, sb);
  }
}
#endif

#ifdef KERNEL_routed  // the two best of 64 experts of a token with the weights of their softmax: LANES threads a token
extern "C" __global__ void routed(float* weights, int* ids, const float* __restrict__ logits, int tokens) {
  constexpr int E = 64, PER = E / LANES;
  const int token = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  if (token >= tokens) return;
  float v[PER];
#pragma unroll
  for (int i = 0; i < PER; i++) v[i] = logits[(size_t)token * E + i * LANES + lane];
  float first = 0;
#pragma unroll
  for (int k = 0; k < 2; k++) {
    float best = -FLT_MAX;
    int at = 0;
#pragma unroll
    for (int i = 0; i < PER; i++)
      if (v[i] > best) best = v[i], at = i * LANES + lane;
    for (int o = LANES / 2; o; o >>= 1) {
      const float other = __shfl_xor_sync(~0u, best, o, LANES);
      const int place = __shfl_xor_sync(~0u, at, o, LANES);
      if (other > best || (other == best && place < at)) best = other, at = place;
    }
    if (k == 0) first = best;
    if (lane == 0) weights[token * 2 + k] = k == 0 ? 0.0f : 1 / (1 + __expf(first - best)), ids[token * 2 + k] = at;
    if (k == 1 && lane == 0) weights[token * 2] = 1 / (1 + __expf(best - first));
#pragma unroll
    for (int i = 0; i < PER; i++)
      if (i * LANES + lane == at) v[i] = -FLT_MAX;
  }
}
#endif

#ifdef KERNEL_bagged  // sums of BAG rows of a table: a block a bag, VEC numbers a thread
extern "C" __global__ void bagged(float* out, const float* __restrict__ table, const int* __restrict__ which, int dim) {
  const int bag = blockIdx.x * blockDim.y + threadIdx.y;
  for (int d = threadIdx.x * VEC; d < dim; d += blockDim.x * VEC) {
    float sum[VEC] = {0};
#pragma unroll kUnroll
    for (int i = 0; i < 32; i++) {
      const float* row = table + (size_t)which[bag * 32 + i] * dim + d;
      if (VEC == 4) {
        const float4 f = *reinterpret_cast<const float4*>(row);
        sum[0] += f.x, sum[1 % VEC] += f.y, sum[2 % VEC] += f.z, sum[3 % VEC] += f.w;
      } else
        for (int v = 0; v < VEC; v++) sum[v] += row[v];
    }
    for (int v = 0; v < VEC; v++) out[(size_t)bag * dim + d + v] = sum[v];
  }
}
#endif

#ifdef KERNEL_hadamard  // Walsh-Hadamard transform of rows of N in shared memory, THREADS a row
extern "C" __global__ void hadamard(float* out, const float* __restrict__ in, int n) {
  extern __shared__ float s[];
  const float* row = in + (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = row[i];
  __syncthreads();
#if RADIX == 2
  for (int h = 1; h < n; h *= 2) {
    for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
      const int j = i / h * 2 * h + i % h;
      const float a = s[j], b = s[j + h];
      s[j] = a + b, s[j + h] = a - b;
    }
    __syncthreads();
  }
#else
  for (int h = 1; h < n; h *= 4) {
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
      const int j = i / h * 4 * h + i % h;
      const float a = s[j], b = s[j + h], c = s[j + 2 * h], d = s[j + 3 * h];
      s[j] = a + b + c + d, s[j + h] = a - b + c - d, s[j + 2 * h] = a + b - c - d, s[j + 3 * h] = a - b - c + d;
    }
    __syncthreads();
  }
#endif
  const float scale = rsqrtf((float)n);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[(size_t)blockIdx.x * n + i] = s[i] * scale;
}
#endif

#ifdef KERNEL_scanned  // a selective scan: h = a h + b x along time, with 16 states a channel spread over LANES threads
extern "C" __global__ void scanned(float* y, const float* __restrict__ x, const float* __restrict__ dt, const float* __restrict__ A, const float* __restrict__ B, const float* __restrict__ Cc, int T, int C) {
  constexpr int N = 16, PER = N / LANES;
  const int c = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  const size_t seq = (size_t)blockIdx.y * T;
  float a[PER], h[PER] = {0};
  for (int i = 0; i < PER; i++) a[i] = A[c * N + lane * PER + i];
#pragma unroll kUnroll
  for (int t = 0; t < T; t++) {
    const float d = dt[(seq + t) * C + c], u = x[(seq + t) * C + c] * d;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < PER; i++) {
      h[i] = __expf(d * a[i]) * h[i] + B[(seq + t) * N + lane * PER + i] * u;
      sum += h[i] * Cc[(seq + t) * N + lane * PER + i];
    }
    for (int o = LANES / 2; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o, LANES);
    if (lane == 0) y[(seq + t) * C + c] = sum;
  }
}
#endif

#ifdef KERNEL_life  // a step of Life on bytes with a torus: PER cells in a row a thread, read in words where WORDS
extern "C" __global__ void life(uint8_t* out, const uint8_t* __restrict__ in, int H, int W) {
  const int x0 = (blockIdx.x * blockDim.x + threadIdx.x) * PER, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int up = (y + H - 1) % H, down = (y + 1) % H;
  const uint8_t* rows[3] = {in + (size_t)up * W, in + (size_t)y * W, in + (size_t)down * W};
  int sums[PER + 2], mid[PER];
#pragma unroll
  for (int i = 0; i < PER + 2; i++) {
    const int x = (x0 + i - 1 + W) % W;
    const int centre = rows[1][x];
    sums[i] = rows[0][x] + centre + rows[2][x];
    if (i >= 1 && i <= PER) mid[i - 1] = centre;
  }
#pragma unroll
  for (int i = 0; i < PER; i++) {
    const int n = sums[i] + sums[i + 1] + sums[i + 2] - mid[i];
    out[(size_t)y * W + x0 + i] = n == 3 || (n == 2 && mid[i]);
  }
}
#endif

#ifdef KERNEL_waves  // a step of the wave equation of fourth order in space, two fields: BX x BY threads, DEEP planes a thread
extern "C" __global__ void waves(float* next, const float* __restrict__ now, const float* __restrict__ before, int nx, int ny, int nz, float c) {
  const int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
  const size_t plane = (size_t)nx * ny;
  const int z0 = blockIdx.z * DEEP;
  if (x < 2 || x >= nx - 2 || y < 2 || y >= ny - 2) return;
  for (int z = max(z0, 2); z < min(z0 + DEEP, nz - 2); z++) {
    const size_t i = z * plane + (size_t)y * nx + x;
    const float near = now[i - 1] + now[i + 1] + now[i - nx] + now[i + nx] + now[i - plane] + now[i + plane];
    const float far = now[i - 2] + now[i + 2] + now[i - 2 * nx] + now[i + 2 * nx] + now[i - 2 * plane] + now[i + 2 * plane];
    next[i] = 2 * now[i] - before[i] + c * (-7.5f * now[i] + 4.0f / 3 * near - far / 12);
  }
}
#endif

#ifdef KERNEL_ranked  // tiles sorted by four bits a pass in shared memory: counts of digits, a scan, a scatter
extern "C" __global__ void ranked(uint32_t* out, const uint32_t* __restrict__ in) {
  constexpr int TILE = BLOCK * ITEMS;
  __shared__ uint32_t keys[TILE];
  __shared__ uint32_t counts[16 * BLOCK], totals[BLOCK / 32];
  const int tid = threadIdx.x;
  const size_t base = (size_t)blockIdx.x * TILE;
  for (int i = tid; i < TILE; i += BLOCK) keys[i] = in[base + i];
  for (int shift = 0; shift < 16; shift += 4) {
    for (int d = 0; d < 16; d++) counts[d * BLOCK + tid] = 0;
    __syncthreads();
    uint32_t mine[ITEMS], place[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      mine[i] = keys[tid * ITEMS + i];
      place[i] = counts[(mine[i] >> shift & 15) * BLOCK + tid]++;
    }
    __syncthreads();
    uint32_t sum = 0;
#pragma unroll
    for (int d = 0; d < 16; d++) {
      const uint32_t n = counts[tid * 16 + d];
      counts[tid * 16 + d] = sum;
      sum += n;
    }
    uint32_t upto = sum;
    for (int o = 1; o < 32; o *= 2) {
      const uint32_t n = __shfl_up_sync(~0u, upto, o);
      if (tid % 32 >= o) upto += n;
    }
    if (tid % 32 == 31) totals[tid / 32] = upto;
    __syncthreads();
    uint32_t front = upto - sum;
    for (int w = 0; w < tid / 32; w++) front += totals[w];
#pragma unroll
    for (int d = 0; d < 16; d++) counts[tid * 16 + d] += front;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) place[i] += counts[(mine[i] >> shift & 15) * BLOCK + tid];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) keys[place[i]] = mine[i];
    __syncthreads();
  }
  for (int i = tid; i < TILE; i += BLOCK) out[base + i] = keys[i];
}
#endif
