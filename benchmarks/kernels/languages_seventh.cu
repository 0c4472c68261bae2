// Kernels in CUDA C++ as tuned codes and public samples commonly have them, of kinds that no earlier set has: tunables are
// macros of Kernel Tuner's names, sizes arguments.
#include <stdint.h>
#ifdef unroll_factor
constexpr int kUnroll = unroll_factor;
#endif

#ifdef KERNEL_expdist  // sums of Gaussians of distances between all points of two clouds, in double, one partial sum a block
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) expdist(double* partial, const double* a, const double* b, const double* sa, const double* sb, int m, int n) {
  const int i0 = blockIdx.x * block_size_x * tile_size_x + threadIdx.x, j0 = blockIdx.y * block_size_y * tile_size_y + threadIdx.y;
  double sum = 0.0;
#if use_shared_mem
  __shared__ double held[3][block_size_y * tile_size_y];
  for (int k = threadIdx.y * block_size_x + threadIdx.x; k < block_size_y * tile_size_y; k += block_size_x * block_size_y) {
    int j = blockIdx.y * block_size_y * tile_size_y + k;
    held[0][k] = j < n ? b[2 * j] : 0.0;
    held[1][k] = j < n ? b[2 * j + 1] : 0.0;
    held[2][k] = j < n ? sb[j] : 1.0;
  }
  __syncthreads();
#endif
#pragma unroll
  for (int ti = 0; ti < tile_size_x; ti++) {
    int i = i0 + ti * block_size_x;
    if (i >= m) continue;
    double x = a[2 * i], y = a[2 * i + 1], s = sa[i];
#pragma unroll
    for (int tj = 0; tj < tile_size_y; tj++) {
      int j = j0 + tj * block_size_y;
      if (j >= n) continue;
#if use_shared_mem
      int k = threadIdx.y + tj * block_size_y;
      double dx = x - held[0][k], dy = y - held[1][k], both = s + held[2][k];
#else
      double dx = x - b[2 * j], dy = y - b[2 * j + 1], both = s + sb[j];
#endif
      sum += exp(-(dx * dx + dy * dy) / both);
    }
  }
  __shared__ double warps[32];
  int t = threadIdx.y * block_size_x + threadIdx.x;
#pragma unroll
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (t % 32 == 0) warps[t / 32] = sum;
  __syncthreads();
  if (t < 32) {
    sum = t < block_size_x * block_size_y / 32 ? warps[t] : 0.0;
#pragma unroll
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (t == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
  }
}
#endif

#ifdef KERNEL_hotspot  // several steps of heat flow in a chip at a launch: a tile with a halo that shrinks, in shared memory
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) hotspot(float* out, const float* __restrict__ temperature, const float* __restrict__ power, int width, int height) {
  constexpr int W = block_size_x * tile_size_x, H = block_size_y * tile_size_y, K = temporal_tiling_factor;
  __shared__ float grid[2][H + 2 * K][W + 2 * K];
#if sh_power
  __shared__ float heat[H + 2 * K][W + 2 * K];
#endif
  const int x0 = blockIdx.x * W - K, y0 = blockIdx.y * H - K;
  for (int y = threadIdx.y; y < H + 2 * K; y += block_size_y)
    for (int x = threadIdx.x; x < W + 2 * K; x += block_size_x) {
      int gx = min(max(x0 + x, 0), width - 1), gy = min(max(y0 + y, 0), height - 1);
      grid[0][y][x] = temperature[gy * width + gx];
#if sh_power
      heat[y][x] = power[gy * width + gx];
#endif
    }
  __syncthreads();
#pragma unroll
  for (int k = 1; k <= K; k++) {
    const float(*was)[W + 2 * K] = grid[(k - 1) & 1];
    for (int y = threadIdx.y + k; y < H + 2 * K - k; y += block_size_y)
      for (int x = threadIdx.x + k; x < W + 2 * K - k; x += block_size_x) {
        int gx = x0 + x, gy = y0 + y;
        float mid = was[y][x];
        float n = gy > 0 ? was[y - 1][x] : mid, s = gy < height - 1 ? was[y + 1][x] : mid;
        float w = gx > 0 ? was[y][x - 1] : mid, e = gx < width - 1 ? was[y][x + 1] : mid;
#if sh_power
        float p = heat[y][x];
#else
        float p = power[min(max(gy, 0), height - 1) * width + min(max(gx, 0), width - 1)];
#endif
        float now = mid + 0.1f * (n + s - 2.0f * mid) + 0.1f * (e + w - 2.0f * mid) + 0.05f * p;
        if (k == K) {
          if (gx < width && gy < height) out[gy * width + gx] = now;
        } else {
          grid[k & 1][y][x] = now;
        }
      }
    if (k < K) __syncthreads();
  }
}
#endif

#ifdef KERNEL_dct  // discrete cosine transforms of blocks of 8 by 8 pixels, a row and then a column a thread
__constant__ float cosines[64];
extern "C" __global__ void __launch_bounds__(8 * blocks_x * blocks_y) dct(float* __restrict__ out, const float* __restrict__ x, int width, int height) {
  __shared__ float tile[blocks_y * 8][blocks_x * 8 + padding];
  const int lane = threadIdx.x, row0 = threadIdx.y * 8;
  for (int turn = 0; turn < per_block; turn++) {
    int gx = blockIdx.x * blocks_x * 8 + lane, gy = (blockIdx.y * per_block + turn) * blocks_y * 8 + row0;
    float v[8], w[8];
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = gx < width && gy + i < height ? x[(gy + i) * width + gx] : 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; i++) sum += cosines[8 * k + i] * v[i];
      tile[row0 + k][lane] = sum;
    }
    __syncthreads();
    const int r = row0 + lane % 8, c0 = lane / 8 * 8;
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = tile[r][c0 + i];
#pragma unroll
    for (int k = 0; k < 8; k++) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; i++) sum += cosines[8 * k + i] * v[i];
      w[k] = sum;
    }
    __syncthreads();
#if through_shared
#pragma unroll
    for (int k = 0; k < 8; k++) tile[r][c0 + k] = w[k];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (gx < width && gy + i < height) out[(gy + i) * width + gx] = tile[row0 + i][lane];
    __syncthreads();
#else
    int ox = blockIdx.x * blocks_x * 8 + c0, oy = (blockIdx.y * per_block + turn) * blocks_y * 8 + r;
    if (ox < width && oy < height) {
      float4* to = (float4*)(out + oy * width + ox);
      to[0] = make_float4(w[0], w[1], w[2], w[3]);
      to[1] = make_float4(w[4], w[5], w[6], w[7]);
    }
#endif
  }
}
#endif

#ifdef KERNEL_sepconv  // the columns of a separable convolution, weights in constant memory, steps of a strip in shared memory
__constant__ float weights[2 * RADIUS + 1];
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) sepconv(float* out, const float* x, int width, int height) {
  constexpr int ROWS = block_size_y * tile_size_y;
  __shared__ float held[ROWS + 2 * RADIUS][block_size_x + padding];
  const int gx = blockIdx.x * block_size_x + threadIdx.x, y0 = blockIdx.y * ROWS;
  for (int y = threadIdx.y; y < ROWS + 2 * RADIUS; y += block_size_y) {
    int gy = y0 + y - RADIUS;
    held[y][threadIdx.x] = gx < width && gy >= 0 && gy < height ? x[(size_t)gy * width + gx] : 0.0f;
  }
  __syncthreads();
  if (gx >= width) return;
#pragma unroll
  for (int t = 0; t < tile_size_y; t++) {
#if contiguous_rows
    int y = threadIdx.y * tile_size_y + t;
#else
    int y = threadIdx.y + t * block_size_y;
#endif
    float sum = 0.0f;
#pragma unroll kUnroll
    for (int r = 0; r <= 2 * RADIUS; r++) sum += weights[r] * held[y + r][threadIdx.x];
    if (y0 + y < height) out[(size_t)(y0 + y) * width + gx] = sum;
  }
}
#endif

#ifdef KERNEL_binomial  // American-style lattices of options, one a block: backward induction over a triangle in shared memory
extern "C" __global__ void __launch_bounds__(block_size_x) binomial(float* price, const float* spot, const float* strike, const float* years, int steps) {
  __shared__ float value[block_size_x * per_thread + 1];
  const float s = spot[blockIdx.x] * 30.0f + 5.0f, k = strike[blockIdx.x] * 30.0f + 5.0f, t = years[blockIdx.x] * 2.0f + 0.25f;
  const float dt = t / steps, up = __expf(0.3f * sqrtf(dt)), down = 1.0f / up, grow = __expf(0.02f * dt);
  const float p = (grow - down) / (up - down), pu = p / grow, pd = (1.0f - p) / grow;
  float mine[per_thread];
#pragma unroll
  for (int i = 0; i < per_thread; i++) {
    int at = threadIdx.x * per_thread + i;
    mine[i] = at <= steps ? fmaxf(s * __expf(0.3f * sqrtf(dt) * (2.0f * at - steps)) - k, 0.0f) : 0.0f;
  }
  for (int step = steps; step > 0; step--) {
    value[threadIdx.x] = mine[0];
    __syncthreads();
    float next = threadIdx.x + 1 < block_size_x ? value[threadIdx.x + 1] : 0.0f;
    __syncthreads();
#if skip_done
    if (threadIdx.x * per_thread >= step) continue;
#endif
#pragma unroll
    for (int i = 0; i < per_thread - 1; i++) mine[i] = pu * mine[i + 1] + pd * mine[i];
    mine[per_thread - 1] = pu * next + pd * mine[per_thread - 1];
  }
  if (threadIdx.x == 0) price[blockIdx.x] = mine[0];
}
#endif

#ifdef KERNEL_minplus  // shortest ways over one more step: C = min(C, A + B), in tiles as the last phase of blocked Floyd-Warshall
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y) minplus(float* c, const float* a, const float* b, int n, int depth) {
  __shared__ float as[block_size_y * tile_size_y][tile_k + padding], bs[tile_k][block_size_x * tile_size_x];
  const int row0 = blockIdx.y * block_size_y * tile_size_y, col0 = blockIdx.x * block_size_x * tile_size_x;
  const int t = threadIdx.y * block_size_x + threadIdx.x;
  float best[tile_size_y][tile_size_x];
#pragma unroll
  for (int i = 0; i < tile_size_y; i++)
#pragma unroll
    for (int j = 0; j < tile_size_x; j++) best[i][j] = c[(size_t)(row0 + threadIdx.y + i * block_size_y) * n + col0 + threadIdx.x + j * block_size_x];
  for (int k0 = 0; k0 < depth; k0 += tile_k) {
    for (int e = t; e < block_size_y * tile_size_y * tile_k; e += block_size_x * block_size_y) as[e / tile_k][e % tile_k] = a[(size_t)(row0 + e / tile_k) * depth + k0 + e % tile_k];
    for (int e = t; e < block_size_x * tile_size_x * tile_k; e += block_size_x * block_size_y) bs[e / (block_size_x * tile_size_x)][e % (block_size_x * tile_size_x)] = b[(size_t)(k0 + e / (block_size_x * tile_size_x)) * n + col0 + e % (block_size_x * tile_size_x)];
    __syncthreads();
#pragma unroll kUnroll
    for (int k = 0; k < tile_k; k++)
#pragma unroll
      for (int i = 0; i < tile_size_y; i++) {
        float from = as[threadIdx.y + i * block_size_y][k];
#pragma unroll
        for (int j = 0; j < tile_size_x; j++) best[i][j] = fminf(best[i][j], from + bs[k][threadIdx.x + j * block_size_x]);
      }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < tile_size_y; i++)
#pragma unroll
    for (int j = 0; j < tile_size_x; j++) c[(size_t)(row0 + threadIdx.y + i * block_size_y) * n + col0 + threadIdx.x + j * block_size_x] = best[i][j];
}
#endif

#ifdef KERNEL_pfb  // a polyphase filter: each channel a sum over TAPS earlier spectra; samples_per_thread spectra a thread, taps in registers
extern "C" __global__ void __launch_bounds__(block_size_x) pfb(float2* __restrict__ out, const char2* __restrict__ x, const float* __restrict__ taps, int channels, int spectra) {
  const int c = blockIdx.x * block_size_x + threadIdx.x, first = blockIdx.y * samples_per_thread;
  if (c >= channels) return;
  float w[TAPS];
#pragma unroll
  for (int t = 0; t < TAPS; t++) w[t] = taps[t * channels + c];
#if sliding
  float2 ring[TAPS];
#pragma unroll
  for (int t = 0; t < TAPS - 1; t++) {
    char2 v = x[(size_t)(first + t) * channels + c];
    ring[t + 1] = make_float2(v.x, v.y);
  }
#endif
#pragma unroll kUnroll
  for (int s = first; s < first + samples_per_thread; s++) {
    if (s >= spectra) break;
    float2 sum = make_float2(0.0f, 0.0f);
#if sliding
#pragma unroll
    for (int t = 0; t < TAPS - 1; t++) ring[t] = ring[t + 1];
    char2 v = x[(size_t)(s + TAPS - 1) * channels + c];
    ring[TAPS - 1] = make_float2(v.x, v.y);
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      sum.x += w[t] * ring[t].x;
      sum.y += w[t] * ring[t].y;
    }
#else
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      char2 v = x[(size_t)(s + t) * channels + c];
      sum.x += w[t] * v.x;
      sum.y += w[t] * v.y;
    }
#endif
    out[(size_t)s * channels + c] = sum;
  }
}
#endif

#ifdef KERNEL_lennard  // forces between atoms by lists of neighbours, an atom a thread or several threads an atom
extern "C" __global__ void __launch_bounds__(block_size_x) lennard(float4* __restrict__ force, const float4* __restrict__ atoms, const int* __restrict__ lists, int count, int most) {
  const int t = blockIdx.x * block_size_x + threadIdx.x, i = t / threads_per_atom, part = t % threads_per_atom;
  if (i >= count) return;
  const float4 me = atoms[i];
  float fx = 0.0f, fy = 0.0f, fz = 0.0f;
#pragma unroll kUnroll
  for (int k = part; k < most; k += threads_per_atom) {
#if transposed
    int j = lists[(size_t)k * count + i];
#else
    int j = lists[(size_t)i * most + k];
#endif
    float4 other = atoms[j];
    float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z;
    float r2 = dx * dx + dy * dy + dz * dz + 0.5f;
    if (r2 < 40.0f) {
      float inverse = 1.0f / r2, r6 = inverse * inverse * inverse;
      float pull = inverse * r6 * (1.5f * r6 - 2.0f);
      fx += dx * pull;
      fy += dy * pull;
      fz += dz * pull;
    }
  }
#pragma unroll
  for (int d = threads_per_atom / 2; d; d /= 2) {
    fx += __shfl_down_sync(~0u, fx, d, threads_per_atom);
    fy += __shfl_down_sync(~0u, fy, d, threads_per_atom);
    fz += __shfl_down_sync(~0u, fz, d, threads_per_atom);
  }
  if (part == 0) force[i] = make_float4(fx, fy, fz, 0.0f);
}
#endif

#ifdef KERNEL_hashed  // rounds of a keyed hash over words of a message, one message or more a thread: additions, rotations, exclusive ors
__device__ __forceinline__ uint32_t turn(uint32_t x, int by) { return x << by | x >> (32 - by); }
extern "C" __global__ void __launch_bounds__(block_size_x) hashed(uint32_t* digest, const uint32_t* messages, int count, uint32_t key) {
  const int first = blockIdx.x * block_size_x * per_thread + threadIdx.x;
#pragma unroll
  for (int m = 0; m < per_thread; m++) {
    int i = first + m * block_size_x;
    if (i >= count) return;
    uint32_t a = key, b = 0x9e3779b9u, c = 0x85ebca6bu, d = i;
#pragma unroll kUnroll
    for (int w = 0; w < WORDS; w++) {
#if interleaved
      a ^= messages[(size_t)w * count + i];
#else
      a ^= messages[(size_t)i * WORDS + w];
#endif
#pragma unroll
      for (int r = 0; r < ROUNDS; r++) {
        a += b;
        d = turn(d ^ a, 16);
        c += d;
        b = turn(b ^ c, 12);
        a += b;
        d = turn(d ^ a, 8);
        c += d;
        b = turn(b ^ c, 7);
      }
    }
    digest[i] = a ^ b ^ c ^ d;
  }
}
#endif
