// Kernels in CUDA C++ of kinds that no earlier set has: doubles on tensor cores, ciphers, detection, stereo, flow, search, rays, images, radio, shading.
#include <cuda_fp16.h>
#include <stdint.h>
#ifdef loop_unroll_factor
constexpr int kUnroll = loop_unroll_factor;
#elif defined(UNROLL)
constexpr int kUnroll = UNROLL;
#endif

#ifdef KERNEL_dmma  // C = A B in doubles by mma.m8n8k4: WM x WN warps of FM x FN fragments, STAGES of cp.async, BK deep
__device__ __forceinline__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
}
extern "C" __global__ void __launch_bounds__(WM * WN * 32) dmma(double* __restrict__ C, const double* __restrict__ A, const double* __restrict__ B, int N, int K) {
  constexpr int BM = WM * FM * 8, BN = WN * FN * 8, LA = BK + 4, LB = BN + 4, THREADS = WM * WN * 32, STAGE = BM * LA + BK * LB;
  extern __shared__ __align__(16) double ring[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, wm = warp / WN * FM * 8, wn = warp % WN * FN * 8;
  const double *a = A + (size_t)blockIdx.y * BM * K, *b = B + blockIdx.x * BN;
  double sum[FM][FN][2] = {};
  auto copy = [&](int s, int k0) {
    double *as = ring + s * STAGE, *bs = as + BM * LA;
    for (int i = tid; i < BM * BK / 2; i += THREADS) copy16(as + i / (BK / 2) * LA + i % (BK / 2) * 2, a + (size_t)(i / (BK / 2)) * K + k0 + i % (BK / 2) * 2);
    for (int i = tid; i < BK * BN / 2; i += THREADS) copy16(bs + i / (BN / 2) * LB + i % (BN / 2) * 2, b + (size_t)(k0 + i / (BN / 2)) * N + i % (BN / 2) * 2);
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
    const double *as = ring + s * STAGE, *bs = as + BM * LA;
#pragma unroll
    for (int k = 0; k < BK; k += 4) {
      double x[FM], y[FN];
#pragma unroll
      for (int i = 0; i < FM; i++) x[i] = as[(wm + i * 8 + lane / 4) * LA + k + lane % 4];
#pragma unroll
      for (int j = 0; j < FN; j++) y[j] = bs[(k + lane % 4) * LB + wn + j * 8 + lane / 4];
#pragma unroll
      for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++)
          asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(sum[i][j][0]), "+d"(sum[i][j][1]) : "d"(x[i]), "d"(y[j]));
    }
  }
#pragma unroll
  for (int i = 0; i < FM; i++)
#pragma unroll
    for (int j = 0; j < FN; j++)
      *(double2*)&C[(size_t)(blockIdx.y * BM + wm + i * 8 + lane / 4) * N + blockIdx.x * BN + wn + j * 8 + lane % 4 * 2] = make_double2(sum[i][j][0], sum[i][j][1]);
}
#endif

#ifdef KERNEL_chacha  // ChaCha20: what is to be hidden, xor its stream of blocks of 64 bytes; PER blocks a thread
#define QUARTER(a, b, c, d)                                                   \
  a += b, d = __funnelshift_l(d ^ a, d ^ a, 16), c += d, b = __funnelshift_l(b ^ c, b ^ c, 12); \
  a += b, d = __funnelshift_l(d ^ a, d ^ a, 8), c += d, b = __funnelshift_l(b ^ c, b ^ c, 7);
extern "C" __global__ void __launch_bounds__(BLOCK) chacha(uint32_t* __restrict__ out, const uint32_t* __restrict__ in, const uint32_t* __restrict__ key, uint32_t nonce) {
  uint32_t s[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
#pragma unroll
  for (int i = 0; i < 8; i++) s[4 + i] = key[i];
  s[13] = nonce, s[14] = nonce ^ 0x9e3779b9, s[15] = 7;
  for (int p = 0; p < PER; p++) {
    const uint32_t at = (blockIdx.x * PER + p) * BLOCK + threadIdx.x;
    uint32_t x[16];
    s[12] = at;
#pragma unroll
    for (int i = 0; i < 16; i++) x[i] = s[i];
#pragma unroll kUnroll
    for (int r = 0; r < 10; r++) {
      QUARTER(x[0], x[4], x[8], x[12]) QUARTER(x[1], x[5], x[9], x[13]) QUARTER(x[2], x[6], x[10], x[14]) QUARTER(x[3], x[7], x[11], x[15])
      QUARTER(x[0], x[5], x[10], x[15]) QUARTER(x[1], x[6], x[11], x[12]) QUARTER(x[2], x[7], x[8], x[13]) QUARTER(x[3], x[4], x[9], x[14])
    }
    if (VEC == 4) {
      const uint4* from = (const uint4*)in + (size_t)at * 4;
      uint4* to = (uint4*)out + (size_t)at * 4;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const uint4 v = from[i];
        to[i] = make_uint4(v.x ^ (x[i * 4] + s[i * 4]), v.y ^ (x[i * 4 + 1] + s[i * 4 + 1]), v.z ^ (x[i * 4 + 2] + s[i * 4 + 2]), v.w ^ (x[i * 4 + 3] + s[i * 4 + 3]));
      }
    } else {
#pragma unroll
      for (int i = 0; i < 16; i++) out[(size_t)at * 16 + i] = in[(size_t)at * 16 + i] ^ (x[i] + s[i]);
    }
  }
}
#endif

#ifdef KERNEL_suppressed  // which of 64 boxes overlap each box too much, as bits: THREADS boxes a block, others in shared memory
extern "C" __global__ void __launch_bounds__(THREADS) suppressed(unsigned long long* __restrict__ mask, const float4* __restrict__ boxes, int n, float limit) {
  __shared__ float4 others[64];
  const int row = blockIdx.y * THREADS + threadIdx.x, first = blockIdx.x * 64;
  if (first + 63 < (int)(blockIdx.y * THREADS)) return;
  for (int i = threadIdx.x; i < 64; i += THREADS) others[i] = boxes[min(first + i, n - 1)];
  __syncthreads();
  if (row >= n) return;
  const float4 own = boxes[row];
  const float area = (own.z - own.x) * (own.w - own.y);
  unsigned long long bits = 0;
#pragma unroll kUnroll
  for (int i = 0; i < 64; i++) {
    const float4 other = others[i];
    const float wide = fmaxf(fminf(own.z, other.z) - fmaxf(own.x, other.x), 0.0f), high = fmaxf(fminf(own.w, other.w) - fmaxf(own.y, other.y), 0.0f);
    const float both = wide * high, all = area + (other.z - other.x) * (other.w - other.y) - both;
    const bool over = DIVIDE ? both / all > limit : both > limit * all;
    if (over && first + i > row && first + i < n) bits |= 1ull << i;
  }
  mask[(size_t)row * gridDim.x + blockIdx.x] = bits;
}
#endif

#ifdef KERNEL_stereo  // costs of 128 disparities gathered along rows (semi-global matching): LANES lanes a row of pixels, WARPS warps a block
extern "C" __global__ void __launch_bounds__(WARPS * 32) stereo(short* __restrict__ out, const uint8_t* __restrict__ costs, int width, int p1, int p2) {
  constexpr int OWN = 128 / LANES;
  const int lane = threadIdx.x % LANES, row = (blockIdx.x * WARPS * 32 + threadIdx.x) / LANES;
  const uint8_t* from = costs + (size_t)row * width * 128 + lane * OWN;
  short* to = out + (size_t)row * width * 128 + lane * OWN;
  int held[OWN] = {}, least = 0;
#pragma unroll kUnroll
  for (int x = 0; x < width; x++) {
    uint32_t words[OWN / 4];
#pragma unroll
    for (int i = 0; i < OWN / 4; i++) words[i] = ((const uint32_t*)(from + (size_t)x * 128))[i];
    int below = __shfl_up_sync(~0u, held[OWN - 1], 1, LANES), above = __shfl_down_sync(~0u, held[0], 1, LANES);
    if (lane == 0) below = 1 << 20;
    if (lane == LANES - 1) above = 1 << 20;
    int made[OWN], lowest = 1 << 20;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
      const int near = min(i ? held[(i + OWN - 1) % OWN] : below, i + 1 < OWN ? held[(i + 1) % OWN] : above) + p1;
      made[i] = (int)(words[i / 4] >> i % 4 * 8 & 255) + min(min(held[i], near), least + p2) - least;
      lowest = min(lowest, made[i]);
    }
#pragma unroll
    for (int far = LANES / 2; far; far /= 2) lowest = min(lowest, __shfl_xor_sync(~0u, lowest, far, LANES));
    least = lowest;
#pragma unroll
    for (int i = 0; i < OWN; i++) held[i] = made[i];
#pragma unroll
    for (int i = 0; i < OWN; i += 4) *(short4*)(to + (size_t)x * 128 + i) = make_short4(made[i], made[i + 1], made[i + 2], made[i + 3]);
  }
}
#endif

#ifdef KERNEL_flux  // flows of a gas over the four faces of each cell of an unstructured mesh, as Euler's equations have them; numbers by planes or by cells
__device__ __forceinline__ int spot(int i, int e, int n, int many) { return PLANES ? e * n + i : i * many + e; }
extern "C" __global__ void __launch_bounds__(BLOCK) flux(float* __restrict__ out, const float* __restrict__ state, const int* __restrict__ near, const float* __restrict__ normals, int n) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i >= n) return;
  float own[5], sum[5] = {};
#pragma unroll
  for (int e = 0; e < 5; e++) own[e] = state[spot(i, e, n, 5)];
  const float squares = own[1] * own[1] + own[2] * own[2] + own[3] * own[3], speed = sqrtf(squares) + sqrtf(1.4f * own[4] / own[0]);
  const float energy = 2.5f * own[4] + 0.5f * own[0] * squares;
#pragma unroll kUnroll
  for (int f = 0; f < 4; f++) {
    const int j = near[f * n + i];
    const float nx = normals[spot(i, f * 3, n, 12)], ny = normals[spot(i, f * 3 + 1, n, 12)], nz = normals[spot(i, f * 3 + 2, n, 12)];
    float other[5];
#pragma unroll
    for (int e = 0; e < 5; e++) other[e] = state[spot(j, e, n, 5)];
    const float square = other[1] * other[1] + other[2] * other[2] + other[3] * other[3], fast = sqrtf(square) + sqrtf(1.4f * other[4] / other[0]);
    const float full = 2.5f * other[4] + 0.5f * other[0] * square, by = -0.1f * sqrtf(nx * nx + ny * ny + nz * nz) * (speed + fast);
    const float through = 0.5f * (own[1] * nx + own[2] * ny + own[3] * nz), over = 0.5f * (other[1] * nx + other[2] * ny + other[3] * nz);
    const float pressed = 0.5f * (own[4] + other[4]), mine = through * own[0], theirs = over * other[0];
    sum[0] += by * (own[0] - other[0]) + mine + theirs;
    sum[1] += by * (own[0] * own[1] - other[0] * other[1]) + mine * own[1] + theirs * other[1] + pressed * nx;
    sum[2] += by * (own[0] * own[2] - other[0] * other[2]) + mine * own[2] + theirs * other[2] + pressed * ny;
    sum[3] += by * (own[0] * own[3] - other[0] * other[3]) + mine * own[3] + theirs * other[3] + pressed * nz;
    sum[4] += by * (energy - full) + through * (energy + own[4]) + over * (full + other[4]);
  }
#pragma unroll
  for (int e = 0; e < 5; e++) out[spot(i, e, n, 5)] = sum[e];
}
#endif

#ifdef KERNEL_coded  // distances of codes of 16 bytes to a query by tables of 256 numbers a byte, in shared memory as floats or halves
#if HALVES
typedef half entry;
#else
typedef float entry;
#endif
extern "C" __global__ void __launch_bounds__(BLOCK) coded(float* __restrict__ out, const uint4* __restrict__ codes, const float* __restrict__ tables, int n) {
  __shared__ entry table[16][256];
  for (int i = threadIdx.x; i < 4096; i += BLOCK) (&table[0][0])[i] = (entry)tables[blockIdx.y * 4096 + i];
  __syncthreads();
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int i = (blockIdx.x * PER + p) * BLOCK + threadIdx.x;
    const uint4 code = codes[i];
    const uint32_t words[4] = {code.x, code.y, code.z, code.w};
    float sum = 0.0f;
#pragma unroll
    for (int m = 0; m < 16; m++) sum += (float)table[m][words[m / 4] >> m % 4 * 8 & 255];
    out[(size_t)blockIdx.y * n + i] = sum;
  }
}
#endif

#ifdef KERNEL_rays  // the nearest of many triangles that each pixel's ray meets (Moeller and Trumbore): TILE triangles at a time in shared memory
__device__ __forceinline__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ __forceinline__ float3 cross(float3 a, float3 b) { return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x); }
extern "C" __global__ void __launch_bounds__(BX * BY) rays(float* __restrict__ out, const float* __restrict__ corners, int width, int height, int count) {
  __shared__ float held[TILE * 9];
  const int tid = threadIdx.y * BX + threadIdx.x, x = blockIdx.x * BX + threadIdx.x, y0 = blockIdx.y * BY * PER + threadIdx.y;
  float3 to[PER];
  float nearest[PER];
#pragma unroll
  for (int p = 0; p < PER; p++) to[p] = make_float3((x + 0.5f) / width - 0.5f, (y0 + p * BY + 0.5f) / height - 0.5f, 1.0f), nearest[p] = 10.0f;
  for (int first = 0; first < count; first += TILE) {
    __syncthreads();
    for (int i = tid; i < TILE * 9; i += BX * BY) held[i] = corners[first * 9 + i];
    __syncthreads();
#pragma unroll 1
    for (int t = 0; t < TILE; t++) {
      const float* c = held + t * 9;
      const float3 a = make_float3(c[0], c[1], c[2] + 2.0f), e = make_float3(c[3], c[4], c[5]), f = make_float3(c[6], c[7], c[8]), q = cross(make_float3(-a.x, -a.y, -a.z), e);
      const float far = dot(f, q);
#pragma unroll
      for (int p = 0; p < PER; p++) {
        const float3 h = cross(to[p], f);
        const float det = dot(e, h);
        if (fabsf(det) < 1e-7f) continue;
        const float over = 1.0f / det, u = -dot(a, h) * over;
        if (u < 0.0f || u > 1.0f) continue;
        const float v = dot(to[p], q) * over;
        if (v < 0.0f || u + v > 1.0f) continue;
        const float away = far * over;
        if (away > 1e-4f && away < nearest[p]) nearest[p] = away;
      }
    }
  }
#pragma unroll
  for (int p = 0; p < PER; p++) out[(y0 + p * BY) * width + x] = nearest[p];
}
#endif

#ifdef KERNEL_similar  // structural similarity of two images by windows of 11 x 11: tiles in shared memory, five sums along rows, then along columns
__constant__ const float kTaps[11] = {0.00102838f, 0.00759876f, 0.03600077f, 0.10936069f, 0.21300554f, 0.26601172f, 0.21300554f, 0.10936069f, 0.03600077f, 0.00759876f, 0.00102838f};
extern "C" __global__ void __launch_bounds__(BX * BY) similar(float* __restrict__ out, const float* __restrict__ one, const float* __restrict__ two, int width, int height) {
  constexpr int TY = BY * PER, W = BX + 10, H = TY + 10;
  __shared__ float tile[2][H][W], rows[5][H][BX];
  const int tid = threadIdx.y * BX + threadIdx.x, x0 = blockIdx.x * BX, y0 = blockIdx.y * TY;
  const size_t plane = (size_t)blockIdx.z * width * height;
  for (int i = tid; i < H * W; i += BX * BY) {
    const int y = y0 + i / W - 5, x = x0 + i % W - 5;
    const bool in = x >= 0 && x < width && y >= 0 && y < height;
    tile[0][i / W][i % W] = in ? one[plane + y * width + x] : 0.0f;
    tile[1][i / W][i % W] = in ? two[plane + y * width + x] : 0.0f;
  }
  __syncthreads();
  for (int y = threadIdx.y; y < H; y += BY) {
    float sum[5] = {};
#pragma unroll
    for (int k = 0; k < 11; k++) {
      const float a = tile[0][y][threadIdx.x + k], b = tile[1][y][threadIdx.x + k], w = kTaps[k];
      sum[0] += w * a, sum[1] += w * b, sum[2] += w * a * a, sum[3] += w * b * b, sum[4] += w * a * b;
    }
#pragma unroll
    for (int e = 0; e < 5; e++) rows[e][y][threadIdx.x] = sum[e];
  }
  __syncthreads();
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int y = threadIdx.y + p * BY;
    float sum[5] = {};
#pragma unroll
    for (int k = 0; k < 11; k++)
#pragma unroll
      for (int e = 0; e < 5; e++) sum[e] += kTaps[k] * rows[e][y + k][threadIdx.x];
    const float a = sum[0] * sum[0], b = sum[1] * sum[1], ab = sum[0] * sum[1];
    out[plane + (y0 + y) * width + x0 + threadIdx.x] = (2.0f * ab + 1e-4f) * (2.0f * (sum[4] - ab) + 9e-4f) / ((a + b + 1e-4f) * (sum[2] - a + sum[3] - b + 9e-4f));
  }
}
#endif

#ifdef KERNEL_beams  // beams of a radio telescope: sums over stations of complex samples by weights, a channel a plane of the grid; BEAMS beams a thread
extern "C" __global__ void __launch_bounds__(block_size_x) beams(float2* __restrict__ out, const float2* __restrict__ samples, const float2* __restrict__ weights, int stations, int count, int times) {
  __shared__ float2 held[use_shared ? BEAMS : 1][use_shared ? 64 : 1];
  const int t = blockIdx.x * block_size_x + threadIdx.x, first = blockIdx.y * BEAMS, channel = blockIdx.z;
  const float2 *from = samples + (size_t)channel * stations * times + t, *by = weights + ((size_t)channel * count + first) * stations;
  float2 sum[BEAMS] = {};
  for (int s0 = 0; s0 < stations; s0 += 64) {
    if (use_shared) {
      __syncthreads();
      for (int i = threadIdx.x; i < BEAMS * 64; i += block_size_x) held[i / 64 % (use_shared ? BEAMS : 1)][i % (use_shared ? 64 : 1)] = by[(i / 64) * stations + s0 + i % 64];
      __syncthreads();
    }
#pragma unroll kUnroll
    for (int s = 0; s < 64; s++) {
      const float2 x = from[(size_t)(s0 + s) * times];
#pragma unroll
      for (int b = 0; b < BEAMS; b++) {
        const float2 w = use_shared ? held[b % (use_shared ? BEAMS : 1)][s % (use_shared ? 64 : 1)] : by[b * stations + s0 + s];
        sum[b].x += w.x * x.x - w.y * x.y, sum[b].y += w.x * x.y + w.y * x.x;
      }
    }
  }
#pragma unroll
  for (int b = 0; b < BEAMS; b++) out[((size_t)channel * count + first + b) * times + t] = sum[b];
}
#endif

#ifdef KERNEL_harmonics  // sixteen spherical harmonics of each direction, as halves in a row: by words of VEC halves, or by way of shared memory
extern "C" __global__ void __launch_bounds__(BLOCK) harmonics(half* __restrict__ out, const float* __restrict__ directions, int n) {
  __shared__ __align__(16) half2 staged[STAGED ? BLOCK * 9 : 1];
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  const float x = directions[i * 3], y = directions[i * 3 + 1], z = directions[i * 3 + 2];
  const float xy = x * y, xz = x * z, yz = y * z, x2 = x * x, y2 = y * y, z2 = z * z;
  const float v[16] = {0.28209479f, -0.48860251f * y, 0.48860251f * z, -0.48860251f * x, 1.09254843f * xy, -1.09254843f * yz, 0.94617470f * z2 - 0.31539157f, -1.09254843f * xz,
                       0.54627421f * (x2 - y2), 0.59004359f * y * (-3.0f * x2 + y2), 2.89061144f * xy * z, 0.45704580f * y * (1.0f - 5.0f * z2), 0.37317633f * z * (5.0f * z2 - 3.0f),
                       0.45704580f * x * (1.0f - 5.0f * z2), 1.44530572f * z * (x2 - y2), 0.59004359f * x * (-x2 + 3.0f * y2)};
  half2 h[8];
#pragma unroll
  for (int e = 0; e < 8; e++) h[e] = __floats2half2_rn(v[e * 2], v[e * 2 + 1]);
  if (STAGED) {
#pragma unroll
    for (int e = 0; e < 8; e++) staged[(threadIdx.x * 9 + e) % (STAGED ? BLOCK * 9 : 1)] = h[e];
    __syncthreads();
    half2* to = (half2*)out + (size_t)blockIdx.x * BLOCK * 8;
#pragma unroll
    for (int k = threadIdx.x; k < BLOCK * 8; k += BLOCK) to[k] = staged[(k / 8 * 9 + k % 8) % (STAGED ? BLOCK * 9 : 1)];
  } else if (VEC == 8) {
#pragma unroll
    for (int e = 0; e < 2; e++) ((uint4*)out)[(size_t)i * 2 + e] = *(const uint4*)&h[e * 4];
  } else {
#pragma unroll
    for (int e = 0; e < 8; e++) ((half2*)out)[(size_t)i * 8 + e] = h[e];
  }
}
#endif
