// Kernels in CUDA C++ whose tunables are macros. -DKERNEL_name picks one; `benchmarks/languages.py` says how each is
// launched and what is right.
#include <cuda_fp16.h>
#include <stdint.h>
#define DEVICE __device__ __forceinline__

template <class T> DEVICE T warp_sum(T x) {
#pragma unroll
  for (int far = 16; far; far >>= 1) x += __shfl_xor_sync(~0u, x, far);
  return x;
}
DEVICE float warp_max(float x) {
#pragma unroll
  for (int far = 16; far; far >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, far));
  return x;
}
// of all threads of a block, given to all
template <int COUNT, bool MAX> DEVICE float block_all(float x) {
  __shared__ float part[2][32];
  x = MAX ? warp_max(x) : warp_sum(x);
  if (COUNT == 1) return x;
  if (threadIdx.x % 32 == 0) part[MAX][threadIdx.x / 32] = x;
  __syncthreads();
  x = part[MAX][0];
#pragma unroll
  for (int i = 1; i < COUNT; i++) x = MAX ? fmaxf(x, part[MAX][i]) : x + part[MAX][i];
  return x;
}
template <int N> struct alignas(4 * N) Floats { float at[N]; };

#ifdef KERNEL_total  // BLOCK threads, VEC floats a load, UNROLL loads in flight; the grid strides
extern "C" __global__ void __launch_bounds__(BLOCK) total(float* out, const float* __restrict__ in, int n) {
  const Floats<VEC>* from = (const Floats<VEC>*)in;
  const int count = n / VEC, stride = gridDim.x * BLOCK;
  float sum = 0;
  int i = blockIdx.x * BLOCK + threadIdx.x;
  for (; i + (UNROLL - 1) * stride < count; i += UNROLL * stride) {
    Floats<VEC> held[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) held[u] = from[i + u * stride];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
      for (int v = 0; v < VEC; v++) sum += held[u].at[v];
  }
  for (; i < count; i += stride)
    for (int v = 0; v < VEC; v++) sum += from[i].at[v];
  sum = block_all<BLOCK / 32, false>(sum);
  if (threadIdx.x == 0) atomicAdd(out, sum);
}
#endif

#ifdef KERNEL_scan  // inclusive sums of segments of BLOCK * ITEMS numbers; STAGED through shared memory, or each thread its own
extern "C" __global__ void __launch_bounds__(BLOCK) scan(int* __restrict__ out, const int* __restrict__ in) {
  constexpr int TILE = BLOCK * ITEMS, WARPS = BLOCK / 32;
  __shared__ int part[WARPS];
  const size_t base = (size_t)blockIdx.x * TILE;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int x[ITEMS];
#if STAGED
  __shared__ int tile[TILE + TILE / 32];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) { const int e = i * BLOCK + threadIdx.x; tile[e + e / 32] = in[base + e]; }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < ITEMS; i++) { const int e = threadIdx.x * ITEMS + i; x[i] = tile[e + e / 32]; }
#else
#pragma unroll
  for (int i = 0; i < ITEMS; i++) x[i] = in[base + threadIdx.x * ITEMS + i];
#endif
#pragma unroll
  for (int i = 1; i < ITEMS; i++) x[i] += x[i - 1];
  int sum = x[ITEMS - 1];
#pragma unroll
  for (int far = 1; far < 32; far <<= 1) { const int left = __shfl_up_sync(~0u, sum, far); if (lane >= far) sum += left; }
  if (lane == 31) part[warp] = sum;
  __syncthreads();
  int before = sum - x[ITEMS - 1];
  for (int w = 0; w < warp; w++) before += part[w];
#if STAGED
#pragma unroll
  for (int i = 0; i < ITEMS; i++) { const int e = threadIdx.x * ITEMS + i; tile[e + e / 32] = x[i] + before; }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < ITEMS; i++) { const int e = i * BLOCK + threadIdx.x; out[base + e] = tile[e + e / 32]; }
#else
#pragma unroll
  for (int i = 0; i < ITEMS; i++) out[base + threadIdx.x * ITEMS + i] = x[i] + before;
#endif
}
#endif

#ifdef KERNEL_transposed  // tiles of TILE x TILE by TILE x ROWS threads; PAD columns more
extern "C" __global__ void __launch_bounds__(TILE * ROWS) transposed(float* __restrict__ out, const float* __restrict__ in, int rows, int cols) {
  __shared__ float tile[TILE][TILE + PAD];
  const int x = blockIdx.x * TILE, y = blockIdx.y * TILE;
#pragma unroll
  for (int j = threadIdx.y; j < TILE; j += ROWS) tile[j][threadIdx.x] = in[(size_t)(y + j) * cols + x + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int j = threadIdx.y; j < TILE; j += ROWS) out[(size_t)(x + j) * rows + y + threadIdx.x] = tile[threadIdx.x][j];
}
#endif

#ifdef KERNEL_filtered  // F x F taps in constant memory; BX x BY threads, TX x TY outputs each; SHARED: through a tile with its halo
__constant__ float taps[F * F];
extern "C" __global__ void __launch_bounds__(BX * BY) filtered(float* __restrict__ out, const float* __restrict__ in, int width) {
  constexpr int WIDE = BX * TX, TALL = BY * TY;
  const int pitch = width + F - 1, x0 = blockIdx.x * WIDE, y0 = blockIdx.y * TALL;
  const float* from = in + (size_t)y0 * pitch + x0;
#if SHARED
  __shared__ float tile[TALL + F - 1][WIDE + F - 1];
  for (int y = threadIdx.y; y < TALL + F - 1; y += BY)
    for (int x = threadIdx.x; x < WIDE + F - 1; x += BX) tile[y][x] = from[(size_t)y * pitch + x];
  __syncthreads();
#define AT(y, x) tile[y][x]
#else
#define AT(y, x) __ldg(from + (size_t)(y) * pitch + (x))
#endif
  float sum[TY][TX] = {};
#pragma unroll
  for (int v = 0; v < F; v++)
#pragma unroll
    for (int u = 0; u < F; u++)
#pragma unroll
      for (int j = 0; j < TY; j++)
#pragma unroll
        for (int i = 0; i < TX; i++) sum[j][i] += AT(threadIdx.y + j * BY + v, threadIdx.x + i * BX + u) * taps[v * F + u];
#pragma unroll
  for (int j = 0; j < TY; j++)
#pragma unroll
    for (int i = 0; i < TX; i++) out[(size_t)(y0 + threadIdx.y + j * BY) * width + x0 + threadIdx.x + i * BX] = sum[j][i];
}
#endif

#ifdef KERNEL_nbody  // BLOCK threads, PER bodies each, tiles of BLOCK bodies in shared memory, UNROLL of the inner loop
extern "C" __global__ void __launch_bounds__(BLOCK) nbody(float4* __restrict__ out, const float4* __restrict__ in, int n) {
  constexpr int unrolled = UNROLL;
  __shared__ float4 tile[BLOCK];
  float4 me[PER];
  float3 sum[PER] = {};
#pragma unroll
  for (int p = 0; p < PER; p++) me[p] = in[(blockIdx.x * PER + p) * BLOCK + threadIdx.x];
  for (int base = 0; base < n; base += BLOCK) {
    tile[threadIdx.x] = in[base + threadIdx.x];
    __syncthreads();
#pragma unroll unrolled
    for (int j = 0; j < BLOCK; j++) {
      const float4 other = tile[j];
#pragma unroll
      for (int p = 0; p < PER; p++) {
        const float x = other.x - me[p].x, y = other.y - me[p].y, z = other.z - me[p].z;
        const float inverse = rsqrtf(x * x + y * y + z * z + 0.01f), pull = other.w * inverse * inverse * inverse;
        sum[p].x += x * pull; sum[p].y += y * pull; sum[p].z += z * pull;
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int p = 0; p < PER; p++) out[(blockIdx.x * PER + p) * BLOCK + threadIdx.x] = make_float4(sum[p].x, sum[p].y, sum[p].z, 0.f);
}
#endif

#ifdef KERNEL_spmv  // rows of a sparse matrix, LANES lanes a row, BLOCK threads
extern "C" __global__ void __launch_bounds__(BLOCK) spmv(float* __restrict__ out, const int* __restrict__ starts, const int* __restrict__ cols, const float* __restrict__ held, const float* __restrict__ x, int rows) {
  const int row = (blockIdx.x * BLOCK + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  if (row >= rows) return;
  const int end = starts[row + 1];
  float sum = 0;
  for (int e = starts[row] + lane; e < end; e += LANES) sum += held[e] * __ldg(x + cols[e]);
#pragma unroll
  for (int far = LANES / 2; far; far >>= 1) sum += __shfl_xor_sync(~0u, sum, far, LANES);
  if (lane == 0) out[row] = sum;
}
#endif

#ifdef KERNEL_counts  // bytes counted in 256 bins; COPIES tables in shared memory, ITEMS words of 4 bytes a thread and pass
extern "C" __global__ void __launch_bounds__(BLOCK) counts(unsigned* out, const unsigned* __restrict__ in, int words) {
  __shared__ unsigned table[COPIES][257];
  for (int i = threadIdx.x; i < COPIES * 257; i += BLOCK) (&table[0][0])[i] = 0;
  __syncthreads();
  unsigned* mine = table[threadIdx.x / 32 % COPIES];
  for (int base = blockIdx.x * BLOCK * ITEMS; base < words; base += gridDim.x * BLOCK * ITEMS) {
    unsigned held[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) held[i] = in[base + i * BLOCK + threadIdx.x];
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
#pragma unroll
      for (int b = 0; b < 4; b++) atomicAdd(mine + (held[i] >> 8 * b & 255), 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < 256; bin += BLOCK) {
    unsigned sum = 0;
    for (int c = 0; c < COPIES; c++) sum += table[c][bin];
    atomicAdd(out + bin, sum);
  }
}
#endif

#ifdef KERNEL_hmma  // C = A B^T in half by mma.sync; BM x BN x BK tiles, warps of WM x WN, STAGES buffers by cp.async, places swizzled
DEVICE unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
DEVICE void copy16(unsigned to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)); }
DEVICE int swizzled(int row, int col) { return row * BK + ((col / 8 ^ (row * BK / 64) % (BK / 8 < 8 ? BK / 8 : 8)) * 8); }
extern "C" __global__ void __launch_bounds__(BM / WM * BN / WN * 32) hmma(half* __restrict__ C, const half* __restrict__ A, const half* __restrict__ B, int M, int N, int K) {
  constexpr int THREADS = BM / WM * BN / WN * 32, SIZE = (BM + BN) * BK;
  extern __shared__ __align__(128) half shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wy = warp / (BN / WN) * WM, wx = warp % (BN / WN) * WN;
  const half *a = A + (size_t)blockIdx.y * BM * K, *b = B + (size_t)blockIdx.x * BN * K;
  float sum[WM / 16][WN / 8][4] = {};
  auto load = [&](int slot, int k0) {
    half* to = shared + slot * SIZE;
#pragma unroll
    for (int e = threadIdx.x; e < BM * BK / 8; e += THREADS) { const int r = e / (BK / 8), c = e % (BK / 8) * 8; copy16(place(to + swizzled(r, c)), a + (size_t)r * K + k0 + c); }
#pragma unroll
    for (int e = threadIdx.x; e < BN * BK / 8; e += THREADS) { const int r = e / (BK / 8), c = e % (BK / 8) * 8; copy16(place(to + BM * BK + swizzled(r, c)), b + (size_t)r * K + k0 + c); }
  };
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) { load(s, s * BK); asm volatile("cp.async.commit_group;"); }
  int slot = 0, next = STAGES - 1;
  for (int k0 = 0; k0 < K; k0 += BK) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    if (k0 + (STAGES - 1) * BK < K) load(next, k0 + (STAGES - 1) * BK);
    asm volatile("cp.async.commit_group;");
    const half *as = shared + slot * SIZE, *bs = as + BM * BK;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      unsigned fa[WM / 16][4], fb[WN / 8][2];
#pragma unroll
      for (int i = 0; i < WM / 16; i++)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(place(as + swizzled(wy + i * 16 + lane % 16, k + lane / 16 * 8))));
#pragma unroll
      for (int j = 0; j < WN / 8; j += 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j + 1][0]), "=r"(fb[j + 1][1]) : "r"(place(bs + swizzled(wx + j * 8 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8))));
#pragma unroll
      for (int i = 0; i < WM / 16; i++)
#pragma unroll
        for (int j = 0; j < WN / 8; j++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3]) : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
    }
    slot = slot + 1 == STAGES ? 0 : slot + 1;
    next = next + 1 == STAGES ? 0 : next + 1;
  }
  half* c = C + ((size_t)blockIdx.y * BM + wy + lane / 4) * N + blockIdx.x * BN + wx + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < WM / 16; i++)
#pragma unroll
    for (int j = 0; j < WN / 8; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) *(half2*)(c + (size_t)(i * 16 + h * 8) * N + j * 8) = __floats2half2_rn(sum[i][j][2 * h], sum[i][j][2 * h + 1]);
}
#endif

#ifdef KERNEL_matvec  // y = A x, halves; ROWS rows a warp, WARPS warps, VEC halves a load
extern "C" __global__ void __launch_bounds__(WARPS * 32) matvec(float* __restrict__ y, const half* __restrict__ A, const half* __restrict__ x, int cols) {
  const int lane = threadIdx.x % 32, row = (blockIdx.x * WARPS + threadIdx.x / 32) * ROWS;
  float sum[ROWS] = {};
  for (int c = lane * VEC; c < cols; c += 32 * VEC) {
    half2 part[VEC / 2];
    *(Floats<VEC / 2>*)part = *(const Floats<VEC / 2>*)(x + c);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      half2 held[VEC / 2];
      *(Floats<VEC / 2>*)held = *(const Floats<VEC / 2>*)(A + (size_t)(row + r) * cols + c);
#pragma unroll
      for (int v = 0; v < VEC / 2; v++) { const float2 p = __half22float2(held[v]), q = __half22float2(part[v]); sum[r] += p.x * q.x + p.y * q.y; }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) { const float s = warp_sum(sum[r]); if (lane == 0) y[row + r] = s; }
}
#endif

#ifdef KERNEL_softmax  // a row a block of BLOCK threads, VEC floats a load; KEPT in registers, or read three times
extern "C" __global__ void __launch_bounds__(BLOCK) softmax(float* __restrict__ out, const float* __restrict__ in) {
  const Floats<VEC>* from = (const Floats<VEC>*)(in + (size_t)blockIdx.x * COLS);
  Floats<VEC>* to = (Floats<VEC>*)(out + (size_t)blockIdx.x * COLS);
  constexpr int PASSES = COLS / VEC / BLOCK, unrolled = KEPT ? PASSES : 1;
  float top = -INFINITY, sum = 0;
#if KEPT
  Floats<VEC> x[PASSES];
#pragma unroll
  for (int i = 0; i < PASSES; i++) x[i] = from[i * BLOCK + threadIdx.x];
#define X(i) x[i]
#else
#define X(i) from[(i) * BLOCK + threadIdx.x]
#endif
#pragma unroll unrolled
  for (int i = 0; i < PASSES; i++) { const Floats<VEC> h = X(i); for (int v = 0; v < VEC; v++) top = fmaxf(top, h.at[v]); }
  top = block_all<BLOCK / 32, true>(top);
#pragma unroll unrolled
  for (int i = 0; i < PASSES; i++) { const Floats<VEC> h = X(i); for (int v = 0; v < VEC; v++) sum += __expf(h.at[v] - top); }
  sum = 1.f / block_all<BLOCK / 32, false>(sum);
#pragma unroll unrolled
  for (int i = 0; i < PASSES; i++) { Floats<VEC> h = X(i); for (int v = 0; v < VEC; v++) h.at[v] = __expf(h.at[v] - top) * sum; to[i * BLOCK + threadIdx.x] = h; }
}
#endif

#ifdef KERNEL_bitonic  // segments of BLOCK * ITEMS numbers sorted in shared memory
extern "C" __global__ void __launch_bounds__(BLOCK) bitonic(int* __restrict__ out, const int* __restrict__ in) {
  constexpr int TILE = BLOCK * ITEMS;
  __shared__ int held[TILE];
  const size_t base = (size_t)blockIdx.x * TILE;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) held[i * BLOCK + threadIdx.x] = in[base + i * BLOCK + threadIdx.x];
  for (int size = 2; size <= TILE; size <<= 1)
    for (int far = size >> 1; far; far >>= 1) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < ITEMS / 2; i++) {
        const int e = i * BLOCK + threadIdx.x, low = 2 * e - (e & far - 1), high = low + far;
        const int a = held[low], b = held[high];
        const bool up = (low & size) == 0;
        if ((a > b) == up) { held[low] = b; held[high] = a; }
      }
    }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < ITEMS; i++) out[base + i * BLOCK + threadIdx.x] = held[i * BLOCK + threadIdx.x];
}
#endif

#ifdef KERNEL_normed  // layer norm of halves: ROWS rows a block, WARPS warps a row, VEC halves a load, kept in registers
extern "C" __global__ void __launch_bounds__(ROWS * WARPS * 32) normed(half* __restrict__ out, const half* __restrict__ in, const float* __restrict__ scale) {
  constexpr int PASSES = COLS / (WARPS * 32 * VEC);
  __shared__ float2 part[ROWS][WARPS];
  const int row = threadIdx.x / (WARPS * 32), at = threadIdx.x % (WARPS * 32), warp = at / 32;
  const size_t base = ((size_t)blockIdx.x * ROWS + row) * COLS;
  half2 x[PASSES][VEC / 2];
  float sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < PASSES; i++) *(Floats<VEC / 2>*)x[i] = *(const Floats<VEC / 2>*)(in + base + (i * WARPS * 32 + at) * VEC);
#pragma unroll
  for (int i = 0; i < PASSES; i++)
#pragma unroll
    for (int v = 0; v < VEC / 2; v++) { const float2 p = __half22float2(x[i][v]); sum += p.x + p.y; squares += p.x * p.x + p.y * p.y; }
  sum = warp_sum(sum); squares = warp_sum(squares);
  if (WARPS > 1) {
    if (at % 32 == 0) part[row][warp] = make_float2(sum, squares);
    __syncthreads();
    sum = squares = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) { sum += part[row][w].x; squares += part[row][w].y; }
  }
  const float mean = sum / COLS, by = rsqrtf(squares / COLS - mean * mean + 1e-5f);
#pragma unroll
  for (int i = 0; i < PASSES; i++) {
    const int c = (i * WARPS * 32 + at) * VEC;
#pragma unroll
    for (int v = 0; v < VEC / 2; v++) { const float2 p = __half22float2(x[i][v]); x[i][v] = __floats2half2_rn((p.x - mean) * by * scale[c + 2 * v], (p.y - mean) * by * scale[c + 2 * v + 1]); }
    *(Floats<VEC / 2>*)(out + base + c) = *(Floats<VEC / 2>*)x[i];
  }
}
#endif

#ifdef KERNEL_columns  // sums of columns: BX x BY threads, each VEC columns; DEEP rows a block, joined in shared memory, added with atomics
extern "C" __global__ void __launch_bounds__(BX * BY) columns(float* out, const float* __restrict__ in, int cols) {
  __shared__ float part[BY][BX * VEC];
  const int c = (blockIdx.x * BX + threadIdx.x) * VEC;
  float sum[VEC] = {};
#pragma unroll 4
  for (int r = threadIdx.y; r < DEEP; r += BY) {
    const Floats<VEC> h = *(const Floats<VEC>*)(in + ((size_t)blockIdx.y * DEEP + r) * cols + c);
#pragma unroll
    for (int v = 0; v < VEC; v++) sum[v] += h.at[v];
  }
#pragma unroll
  for (int v = 0; v < VEC; v++) part[threadIdx.y][threadIdx.x * VEC + v] = sum[v];
  __syncthreads();
  for (int i = threadIdx.y * BX + threadIdx.x; i < BX * VEC; i += BX * BY) {
    float all = 0;
#pragma unroll
    for (int r = 0; r < BY; r++) all += part[r][i];
    atomicAdd(out + blockIdx.x * BX * VEC + i, all);
  }
}
#endif

#ifdef KERNEL_heat  // seven points in space: BX x BY threads walk through DEEP planes; SHARED: the plane's neighbours out of shared memory
extern "C" __global__ void __launch_bounds__(BX * BY) heat(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
  constexpr int unrolled = UNROLL;
  const int px = nx + 2, x = blockIdx.x * BX + threadIdx.x + 1, y = blockIdx.y * BY + threadIdx.y + 1;
  const size_t plane = (size_t)px * (ny + 2);
  size_t at = (size_t)(blockIdx.z * DEEP + 1) * plane + (size_t)y * px + x;
  float below = in[at - plane], here = in[at];
#if SHARED
  __shared__ float tile[BY + 2][BX + 2];
#endif
#pragma unroll unrolled
  for (int z = 0; z < DEEP; z++, at += plane) {
    const float above = in[at + plane];
#if SHARED
    const int i = threadIdx.x + 1, j = threadIdx.y + 1;
    __syncthreads();
    tile[j][i] = here;
    if (threadIdx.x == 0) tile[j][0] = in[at - 1];
    if (threadIdx.x == BX - 1) tile[j][BX + 1] = in[at + 1];
    if (threadIdx.y == 0) tile[0][i] = in[at - px];
    if (threadIdx.y == BY - 1) tile[BY + 1][i] = in[at + px];
    __syncthreads();
    const float around = tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i];
#else
    const float around = in[at - 1] + in[at + 1] + in[at - px] + in[at + px];
#endif
    out[at] = 0.4f * here + 0.1f * (around + above + below);
    below = here; here = above;
  }
}
#endif

#ifdef KERNEL_rows_of  // rows of a table by loaded indices: WARPS warps a block, a row a warp or LANES lanes of it, VEC floats
extern "C" __global__ void __launch_bounds__(BLOCK) rows_of(float* __restrict__ out, const float* __restrict__ table, const int* __restrict__ which) {
  const int row = (blockIdx.x * BLOCK + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  const Floats<VEC>* from = (const Floats<VEC>*)(table + (size_t)which[row] * COLS);
  Floats<VEC>* to = (Floats<VEC>*)(out + (size_t)row * COLS);
#pragma unroll
  for (int c = lane; c < COLS / VEC; c += LANES) to[c] = from[c];
}
#endif

#ifdef KERNEL_bytes_product  // C = A B^T of signed bytes in int by dp4a: BM x BN tiles, BK words of four bytes, TM x TN a thread
extern "C" __global__ void __launch_bounds__(BM / TM * BN / TN) bytes_product(int* __restrict__ C, const int* __restrict__ A, const int* __restrict__ B, int N, int K) {
  constexpr int NX = BN / TN, NY = BM / TM, THREADS = NX * NY;
  __shared__ int as[BK][BM + 1], bs[BK][BN + 1];
  const int tx = threadIdx.x % NX, ty = threadIdx.x / NX;
  const int *a = A + (size_t)blockIdx.y * BM * K, *b = B + (size_t)blockIdx.x * BN * K;
  int sum[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
    for (int e = threadIdx.x; e < BM * BK; e += THREADS) as[e % BK][e / BK] = a[(size_t)(e / BK) * K + k0 + e % BK];
#pragma unroll
    for (int e = threadIdx.x; e < BN * BK; e += THREADS) bs[e % BK][e / BK] = b[(size_t)(e / BK) * K + k0 + e % BK];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k++) {
      int p[TM], q[TN];
#pragma unroll
      for (int i = 0; i < TM; i++) p[i] = as[k][ty + i * NY];
#pragma unroll
      for (int j = 0; j < TN; j++) q[j] = bs[k][tx + j * NX];
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sum[i][j] = __dp4a(p[i], q[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) C[((size_t)blockIdx.y * BM + ty + i * NY) * N + blockIdx.x * BN + tx + j * NX] = sum[i][j];
}
#endif
