// Kernels in CUDA C++ as those who tune with Kernel Tuner write them: tunables are macros of its names, sizes arguments.
#include <cuda_fp16.h>
#include <stdint.h>
#ifdef unroll_factor
constexpr int kUnroll = unroll_factor;
#endif

#ifdef KERNEL_pnpoly  // which points lie in a polygon, whose corners stand in constant memory; tile_size points a thread
__constant__ float2 vertices[VERTICES];
__device__ __forceinline__ bool between(float a, float b, float y) {
#if between_method == 0
  return (a > y) != (b > y);
#elif between_method == 1
  return (a - y) * (b - y) < 0.0f;
#else
  return a > y ? b <= y : b > y;
#endif
}
extern "C" __global__ void pnpoly(int* inside, const float2* points, int n) {
  int i = blockIdx.x * block_size_x * tile_size + threadIdx.x;
  if (i >= n) return;
  float2 p[tile_size];
  int crossed[tile_size];
#pragma unroll
  for (int t = 0; t < tile_size; t++) {
    crossed[t] = 0;
    p[t] = points[min(i + t * block_size_x, n - 1)];
  }
  int k = VERTICES - 1;
  for (int j = 0; j < VERTICES; k = j++) {
    float2 vj = vertices[j], vk = vertices[k];
    float slope = (vk.x - vj.x) / (vk.y - vj.y);
#pragma unroll
    for (int t = 0; t < tile_size; t++) {
      if (between(vj.y, vk.y, p[t].y) && p[t].x < slope * (p[t].y - vj.y) + vj.x) {
#if use_method == 0
        crossed[t] = !crossed[t];
#elif use_method == 1
        crossed[t] ^= 1;
#else
        crossed[t]++;
#endif
      }
    }
  }
#pragma unroll
  for (int t = 0; t < tile_size; t++)
    if (i + t * block_size_x < n) inside[i + t * block_size_x] = crossed[t] & 1;
}
#endif

#ifdef KERNEL_gridder  // subgrids of SIDE x SIDE pixels as sums of visibilities times a phase; one subgrid a block
extern "C" __global__ void gridder(float2* grids, const float2* visibilities, const float* uvw, int count) {
  __shared__ float4 at[batch_size];
  __shared__ float2 held[batch_size];
  const float2* mine = visibilities + (size_t)blockIdx.x * count;
  const float* where = uvw + (size_t)blockIdx.x * count * 3;
  for (int first = 0; first < SIDE * SIDE; first += block_size_x * tile_size) {
    float l[tile_size], m[tile_size], n[tile_size];
    float2 sum[tile_size];
#pragma unroll
    for (int t = 0; t < tile_size; t++) {
      int pixel = first + t * block_size_x + threadIdx.x;
      l[t] = (pixel % SIDE - SIDE / 2) * (1.0f / SIDE);
      m[t] = (pixel / SIDE - SIDE / 2) * (1.0f / SIDE);
      n[t] = 1.0f - sqrtf(1.0f - 0.5f * (l[t] * l[t] + m[t] * m[t]));
      sum[t] = make_float2(0.0f, 0.0f);
    }
    for (int begin = 0; begin < count; begin += batch_size) {
      int many = min(batch_size, count - begin);
      __syncthreads();
      for (int i = threadIdx.x; i < many; i += block_size_x) {
        const float* from = where + 3 * (begin + i);
        at[i] = make_float4(from[0], from[1], from[2], 0.0f);
        held[i] = mine[begin + i];
      }
      __syncthreads();
#pragma unroll kUnroll
      for (int i = 0; i < many; i++) {
        float4 w = at[i];
        float2 v = held[i];
#pragma unroll
        for (int t = 0; t < tile_size; t++) {
          float s, c;
          __sincosf(w.x * l[t] + w.y * m[t] + w.z * n[t], &s, &c);
          sum[t].x += v.x * c - v.y * s;
          sum[t].y += v.x * s + v.y * c;
        }
      }
    }
#pragma unroll
    for (int t = 0; t < tile_size; t++) grids[(size_t)blockIdx.x * SIDE * SIDE + first + t * block_size_x + threadIdx.x] = sum[t];
  }
}
#endif

#ifdef KERNEL_thomas  // tridiagonal systems, interleaved, one a thread: forward elimination, then back substitution
extern "C" __global__ void thomas(real* x, real* cp, const real* RESTRICT a, const real* RESTRICT b, const real* RESTRICT c, const real* RESTRICT d, int n, int systems) {
  int s = blockIdx.x * block_size_x + threadIdx.x;
  if (s >= systems) return;
  real up = c[s] / (b[s] + 3), last = d[s] / (b[s] + 3);
  cp[s] = up;
  x[s] = last;
#pragma unroll kUnroll
  for (int i = 1; i < n; i++) {
    int at = i * systems + s;
    real lower = a[at], scale = 1 / (b[at] + 3 - lower * up);
    up = c[at] * scale;
    last = (d[at] - lower * last) * scale;
    cp[at] = up;
    x[at] = last;
  }
#pragma unroll kUnroll
  for (int i = n - 2; i >= 0; i--) {
    int at = i * systems + s;
    last = x[at] - cp[at] * last;
    x[at] = last;
  }
}
#endif

#ifdef KERNEL_advec  // tendencies of the wind by second-order advection on a staggered grid with one ghost cell; tile_z levels a thread
__device__ __forceinline__ real half_of(real a, real b) { return (real)0.5 * (a + b); }
extern "C" __global__ void __launch_bounds__(block_size_x * block_size_y * block_size_z) advec(real* __restrict__ ut, real* __restrict__ vt, real* __restrict__ wt, const real* __restrict__ u, const real* __restrict__ v, const real* __restrict__ w, const real* __restrict__ dzi, int itot, int jtot, int ktot, real dxi, real dyi) {
  const int i = blockIdx.x * block_size_x + threadIdx.x, j = blockIdx.y * block_size_y + threadIdx.y;
  const int jj = itot + 2, kk = jj * (jtot + 2);
  if (i >= itot || j >= jtot) return;
#pragma unroll kUnroll
  for (int t = 0; t < tile_z; t++) {
#if contiguous_z
    const int k = (blockIdx.z * block_size_z + threadIdx.z) * tile_z + t;
#else
    const int k = (blockIdx.z * tile_z + t) * block_size_z + threadIdx.z;
#endif
    if (k < ktot) {
      const int at = (i + 1) + (j + 1) * jj + (k + 1) * kk;
      const real dz = dzi[k];
      const real ue = half_of(u[at], u[at + 1]), uw = half_of(u[at - 1], u[at]);
      ut[at] += -(ue * ue - uw * uw) * dxi - (half_of(v[at - 1 + jj], v[at + jj]) * half_of(u[at], u[at + jj]) - half_of(v[at - 1], v[at]) * half_of(u[at - jj], u[at])) * dyi - (half_of(w[at - 1 + kk], w[at + kk]) * half_of(u[at], u[at + kk]) - half_of(w[at - 1], w[at]) * half_of(u[at - kk], u[at])) * dz;
      const real vn = half_of(v[at], v[at + jj]), vs = half_of(v[at - jj], v[at]);
      vt[at] += -(half_of(u[at + 1 - jj], u[at + 1]) * half_of(v[at], v[at + 1]) - half_of(u[at - jj], u[at]) * half_of(v[at - 1], v[at])) * dxi - (vn * vn - vs * vs) * dyi - (half_of(w[at - jj + kk], w[at + kk]) * half_of(v[at], v[at + kk]) - half_of(w[at - jj], w[at]) * half_of(v[at - kk], v[at])) * dz;
      const real wu = half_of(w[at], w[at + kk]), wd = half_of(w[at - kk], w[at]);
      wt[at] += -(half_of(u[at + 1 - kk], u[at + 1]) * half_of(w[at], w[at + 1]) - half_of(u[at - kk], u[at]) * half_of(w[at - 1], w[at])) * dxi - (half_of(v[at + jj - kk], v[at + jj]) * half_of(w[at], w[at + jj]) - half_of(v[at - kk], v[at]) * half_of(w[at - jj], w[at])) * dyi - (wu * wu - wd * wd) * dz;
    }
  }
}
#endif

#ifdef KERNEL_compact  // the numbers above a threshold, one behind the other in any order; places by atomics of a warp or of a block
extern "C" __global__ void compact(float* out, int* count, const float* __restrict__ in, int n, float threshold) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned below = (1u << lane) - 1;
#if whole_block
  constexpr int TILE = block_size_x * items_per_thread;
  __shared__ int totals[block_size_x / 32], base;
  for (int first = blockIdx.x * TILE; first < n; first += gridDim.x * TILE) {
    float v[items_per_thread];
    unsigned mask[items_per_thread];
    int mine = 0;
#pragma unroll
    for (int j = 0; j < items_per_thread; j++) v[j] = in[min(first + j * block_size_x + threadIdx.x, n - 1)];
#pragma unroll
    for (int j = 0; j < items_per_thread; j++) {
      bool keep = first + j * block_size_x + threadIdx.x < n && v[j] > threshold;
      mask[j] = __ballot_sync(~0u, keep);
      mine += __popc(mask[j]);
    }
    if (lane == 0) totals[warp] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
      int sum = 0;
      for (int w = 0; w < block_size_x / 32; w++) {
        int of = totals[w];
        totals[w] = sum;
        sum += of;
      }
      base = atomicAdd(count, sum);
    }
    __syncthreads();
    int at = base + totals[warp];
#pragma unroll
    for (int j = 0; j < items_per_thread; j++) {
      if (mask[j] >> lane & 1) out[at + __popc(mask[j] & below)] = v[j];
      at += __popc(mask[j]);
    }
    __syncthreads();
  }
#else
  constexpr int kItems = items_per_thread;
#pragma unroll kItems
  for (int i = blockIdx.x * block_size_x + threadIdx.x; i < n; i += gridDim.x * block_size_x) {
    float v = in[i];
    unsigned mask = __ballot_sync(~0u, v > threshold);
    int at = 0;
    if (lane == 0 && mask) at = atomicAdd(count, __popc(mask));
    at = __shfl_sync(~0u, at, 0);
    if (v > threshold) out[at + __popc(mask & below)] = v;
  }
#endif
}
#endif

#ifdef KERNEL_matched  // the nearest and the second of `count` binary descriptors of 256 bits, by popc; tile_size of ours a thread
extern "C" __global__ void __launch_bounds__(block_size_x) matched(int* best, int* second, int* which, const uint4* __restrict__ ours, const uint4* __restrict__ theirs, int count) {
  __shared__ uint4 held[chunk][2];
  uint4 q[tile_size][2];
  int first[tile_size], next[tile_size], place[tile_size];
  const int i = blockIdx.x * block_size_x * tile_size + threadIdx.x;
#pragma unroll
  for (int t = 0; t < tile_size; t++) {
    q[t][0] = ours[2 * (i + t * block_size_x)];
    q[t][1] = ours[2 * (i + t * block_size_x) + 1];
    first[t] = next[t] = 257;
    place[t] = -1;
  }
  for (int begin = 0; begin < count; begin += chunk) {
    __syncthreads();
    for (int e = threadIdx.x; e < 2 * chunk; e += block_size_x) held[e / 2][e % 2] = theirs[2 * begin + e];
    __syncthreads();
#pragma unroll kUnroll
    for (int k = 0; k < chunk; k++) {
      uint4 a = held[k][0], b = held[k][1];
#pragma unroll
      for (int t = 0; t < tile_size; t++) {
        int far = __popc(a.x ^ q[t][0].x) + __popc(a.y ^ q[t][0].y) + __popc(a.z ^ q[t][0].z) + __popc(a.w ^ q[t][0].w);
        far += __popc(b.x ^ q[t][1].x) + __popc(b.y ^ q[t][1].y) + __popc(b.z ^ q[t][1].z) + __popc(b.w ^ q[t][1].w);
        if (far < first[t]) {
          next[t] = first[t];
          first[t] = far;
          place[t] = begin + k;
        } else if (far < next[t]) {
          next[t] = far;
        }
      }
    }
  }
#pragma unroll
  for (int t = 0; t < tile_size; t++) {
    best[i + t * block_size_x] = first[t];
    second[i + t * block_size_x] = next[t];
    which[i + t * block_size_x] = place[t];
  }
}
#endif

#ifdef KERNEL_median  // of a window of 2 R + 1 on a side, by comparing in registers; per_thread rows a thread, edges repeated
__device__ __forceinline__ void sort2(float& a, float& b) {
  float low = fminf(a, b);
  b = fmaxf(a, b);
  a = low;
}
template <int N> __device__ __forceinline__ void ends(float* v) {
#pragma unroll
  for (int i = 0; i < N / 2; i++) sort2(v[i], v[N - 1 - i]);
#pragma unroll
  for (int i = 1; i < (N + 1) / 2; i++) sort2(v[0], v[i]);
#pragma unroll
  for (int i = N / 2; i < N - 1; i++) sort2(v[i], v[N - 1]);
}
template <int N, int LEFT> struct Forget {
  static __device__ __forceinline__ float of(float* v, const float* more) {
    ends<N>(v);
    v[0] = more[0];
    return Forget<N - 1, LEFT - 1>::of(v, more + 1);
  }
};
template <> struct Forget<3, 0> {
  static __device__ __forceinline__ float of(float* v, const float*) {
    ends<3>(v);
    return v[1];
  }
};
template <int R, int PER> __global__ void __launch_bounds__(block_size_x * block_size_y) median(float* out, const float* __restrict__ in, int width, int height) {
  constexpr int SIDE = 2 * R + 1, ALL = SIDE * SIDE, FIRST = ALL / 2 + 2;
  const int x = blockIdx.x * block_size_x + threadIdx.x, y0 = blockIdx.y * block_size_y * PER;
#if staged
  constexpr int WIDE = block_size_x + 2 * R, TALL = block_size_y * PER + 2 * R;
  __shared__ float held[TALL][WIDE];
  for (int e = threadIdx.y * block_size_x + threadIdx.x; e < TALL * WIDE; e += block_size_x * block_size_y) {
    int sx = min(max((int)(blockIdx.x * block_size_x) + e % WIDE - R, 0), width - 1), sy = min(max(y0 + e / WIDE - R, 0), height - 1);
    held[e / WIDE][e % WIDE] = in[sy * width + sx];
  }
  __syncthreads();
#endif
  if (x >= width) return;
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int ty = p * block_size_y + threadIdx.y, y = y0 + ty;
    if (y >= height) return;
    float v[ALL];
#pragma unroll
    for (int dy = 0; dy < SIDE; dy++)
#pragma unroll
      for (int dx = 0; dx < SIDE; dx++) {
#if staged
        v[dy * SIDE + dx] = held[ty + dy][threadIdx.x + dx];
#else
        v[dy * SIDE + dx] = in[min(max(y + dy - R, 0), height - 1) * width + min(max(x + dx - R, 0), width - 1)];
#endif
      }
    out[y * width + x] = Forget<FIRST, ALL - FIRST>::of(v, v + FIRST);
  }
}
#endif

#ifdef KERNEL_attend  // O = softmax(Q K^T scale) V in half by mma.sync: 16 rows a warp, keys_tile keys at a time by cp.async
#ifndef EMULATED
__device__ __forceinline__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(half* to, const half* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place(to)), "l"(from)); }
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }
__device__ __forceinline__ void load_matrix(uint32_t* r, const half* p) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(p))); }
__device__ __forceinline__ void load_turned(uint32_t* r, const half* p) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(p))); }
__device__ __forceinline__ void mma(float* c, const uint32_t* a, const uint32_t* b) { asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); }
#endif
__device__ __forceinline__ uint32_t packed(float a, float b) {
  half2 h = __floats2half2_rn(a, b);
  return *(uint32_t*)&h;
}
extern __shared__ __align__(128) half room[];
extern "C" __global__ void __launch_bounds__(warps * 32) attend(half* O, const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V, int n, float scale) {
  constexpr int LINE = D + padding, THREADS = warps * 32;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const size_t base = (size_t)blockIdx.y * n * D;
  const half *keys = K + base, *values = V + base;
  const size_t mine = base + (size_t)(blockIdx.x * warps * 16 + warp * 16 + lane / 4) * D + lane % 4 * 2;
  uint32_t q[D / 16][4];
#pragma unroll
  for (int k = 0; k < D / 16; k++)
#pragma unroll
    for (int h = 0; h < 4; h++) q[k][h] = *(const uint32_t*)(Q + mine + k * 16 + h % 2 * 8 * D + h / 2 * 8);
  float sum[D / 8][4] = {}, top[2] = {-1e30f, -1e30f}, total[2] = {0.0f, 0.0f};
  auto load = [&](int slot, int k0) {
    half* to = room + slot * 2 * keys_tile * LINE;
#pragma unroll
    for (int e = threadIdx.x; e < keys_tile * D / 8; e += THREADS) {
      int r = e / (D / 8), c = e % (D / 8) * 8;
      copy16(to + r * LINE + c, keys + (size_t)(k0 + r) * D + c);
      copy16(to + (keys_tile + r) * LINE + c, values + (size_t)(k0 + r) * D + c);
    }
  };
  load(0, 0);
  copies_end();
  for (int k0 = 0; k0 < n; k0 += keys_tile) {
    const int slot = k0 / keys_tile % stages;
    if (stages > 1 && k0 + keys_tile < n) load(slot ^ 1, k0 + keys_tile);
    copies_end();
    copies_wait<stages - 1>();
    __syncthreads();
    const half *ks = room + slot * 2 * keys_tile * LINE, *vs = ks + keys_tile * LINE;
    float s[keys_tile / 8][4] = {};
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
      for (int j = 0; j < keys_tile / 16; j++) {
        uint32_t b[4];
        load_matrix(b, ks + (j * 16 + lane / 16 * 8 + lane % 8) * LINE + k * 16 + lane / 8 % 2 * 8);
        mma(s[2 * j], q[k], b);
        mma(s[2 * j + 1], q[k], b + 2);
      }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float most = top[h];
#pragma unroll
      for (int j = 0; j < keys_tile / 8; j++) most = fmaxf(most, fmaxf(s[j][2 * h], s[j][2 * h + 1]) * scale);
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float shrunk = exp2f(top[h] - most);
      top[h] = most;
      total[h] *= shrunk;
#pragma unroll
      for (int j = 0; j < keys_tile / 8; j++)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; e++) {
          s[j][e] = exp2f(s[j][e] * scale - most);
          total[h] += s[j][e];
        }
#pragma unroll
      for (int d = 0; d < D / 8; d++) {
        sum[d][2 * h] *= shrunk;
        sum[d][2 * h + 1] *= shrunk;
      }
    }
#pragma unroll
    for (int i = 0; i < keys_tile / 16; i++) {
      const uint32_t p[4] = {packed(s[2 * i][0], s[2 * i][1]), packed(s[2 * i][2], s[2 * i][3]), packed(s[2 * i + 1][0], s[2 * i + 1][1]), packed(s[2 * i + 1][2], s[2 * i + 1][3])};
#pragma unroll
      for (int d = 0; d < D / 16; d++) {
        uint32_t b[4];
        load_turned(b, vs + (i * 16 + lane % 16) * LINE + d * 16 + lane / 16 * 8);
        mma(sum[2 * d], p, b);
        mma(sum[2 * d + 1], p, b + 2);
      }
    }
    __syncthreads();
    if (stages == 1 && k0 + keys_tile < n) load(0, k0 + keys_tile);
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float all = total[h];
    all += __shfl_xor_sync(~0u, all, 1);
    all += __shfl_xor_sync(~0u, all, 2);
#pragma unroll
    for (int d = 0; d < D / 8; d++) *(uint32_t*)(O + mine + h * 8 * D + d * 8) = packed(sum[d][2 * h] / all, sum[d][2 * h + 1] / all);
  }
}
#endif

#ifdef KERNEL_backproject  // a volume from projections around it: bilinear samples at computed places; sines in constant memory
__constant__ float2 turns[ANGLES];
extern "C" __global__ void backproject(float* volume, const float* __restrict__ projections, int nx, int ny, int nz, int width, int height, float distance) {
  const int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y, z0 = blockIdx.z * tile_z;
  if (x >= nx || y >= ny) return;
  const float fx = x - 0.5f * (nx - 1), fy = y - 0.5f * (ny - 1);
  float sum[tile_z] = {0.0f};
#pragma unroll kUnroll
  for (int a = 0; a < ANGLES; a++) {
    const float2 turn = turns[a];
    const float near = distance / (distance + turn.y * fx - turn.x * fy);
    const float u = (turn.x * fx + turn.y * fy) * near + 0.5f * (width - 1);
    const int iu = (int)floorf(u);
    const float du = u - iu;
    if (iu < 0 || iu >= width - 1) continue;
#pragma unroll
    for (int t = 0; t < tile_z; t++) {
      const float v = (z0 + t - 0.5f * (nz - 1)) * near + 0.5f * (height - 1);
      const int iv = (int)floorf(v);
      const float dv = v - iv;
      if (iv >= 0 && iv < height - 1) {
        const float* p = projections + (a * height + iv) * width + iu;
        sum[t] += near * near * ((1 - dv) * ((1 - du) * p[0] + du * p[1]) + dv * ((1 - du) * p[width] + du * p[width + 1]));
      }
    }
  }
#pragma unroll
  for (int t = 0; t < tile_z; t++)
    if (z0 + t < nz) volume[((size_t)(z0 + t) * ny + y) * nx + x] = sum[t];
}
#endif

#ifdef KERNEL_correlate  // each station with each below it, over times, a channel a row of the grid: tiles of a triangle
extern "C" __global__ void correlate(float2* out, const float2* __restrict__ samples, int stations, int times) {
  constexpr int TILE = block_size_x * tile_size, THREADS = block_size_x * block_size_x;
  __shared__ float2 left[chunk][TILE], right[chunk][TILE];
  const int row = (int)((sqrtf(8.0f * blockIdx.x + 1.0f) - 1.0f) * 0.5f), col = blockIdx.x - row * (row + 1) / 2;
  const float2* in = samples + (size_t)blockIdx.y * times * stations;
  const int tid = threadIdx.y * block_size_x + threadIdx.x;
  float re[tile_size][tile_size] = {}, im[tile_size][tile_size] = {};
  for (int t0 = 0; t0 < times; t0 += chunk) {
    __syncthreads();
    for (int e = tid; e < chunk * TILE; e += THREADS) {
      const float2* from = in + (size_t)(t0 + e / TILE) * stations + e % TILE;
      left[e / TILE][e % TILE] = from[row * TILE];
      right[e / TILE][e % TILE] = from[col * TILE];
    }
    __syncthreads();
#pragma unroll kUnroll
    for (int t = 0; t < chunk; t++) {
      float2 a[tile_size], b[tile_size];
#pragma unroll
      for (int i = 0; i < tile_size; i++) {
#if strided
        a[i] = left[t][threadIdx.y + i * block_size_x];
        b[i] = right[t][threadIdx.x + i * block_size_x];
#else
        a[i] = left[t][threadIdx.y * tile_size + i];
        b[i] = right[t][threadIdx.x * tile_size + i];
#endif
      }
#pragma unroll
      for (int i = 0; i < tile_size; i++)
#pragma unroll
        for (int j = 0; j < tile_size; j++) {
          re[i][j] += a[i].x * b[j].x + a[i].y * b[j].y;
          im[i][j] += a[i].y * b[j].x - a[i].x * b[j].y;
        }
    }
  }
#pragma unroll
  for (int i = 0; i < tile_size; i++)
#pragma unroll
    for (int j = 0; j < tile_size; j++) {
#if strided
      const int s = row * TILE + threadIdx.y + i * block_size_x, z = col * TILE + threadIdx.x + j * block_size_x;
#else
      const int s = row * TILE + threadIdx.y * tile_size + i, z = col * TILE + threadIdx.x * tile_size + j;
#endif
      out[((size_t)blockIdx.y * stations + s) * stations + z] = make_float2(re[i][j], im[i][j]);
    }
}
#endif

#ifdef KERNEL_yuv  // three bytes a pixel to three planes: a pixel a thread, four pixels by words, or staged in shared memory
__device__ __forceinline__ void converted(int r, int g, int b, int* to) {
  to[0] = (66 * r + 129 * g + 25 * b + 128 >> 8) + 16;
  to[1] = (-38 * r - 74 * g + 112 * b + 128 >> 8) + 128;
  to[2] = (112 * r - 94 * g - 18 * b + 128 >> 8) + 128;
}
extern "C" __global__ void yuv(uint8_t* planes, const uint8_t* __restrict__ rgb, int pixels) {
#if method == 0
  for (int t = 0; t < per_thread; t++) {
    const int i = (blockIdx.x * per_thread + t) * block_size_x + threadIdx.x;
    if (i < pixels) {
      int c[3];
      converted(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], c);
      for (int p = 0; p < 3; p++) planes[(size_t)p * pixels + i] = c[p];
    }
  }
#else
#if method == 2
  __shared__ uint32_t held[block_size_x * per_thread * 3];
  const int begin = blockIdx.x * block_size_x * per_thread, many = min(block_size_x * per_thread, pixels / 4 - begin) * 3;
#pragma unroll
  for (int e = threadIdx.x; e < block_size_x * per_thread * 3; e += block_size_x)
    if (e < many) held[e] = ((const uint32_t*)rgb)[begin * 3 + e];
  __syncthreads();
#endif
#pragma unroll
  for (int t = 0; t < per_thread; t++) {
    const int at = t * block_size_x + threadIdx.x, i = blockIdx.x * block_size_x * per_thread + at;
    if (i < pixels / 4) {
      uint32_t w[3], out[3] = {0, 0, 0};
#pragma unroll
      for (int p = 0; p < 3; p++)
#if method == 2
        w[p] = held[at * 3 + p];
#else
        w[p] = ((const uint32_t*)rgb)[i * 3 + p];
#endif
#pragma unroll
      for (int k = 0; k < 4; k++) {
        int c[3], of[3];
#pragma unroll
        for (int p = 0; p < 3; p++) of[p] = w[(3 * k + p) / 4] >> (3 * k + p) % 4 * 8 & 255;
        converted(of[0], of[1], of[2], c);
#pragma unroll
        for (int p = 0; p < 3; p++) out[p] |= (uint32_t)c[p] << 8 * k;
      }
#pragma unroll
      for (int p = 0; p < 3; p++) ((uint32_t*)(planes + (size_t)p * pixels))[i] = out[p];
    }
  }
#endif
}
#endif
