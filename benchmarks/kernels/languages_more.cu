// More kernels in CUDA C++ whose tunables are macros, of other kinds than those of languages.cu, see there.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <stdint.h>
#define DEVICE __device__ __forceinline__
template <class T, int N> struct alignas(sizeof(T) * N) Many { T at[N]; };

#ifdef KERNEL_bulk  // out = 2 x + 1 by bulk copies of CHUNK floats into STAGES buffers; PRODUCER: a warp of its own copies; BACK: results go back in bulk
DEVICE uint32_t place(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEVICE void arrive_expecting(uint64_t* bar, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(bar)), "r"(bytes) : "memory"); }
DEVICE void arrive(uint64_t* bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place(bar)) : "memory"); }
DEVICE void wait(uint64_t* bar, uint32_t parity) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(place(bar)), "r"(parity) : "memory");
}
DEVICE void fetch(float* to, const float* from, uint64_t* bar) {
  arrive_expecting(bar, CHUNK * 4);
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(place(to)), "l"(from), "r"(CHUNK * 4), "r"(place(bar)) : "memory");
}
extern "C" __global__ void __launch_bounds__(BLOCK + PRODUCER * 32) bulk(float* __restrict__ out, const float* __restrict__ in, int chunks) {
  extern __shared__ __align__(128) float shared[];
  __shared__ uint64_t full[STAGES], empty[STAGES];
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(place(full + s)));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place(empty + s)), "r"(BLOCK));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int mine = (chunks - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
  auto from = [&](int i) { return in + ((size_t)blockIdx.x + (size_t)i * gridDim.x) * CHUNK; };
#if PRODUCER
  if (threadIdx.x >= BLOCK) {
    if (threadIdx.x == BLOCK)
      for (int i = 0; i < mine; i++) {
        const int s = i % STAGES;
        if (i >= STAGES) wait(empty + s, (i / STAGES - 1) & 1);
        fetch(shared + s * CHUNK, from(i), full + s);
      }
    return;
  }
#else
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES && i < mine; i++) fetch(shared + i * CHUNK, from(i), full + i);
#endif
  for (int i = 0; i < mine; i++) {
    const int s = i % STAGES;
    float4* here = (float4*)(shared + s * CHUNK);
    float* to = out + ((size_t)blockIdx.x + (size_t)i * gridDim.x) * CHUNK;
    wait(full + s, i / STAGES & 1);
#pragma unroll 4
    for (int e = threadIdx.x; e < CHUNK / 4; e += BLOCK) {
      float4 v = here[e];
      v = make_float4(2 * v.x + 1, 2 * v.y + 1, 2 * v.z + 1, 2 * v.w + 1);
      if (BACK) here[e] = v; else ((float4*)to)[e] = v;
    }
#if BACK
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync 1, %0;" ::"n"(BLOCK) : "memory");
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(place(here)), "r"(CHUNK * 4) : "memory");
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    asm volatile("bar.sync 1, %0;" ::"n"(BLOCK) : "memory");
#endif
#if PRODUCER
    arrive(empty + s);
#else
    if (!BACK) asm volatile("bar.sync 1, %0;" ::"n"(BLOCK) : "memory");
    if (threadIdx.x == 0 && i + STAGES < mine) fetch(shared + s * CHUNK, from(i + STAGES), full + s);
#endif
  }
}
#endif

#ifdef KERNEL_batched  // products of small matrices, ORDER x ORDER each: MATS a block, each thread TILE x TILE of one
extern "C" __global__ void __launch_bounds__(MATS * (ORDER / TILE) * (ORDER / TILE)) batched(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B) {
  constexpr int SIDE = ORDER / TILE, EACH = SIDE * SIDE, THREADS = MATS * EACH;
  __shared__ float as[MATS][ORDER][ORDER + 1], bs[MATS][ORDER][ORDER];
  const size_t base = (size_t)blockIdx.x * MATS * ORDER * ORDER;
  for (int e = threadIdx.x; e < MATS * ORDER * ORDER; e += THREADS) {
    as[e / (ORDER * ORDER)][e / ORDER % ORDER][e % ORDER] = A[base + e];
    bs[e / (ORDER * ORDER)][e / ORDER % ORDER][e % ORDER] = B[base + e];
  }
  __syncthreads();
  const int m = threadIdx.x / EACH, y = threadIdx.x % EACH / SIDE, x = threadIdx.x % SIDE;
  float sum[TILE][TILE] = {};
#pragma unroll
  for (int k = 0; k < ORDER; k++)
#pragma unroll
    for (int i = 0; i < TILE; i++)
#pragma unroll
      for (int j = 0; j < TILE; j++) sum[i][j] += as[m][y + i * SIDE][k] * bs[m][k][x + j * SIDE];
#pragma unroll
  for (int i = 0; i < TILE; i++)
#pragma unroll
    for (int j = 0; j < TILE; j++) C[base + m * ORDER * ORDER + (y + i * SIDE) * ORDER + x + j * SIDE] = sum[i][j];
}
#endif

#ifdef KERNEL_convolved  // 3 x 3 over channels, NHWC: a block has PIX pixels of a row x CO output channels, CI input channels at a time
extern "C" __global__ void __launch_bounds__(PIX / TP * CO / TC) convolved(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ w, int H, int W, int C, int K) {
  constexpr int NX = CO / TC, NY = PIX / TP, THREADS = NX * NY;
  __shared__ float xs[PIX + 2][CI + 1], ws[3][CI][CO];
  const int tiles = W / PIX, p0 = blockIdx.x % tiles * PIX, h = blockIdx.x / tiles % H, n = blockIdx.x / tiles / H, k0 = blockIdx.y * CO;
  const int tx = threadIdx.x % NX, ty = threadIdx.x / NX;
  float sum[TP][TC] = {};
  for (int r = 0; r < 3; r++) {
    if (h + r - 1 < 0 || h + r - 1 >= H) continue;
    for (int c0 = 0; c0 < C; c0 += CI) {
      for (int e = threadIdx.x; e < (PIX + 2) * CI; e += THREADS) {
        const int p = p0 + e / CI - 1;
        xs[e / CI][e % CI] = p >= 0 && p < W ? x[(((size_t)n * H + h + r - 1) * W + p) * C + c0 + e % CI] : 0.f;
      }
      for (int e = threadIdx.x; e < 3 * CI * CO; e += THREADS) ws[e / (CI * CO)][e / CO % CI][e % CO] = w[((size_t)(r * 3 + e / (CI * CO)) * C + c0 + e / CO % CI) * K + k0 + e % CO];
      __syncthreads();
#pragma unroll
      for (int s = 0; s < 3; s++)
#pragma unroll 4
        for (int c = 0; c < CI; c++) {
          float a[TP], b[TC];
#pragma unroll
          for (int i = 0; i < TP; i++) a[i] = xs[ty + i * NY + s][c];
#pragma unroll
          for (int j = 0; j < TC; j++) b[j] = ws[s][c][tx + j * NX];
#pragma unroll
          for (int i = 0; i < TP; i++)
#pragma unroll
            for (int j = 0; j < TC; j++) sum[i][j] += a[i] * b[j];
        }
      __syncthreads();
    }
  }
#pragma unroll
  for (int i = 0; i < TP; i++)
#pragma unroll
    for (int j = 0; j < TC; j++) out[(((size_t)n * H + h) * W + p0 + ty + i * NY) * K + k0 + tx + j * NX] = sum[i][j];
}
#endif

#ifdef KERNEL_mandel  // iterations until |z| > 2, at most LIMIT, one pixel a thread and pass
extern "C" __global__ void __launch_bounds__(BX * BY) mandel(int* __restrict__ out, int width, int height) {
  for (int p = 0; p < PER; p++) {
    const int x = blockIdx.x * BX + threadIdx.x, y = (blockIdx.y * PER + p) * BY + threadIdx.y;
    if (x >= width || y >= height) return;
    const float cx = -2.f + 3.f * x / width, cy = -1.25f + 2.5f * y / height;
    float a = 0, b = 0;
    int i = 0;
    for (; i < LIMIT && a * a + b * b <= 4.f; i++) { const float t = a * a - b * b + cx; b = 2 * a * b + cy; a = t; }
    out[(size_t)y * width + x] = i;
  }
}
#endif

#ifdef KERNEL_star  // 25 points, radius 4, in space: planes in registers, neighbours by shared memory (SHARED) or L1
extern "C" __global__ void __launch_bounds__(BX * BY) star(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
  constexpr float W[5] = {-2.84f, 1.6f, -0.2f, 0.025f, -0.0018f};
  const int px = nx + 8, x = blockIdx.x * BX + threadIdx.x + 4, y = blockIdx.y * BY + threadIdx.y + 4;
  const size_t plane = (size_t)px * (ny + 8);
  size_t at = (size_t)(blockIdx.z * DEEP + 4) * plane + (size_t)y * px + x;
  float line[9];
#pragma unroll
  for (int i = 0; i < 8; i++) line[i + 1] = in[at + (i - 4) * (long)plane];
#if SHARED
  __shared__ float tile[BY + 8][BX + 8];
#endif
#pragma unroll 1
  for (int z = 0; z < DEEP; z++, at += plane) {
#pragma unroll
    for (int i = 0; i < 8; i++) line[i] = line[i + 1];
    line[8] = in[at + 4 * plane];
    float sum = 3 * W[0] * line[4];
#if SHARED
    __syncthreads();
    for (int j = threadIdx.y; j < BY + 8; j += BY)
      for (int i = threadIdx.x; i < BX + 8; i += BX) tile[j][i] = in[at + (long)(j - (int)threadIdx.y - 4) * px + i - (int)threadIdx.x - 4];
    __syncthreads();
#define AT(dx, dy) tile[threadIdx.y + 4 + (dy)][threadIdx.x + 4 + (dx)]
#else
#define AT(dx, dy) in[at + (long)(dy) * px + (dx)]
#endif
#pragma unroll
    for (int r = 1; r <= 4; r++) sum += W[r] * (AT(-r, 0) + AT(r, 0) + AT(0, -r) + AT(0, r) + line[4 - r] + line[4 + r]);
    out[at] = sum;
  }
}
#endif

#ifdef KERNEL_dgemm  // C = A B in double precision: BM x BN tiles, BK deep, TM x TN a thread
extern "C" __global__ void __launch_bounds__(BM / TM * BN / TN) dgemm(double* __restrict__ C, const double* __restrict__ A, const double* __restrict__ B, int N, int K) {
  constexpr int NX = BN / TN, NY = BM / TM, THREADS = NX * NY;
  __shared__ double as[BK][BM + 1], bs[BK][BN];
  const int tx = threadIdx.x % NX, ty = threadIdx.x / NX;
  double sum[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int e = threadIdx.x; e < BM * BK; e += THREADS) as[e % BK][e / BK] = A[((size_t)blockIdx.y * BM + e / BK) * K + k0 + e % BK];
    for (int e = threadIdx.x; e < BN * BK; e += THREADS) bs[e / BN][e % BN] = B[(size_t)(k0 + e / BN) * N + blockIdx.x * BN + e % BN];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k++)
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sum[i][j] += as[k][ty + i * NY] * bs[k][tx + j * NX];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) C[((size_t)blockIdx.y * BM + ty + i * NY) * N + blockIdx.x * BN + tx + j * NX] = sum[i][j];
}
#endif

#ifdef KERNEL_wmma  // C = A B in bf16 by nvcuda::wmma: WY x WX warps, each TY x TX fragments of 16 x 16, BK deep; SHARED: operands staged
extern "C" __global__ void __launch_bounds__(WY * WX * 32) wmma(float* __restrict__ C, const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, int N, int K) {
  using namespace nvcuda::wmma;
  constexpr int BM = WY * TY * 16, BN = WX * TX * 16, THREADS = WY * WX * 32;
  const int warp = threadIdx.x / 32, wy = warp / WX * TY * 16, wx = warp % WX * TX * 16;
  const __nv_bfloat16 *a = A + (size_t)blockIdx.y * BM * K, *b = B + blockIdx.x * BN;
  fragment<accumulator, 16, 16, 16, float> sum[TY][TX];
  for (int i = 0; i < TY; i++) for (int j = 0; j < TX; j++) fill_fragment(sum[i][j], 0.f);
#if SHARED
  __shared__ __align__(128) __nv_bfloat16 as[BM][BK + 8], bs[BK][BN + 8];
#endif
  for (int k0 = 0; k0 < K; k0 += BK) {
#if SHARED
    for (int e = threadIdx.x; e < BM * BK / 8; e += THREADS) *(uint4*)&as[e / (BK / 8)][e % (BK / 8) * 8] = *(const uint4*)&a[(size_t)(e / (BK / 8)) * K + k0 + e % (BK / 8) * 8];
    for (int e = threadIdx.x; e < BN * BK / 8; e += THREADS) *(uint4*)&bs[e / (BN / 8)][e % (BN / 8) * 8] = *(const uint4*)&b[(size_t)(k0 + e / (BN / 8)) * N + e % (BN / 8) * 8];
    __syncthreads();
#endif
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> fa[TY];
      fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> fb[TX];
#pragma unroll
      for (int i = 0; i < TY; i++) {
#if SHARED
        load_matrix_sync(fa[i], &as[wy + i * 16][k], BK + 8);
#else
        load_matrix_sync(fa[i], a + (size_t)(wy + i * 16) * K + k0 + k, K);
#endif
      }
#pragma unroll
      for (int j = 0; j < TX; j++) {
#if SHARED
        load_matrix_sync(fb[j], &bs[k][wx + j * 16], BN + 8);
#else
        load_matrix_sync(fb[j], b + (size_t)(k0 + k) * N + wx + j * 16, N);
#endif
      }
#pragma unroll
      for (int i = 0; i < TY; i++)
#pragma unroll
        for (int j = 0; j < TX; j++) mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
    }
#if SHARED
    __syncthreads();
#endif
  }
  for (int i = 0; i < TY; i++) for (int j = 0; j < TX; j++)
    store_matrix_sync(C + ((size_t)blockIdx.y * BM + wy + i * 16) * N + blockIdx.x * BN + wx + j * 16, sum[i][j], N, mem_row_major);
}
#endif

#ifdef KERNEL_groups  // log of the sum of exponentials of rows by cooperative groups: LANES threads a row, VEC floats a load
namespace cg = cooperative_groups;
extern "C" __global__ void __launch_bounds__(BLOCK) groups(float* __restrict__ out, const float* __restrict__ in, int cols) {
  auto tile = cg::tiled_partition<LANES>(cg::this_thread_block());
  const int row = blockIdx.x * (BLOCK / LANES) + tile.meta_group_rank();
  const Many<float, VEC>* from = (const Many<float, VEC>*)(in + (size_t)row * cols);
  float top = -INFINITY, sum = 0;
  for (int c = tile.thread_rank(); c < cols / VEC; c += LANES) {
    const Many<float, VEC> h = from[c];
    float best = h.at[0];
    for (int v = 1; v < VEC; v++) best = fmaxf(best, h.at[v]);
    const float now = fmaxf(top, best);
    sum *= __expf(top - now);
    for (int v = 0; v < VEC; v++) sum += __expf(h.at[v] - now);
    top = now;
  }
  const float all = cg::reduce(tile, top, cg::greater<float>());
  sum = cg::reduce(tile, sum * __expf(top - all), cg::plus<float>());
  if (tile.thread_rank() == 0) out[row] = all + __logf(sum);
}
#endif

#ifdef KERNEL_resized  // an image of bytes, three a pixel, at another size: bilinear, places in floating point
extern "C" __global__ void __launch_bounds__(BX * BY) resized(uint8_t* __restrict__ out, const uint8_t* __restrict__ in, int w, int h, int W, int H) {
  const float sx = (float)w / W, sy = (float)h / H;
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int x = (blockIdx.x * PER + p) * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    if (x >= W || y >= H) return;
    const float fx = fmaxf((x + 0.5f) * sx - 0.5f, 0.f), fy = fmaxf((y + 0.5f) * sy - 0.5f, 0.f);
    const int x0 = (int)fx, y0 = (int)fy, x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
    const float ax = fx - x0, ay = fy - y0;
#pragma unroll
    for (int c = 0; c < 3; c++) {
      const float top = in[((size_t)y0 * w + x0) * 3 + c] * (1 - ax) + in[((size_t)y0 * w + x1) * 3 + c] * ax;
      const float low = in[((size_t)y1 * w + x0) * 3 + c] * (1 - ax) + in[((size_t)y1 * w + x1) * 3 + c] * ax;
      out[((size_t)y * W + x) * 3 + c] = (uint8_t)(top * (1 - ay) + low * ay + 0.5f);
    }
  }
}
#endif

#ifdef KERNEL_cholesky  // of many matrices of ORDER x ORDER: LANES threads each, in shared memory
extern "C" __global__ void __launch_bounds__(BLOCK) cholesky(float* __restrict__ out, const float* __restrict__ in) {
  constexpr int EACH = BLOCK / LANES;
  __shared__ float a[EACH][ORDER][ORDER + 1];
  const int m = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const size_t base = ((size_t)blockIdx.x * EACH + m) * ORDER * ORDER;
  for (int e = lane; e < ORDER * ORDER; e += LANES) a[m][e / ORDER][e % ORDER] = in[base + e];
  __syncwarp();
  for (int j = 0; j < ORDER; j++) {
    const float by = rsqrtf(a[m][j][j]);
    __syncwarp();
    for (int i = j + lane; i < ORDER; i += LANES) a[m][i][j] *= by;
    __syncwarp();
    for (int i = j + 1 + lane; i < ORDER; i += LANES) {
      const float l = a[m][i][j];
      for (int k = j + 1; k <= i; k++) a[m][i][k] -= l * a[m][k][j];
    }
    __syncwarp();
  }
  for (int e = lane; e < ORDER * ORDER; e += LANES) out[base + e] = e % ORDER <= e / ORDER ? a[m][e / ORDER][e % ORDER] : 0.f;
}
#endif

#ifdef KERNEL_fourier  // transforms of ORDER complex numbers in shared memory, radix 2 (Stockham), ROWS a block
extern "C" __global__ void __launch_bounds__(ROWS * BLOCK) fourier(float2* __restrict__ out, const float2* __restrict__ in) {
  extern __shared__ float2 held[];
  float2 *from = held + threadIdx.y * 2 * ORDER, *to = from + ORDER;
  const size_t base = ((size_t)blockIdx.x * ROWS + threadIdx.y) * ORDER;
  for (int i = threadIdx.x; i < ORDER; i += BLOCK) from[i] = in[base + i];
  __syncthreads();
  for (int half = ORDER / 2, step = 1; half; half >>= 1, step <<= 1) {
    for (int i = threadIdx.x; i < ORDER / 2; i += BLOCK) {
      const int k = i & step - 1, j = i - k;
      const float2 p = from[i], q = from[i + ORDER / 2];
      float s, c;
      __sincosf(-3.14159265f * k / step, &s, &c);
      const float2 t = make_float2(q.x * c - q.y * s, q.x * s + q.y * c);
      to[2 * j + k] = make_float2(p.x + t.x, p.y + t.y);
      to[2 * j + k + step] = make_float2(p.x - t.x, p.y - t.y);
    }
    __syncthreads();
    float2* swap = from; from = to; to = swap;
  }
  for (int i = threadIdx.x; i < ORDER; i += BLOCK) out[base + i] = from[i];
}
#endif

#ifdef KERNEL_scattered  // numbers added to bins that another tensor names
extern "C" __global__ void __launch_bounds__(BLOCK) scattered(float* out, const float* __restrict__ in, const int* __restrict__ which, int n) {
  const int stride = gridDim.x * BLOCK * VEC;
  for (int i = (blockIdx.x * BLOCK + threadIdx.x) * VEC; i < n; i += stride) {
    const Many<float, VEC> x = *(const Many<float, VEC>*)(in + i);
    const Many<int, VEC> to = *(const Many<int, VEC>*)(which + i);
#pragma unroll
    for (int v = 0; v < VEC; v++) atomicAdd(out + to.at[v], x.at[v]);
  }
}
#endif

#ifdef KERNEL_drawn  // Philox 4x32-10, four numbers a call, PER calls a thread
DEVICE uint4 philox(uint4 c, uint2 k) {
  constexpr int unrolled = ROUNDS;
#pragma unroll unrolled
  for (int r = 0; r < 10; r++) {
    const uint32_t h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
    c = make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
    k.x += 0x9E3779B9u; k.y += 0xBB67AE85u;
  }
  return c;
}
extern "C" __global__ void __launch_bounds__(BLOCK) drawn(uint4* __restrict__ out, int seed) {
  for (int p = 0; p < PER; p++) {
    const unsigned i = (blockIdx.x * PER + p) * BLOCK + threadIdx.x;
    out[i] = philox(make_uint4(i, 0, 0, 0), make_uint2(seed, 0));
  }
}
#endif

#ifdef KERNEL_simpson  // integrals of a function that is called, INTERVALS of them a thread
__device__ __noinline__ float height(float x, float a) {
  float sum = 1, term = 1;
#pragma unroll 1
  for (int k = 1; k < TERMS; k++) { term *= -a * x / k; sum += term; }
  return sum;
}
extern "C" __global__ void __launch_bounds__(BLOCK) simpson(float* __restrict__ out, const float* __restrict__ rate) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  const float a = rate[i], h = 1.f / INTERVALS;
  constexpr int unrolled = UNROLL;
  float sum = 0;
#pragma unroll unrolled
  for (int n = 0; n < INTERVALS; n++) sum += height(n * h, a) + 4 * height((n + 0.5f) * h, a) + height((n + 1) * h, a);
  out[i] = sum * h / 6;
}
#endif

#ifdef KERNEL_bins  // how many of 64 numbers in a row are in each of BINS bins, counted by a thread in an array of its own
extern "C" __global__ void __launch_bounds__(BLOCK) bins(int* __restrict__ out, const int* __restrict__ in, int rows) {
  int count[BINS] = {};
  constexpr int unrolled = UNROLL;
  const int row = blockIdx.x * BLOCK + threadIdx.x;
#pragma unroll unrolled
  for (int i = 0; i < 64; i++) count[in[(size_t)i * rows + row] & BINS - 1]++;
#pragma unroll 1
  for (int b = 0; b < BINS; b++) out[(size_t)b * rows + row] = count[b];
}
#endif

#ifdef KERNEL_decode  // attention of one query a head: HEADS x SPLITS blocks, keys and values of D halves, WARPS warps each a key at a time
extern "C" __global__ void __launch_bounds__(WARPS * 32) decode(float* __restrict__ part, const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v, int length, int splits) {
  constexpr int D = 128, PER = 4;
  __shared__ float sums[WARPS][D + 2];
  const int head = blockIdx.x, split = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int each = length / splits, begin = split * each;
  const __nv_bfloat16 *kh = k + (size_t)head * length * D, *vh = v + (size_t)head * length * D;
  float query[PER], acc[PER] = {}, top = -INFINITY, sum = 0;
  auto read = [&](const __nv_bfloat16* p, float* to) {
    const Many<__nv_bfloat16, PER> h = *(const Many<__nv_bfloat16, PER>*)(p + lane * PER);
#pragma unroll
    for (int i = 0; i < PER; i++) to[i] = __bfloat162float(h.at[i]);
  };
  read(q + head * D, query);
  for (int t = begin + warp * KEYS; t < begin + each; t += WARPS * KEYS) {
    float score[KEYS];
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
      float key[PER];
      read(kh + (size_t)(t + j) * D, key);
      score[j] = 0;
#pragma unroll
      for (int i = 0; i < PER; i++) score[j] += key[i] * query[i];
    }
#pragma unroll
    for (int far = 16; far; far >>= 1)
#pragma unroll
      for (int j = 0; j < KEYS; j++) score[j] += __shfl_xor_sync(~0u, score[j], far);
    float now = top;
#pragma unroll
    for (int j = 0; j < KEYS; j++) now = fmaxf(now, score[j] *= 0.088388f);
    const float old = __expf(top - now);
    top = now; sum *= old;
#pragma unroll
    for (int i = 0; i < PER; i++) acc[i] *= old;
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
      float value[PER];
      read(vh + (size_t)(t + j) * D, value);
      const float p = __expf(score[j] - top);
      sum += p;
#pragma unroll
      for (int i = 0; i < PER; i++) acc[i] += p * value[i];
    }
  }
#pragma unroll
  for (int i = 0; i < PER; i++) sums[warp][lane * PER + i] = acc[i];
  if (lane == 0) { sums[warp][D] = top; sums[warp][D + 1] = sum; }
  __syncthreads();
  float best = -INFINITY, all = 0;
  for (int w = 0; w < WARPS; w++) best = fmaxf(best, sums[w][D]);
  for (int w = 0; w < WARPS; w++) all += sums[w][D + 1] * __expf(sums[w][D] - best);
  for (int d = threadIdx.x; d < D; d += WARPS * 32) {
    float x = 0;
    for (int w = 0; w < WARPS; w++) x += sums[w][d] * __expf(sums[w][D] - best);
    part[((size_t)split * gridDim.x + head) * (D + 2) + d] = x;
  }
  if (threadIdx.x == 0) { part[((size_t)split * gridDim.x + head) * (D + 2) + D] = best; part[((size_t)split * gridDim.x + head) * (D + 2) + D + 1] = all; }
}
#endif
