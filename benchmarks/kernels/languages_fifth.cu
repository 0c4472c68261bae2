// Further kernels in CUDA C++: warps that copy for others, scans that look back, clusters, wavefronts, tiles in time.
// Tunables are macros, see languages.cu.
#if defined KERNEL_clustered
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#elif defined KERNEL_produced
#include <cuda/barrier>
#elif defined KERNEL_layered || defined KERNEL_cell
#include <cuda_fp16.h>
#endif
#include <float.h>
#include <stdint.h>
#ifdef UNROLL
constexpr int kUnroll = UNROLL;
#endif

__device__ float block_sum(float v, float* room) {  // of all threads, which all have it
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  __syncthreads();
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < blockDim.x / 32; w++) v += room[w];
  return v;
}

#ifdef KERNEL_produced  // a filter of 33 taps: a warp copies tiles into a ring with cp.async, CONSUMERS warps compute
#pragma nv_diag_suppress static_var_with_dynamic_init
using Barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void produced(float* out, const float* __restrict__ in, const float* __restrict__ taps, int tiles) {
  constexpr int TAPS = 33, ROOM = TILE + 32, EACH = TILE / (CONSUMERS * 32);
  __shared__ alignas(16) float ring[STAGES][ROOM];
  __shared__ Barrier full[STAGES], empty[STAGES];
  const int tid = threadIdx.x, first = blockIdx.x * tiles;
  if (tid < STAGES) init(&full[tid], blockDim.x), init(&empty[tid], blockDim.x);
  __syncthreads();
  if (tid < 32) {
    for (int t = 0; t < tiles; t++) {
      const int s = t % STAGES;
      empty[s].arrive_and_wait();
      const float* from = in + (size_t)(first + t) * TILE;
      for (int i = tid * 4; i < ROOM; i += 128)
        cuda::memcpy_async(&ring[s][i], from + i, cuda::aligned_size_t<16>(16), full[s]);
      (void)full[s].arrive();
    }
  } else {
    const int me = tid - 32;
    float w[TAPS];
    for (int k = 0; k < TAPS; k++) w[k] = taps[k];
    for (int s = 0; s < STAGES; s++) (void)empty[s].arrive();
    for (int t = 0; t < tiles; t++) {
      const int s = t % STAGES;
      full[s].arrive_and_wait();
      float sum[EACH] = {0};
#pragma unroll
      for (int e = 0; e < EACH; e++)
#pragma unroll
        for (int k = 0; k < TAPS; k++) sum[e] += w[k] * ring[s][me + e * CONSUMERS * 32 + k];
#pragma unroll
      for (int e = 0; e < EACH; e++) out[(size_t)(first + t) * TILE + me + e * CONSUMERS * 32] = sum[e];
      (void)empty[s].arrive();
    }
  }
}
#endif

#ifdef KERNEL_lookback  // sums of all before, in one pass: a tile takes what tiles before it have published
extern "C" __global__ void lookback(int* out, const int* __restrict__ in, unsigned long long* state, int tiles) {
  constexpr int TILE = BLOCK * ITEMS;
  __shared__ int sums[BLOCK / 32], tile_of, before;
  const int tid = threadIdx.x, lane = tid % 32;
  if (tid == 0) tile_of = atomicAdd((unsigned int*)state, 1u);
  __syncthreads();
  const int tile = tile_of;
  volatile unsigned long long* flags = state + 1;
  const int4* from = reinterpret_cast<const int4*>(in + (size_t)tile * TILE + tid * ITEMS);
  int v[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS / 4; i++) *reinterpret_cast<int4*>(v + i * 4) = from[i];
#pragma unroll
  for (int i = 1; i < ITEMS; i++) v[i] += v[i - 1];
  int upto = v[ITEMS - 1];
  for (int o = 1; o < 32; o *= 2) {
    const int n = __shfl_up_sync(~0u, upto, o);
    if (lane >= o) upto += n;
  }
  if (lane == 31) sums[tid / 32] = upto;
  __syncthreads();
  int front = upto - v[ITEMS - 1], all = 0;
  for (int w = 0; w < BLOCK / 32; w++) {
    if (w < tid / 32) front += sums[w];
    all += sums[w];
  }
  if (tid < LOOK) {
    if (tid == 0) flags[tile] = (tile ? 1ull : 2ull) << 32 | (unsigned int)all;
    int sum = 0;
    for (int last = tile - 1; last >= 0; last -= LOOK) {
      const int at = last - tid;
      unsigned long long word = 2ull << 32;
      if (at >= 0) do word = flags[at]; while (word >> 32 == 0);
      const unsigned int whole = LOOK > 1 ? __ballot_sync((1ull << LOOK) - 1, word >> 32 == 2) : word >> 32 == 2;
      const int nearest = whole ? __ffs(whole) - 1 : LOOK;
      int part = tid <= nearest ? (int)word : 0;
      if (LOOK > 1)
        for (int o = LOOK / 2; o; o >>= 1) part += __shfl_xor_sync((1ull << LOOK) - 1, part, o);
      sum += part;
      if (whole) break;
    }
    if (tid == 0) {
      if (tile) flags[tile] = 2ull << 32 | (unsigned int)(sum + all);
      before = sum;
    }
  }
  __syncthreads();
  front += before;
  int4* to = reinterpret_cast<int4*>(out + (size_t)tile * TILE + tid * ITEMS);
#pragma unroll
  for (int i = 0; i < ITEMS; i++) v[i] += front;
#pragma unroll
  for (int i = 0; i < ITEMS / 4; i++) to[i] = *reinterpret_cast<int4*>(v + i * 4);
  __threadfence();
  __shared__ bool ends;
  __syncthreads();
  if (tid == 0) ends = atomicAdd((unsigned int*)state + 1, 1u) == tiles - 1;
  __syncthreads();
  if (ends) for (int i = tid; i <= tiles; i += BLOCK) state[i] = 0;  // for the next launch
}
#endif

#ifdef KERNEL_digits  // how often each of four bytes has each value: COPIES of the counts a block
extern "C" __global__ void digits(unsigned int* out, const uint4* __restrict__ in, int count) {
  __shared__ unsigned int bins[COPIES][4][256];
  for (int i = threadIdx.x; i < COPIES * 1024; i += BLOCK) (&bins[0][0][0])[i] = 0;
  __syncthreads();
  unsigned int (*mine)[256] = bins[threadIdx.x / 32 % COPIES];
  for (int base = blockIdx.x * BLOCK * DEEP; base < count; base += gridDim.x * BLOCK * DEEP) {
    uint4 word[DEEP];
#pragma unroll
    for (int d = 0; d < DEEP; d++) word[d] = in[base + d * BLOCK + threadIdx.x];
#pragma unroll
    for (int d = 0; d < DEEP; d++)
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const unsigned int w = k == 0 ? word[d].x : k == 1 ? word[d].y : k == 2 ? word[d].z : word[d].w;
#pragma unroll
        for (int b = 0; b < 4; b++) atomicAdd(&mine[b][w >> b * 8 & 255], 1u);
      }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 1024; i += BLOCK) {
    unsigned int sum = 0;
    for (int c = 0; c < COPIES; c++) sum += (&bins[c][0][0])[i];
    if (sum) atomicAdd(out + i, sum);
  }
}
#endif

#ifdef KERNEL_spmm  // sparse rows by a dense matrix of 64 columns: BX threads of VEC columns a row, BY rows a block
extern "C" __global__ void spmm(float* out, const int* __restrict__ starts, const int* __restrict__ cols, const float* __restrict__ held, const float* __restrict__ x, int rows) {
  constexpr int N = 64;
  const int row = blockIdx.x * BY + threadIdx.y;
  if (row >= rows) return;
  const int begin = starts[row], end = starts[row + 1];
  for (int c = threadIdx.x * VEC; c < N; c += BX * VEC) {
    float sum[VEC] = {0};
#pragma unroll kUnroll
    for (int i = begin; i < end; i++) {
      const float* src = x + (size_t)cols[i] * N + c;
      const float h = held[i];
      float b[VEC];
      if (VEC == 4) *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(src);
      else if (VEC == 2) *reinterpret_cast<float2*>(b) = *reinterpret_cast<const float2*>(src);
      else b[0] = src[0];
#pragma unroll
      for (int v = 0; v < VEC; v++) sum[v] += h * b[v];
    }
    for (int v = 0; v < VEC; v++) out[(size_t)row * N + c + v] = sum[v];
  }
}
#endif

#ifdef KERNEL_tiny  // products of many 32 x 32 matrices in shared memory: PER a block, TM x TN numbers a thread
extern "C" __global__ void tiny(float* C, const float* __restrict__ A, const float* __restrict__ B) {
  constexpr int S = 32, AROUND = S / TN, THREADS = AROUND * (S / TM);
  __shared__ float as[PER][S][S + PAD], bs[PER][S][S];
  const int tid = threadIdx.x, which = threadIdx.y, tx = tid % AROUND, ty = tid / AROUND;
  const size_t base = ((size_t)blockIdx.x * PER + which) * S * S;
  for (int i = tid * 4; i < S * S; i += THREADS * 4) {
    const float4 a = *reinterpret_cast<const float4*>(A + base + i);
    float* to = &as[which][i / S][i % S];
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    *reinterpret_cast<float4*>(&bs[which][i / S][i % S]) = *reinterpret_cast<const float4*>(B + base + i);
  }
  __syncthreads();
  float sum[TM][TN] = {0};
#pragma unroll 8
  for (int k = 0; k < S; k++) {
    float b[TN];
#pragma unroll
    for (int j = 0; j < TN; j++) b[j] = bs[which][k][tx * TN + j];
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j++) sum[i][j] += as[which][ty * TM + i][k] * b[j];
  }
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) C[base + (ty * TM + i) * S + tx * TN + j] = sum[i][j];
}
#endif

#ifdef KERNEL_layered  // residual added, then layer norm: a row of COLS halves a block, VEC in a word
extern "C" __global__ void layered(half* out, half* kept, const half* __restrict__ x, const half* __restrict__ y, const half* __restrict__ gamma, const half* __restrict__ beta) {
  constexpr int STEPS = COLS / (BLOCK * VEC);
  struct alignas(VEC * 2) Word { half h[VEC]; };
  __shared__ float room[32];
  const size_t row = (size_t)blockIdx.x * COLS;
  Word held[STEPS];
  float sum = 0;
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    const int at = (s * BLOCK + threadIdx.x) * VEC;
    const Word a = *reinterpret_cast<const Word*>(x + row + at), b = *reinterpret_cast<const Word*>(y + row + at);
#pragma unroll
    for (int v = 0; v < VEC; v++) {
      held[s].h[v] = __hadd(a.h[v], b.h[v]);
      sum += __half2float(held[s].h[v]);
    }
    *reinterpret_cast<Word*>(kept + row + at) = held[s];
  }
  const float mean = block_sum(sum, room) / COLS;
  float square = 0;
#pragma unroll
  for (int s = 0; s < STEPS; s++)
#pragma unroll
    for (int v = 0; v < VEC; v++) {
      const float d = __half2float(held[s].h[v]) - mean;
      square += d * d;
    }
  const float scale = rsqrtf(block_sum(square, room) / COLS + 1e-5f);
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    const int at = (s * BLOCK + threadIdx.x) * VEC;
    const Word g = *reinterpret_cast<const Word*>(gamma + at), b = *reinterpret_cast<const Word*>(beta + at);
    Word r;
#pragma unroll
    for (int v = 0; v < VEC; v++)
      r.h[v] = __float2half((__half2float(held[s].h[v]) - mean) * scale * __half2float(g.h[v]) + __half2float(b.h[v]));
    *reinterpret_cast<Word*>(out + row + at) = r;
  }
}
#endif

#ifdef KERNEL_upconv  // transposed convolution, 4 x 4, stride 2: a thread a pixel of CO channels; weights STAGED in shared memory
extern "C" __global__ void upconv(float* out, const float* __restrict__ in, const float* __restrict__ w, int CI, int NO, int H, int W) {
  const int ox = blockIdx.x * BX + threadIdx.x, oy = blockIdx.y * BY + threadIdx.y;
  const int groups = NO / CO, n = blockIdx.z / groups, co = blockIdx.z % groups * CO;
#if STAGED
  __shared__ float taps[STAGED][CO][16];
#endif
  const int ix = (ox + 1) / 2, iy = (oy + 1) / 2, kx = (ox + 1) % 2, ky = (oy + 1) % 2;
  float sum[CO] = {0};
  for (int c0 = 0; c0 < CI; c0 += STAGED ? STAGED : CI) {
#if STAGED
    __syncthreads();
    for (int i = threadIdx.y * BX + threadIdx.x; i < STAGED * CO * 16; i += BX * BY)
      (&taps[0][0][0])[i] = w[((size_t)(c0 + i / (CO * 16)) * NO + co) * 16 + i % (CO * 16)];
    __syncthreads();
#endif
    for (int c = c0; c < c0 + (STAGED ? STAGED : CI); c++) {
      const float* src = in + ((size_t)n * CI + c) * H * W;
#pragma unroll
      for (int dy = 0; dy < 2; dy++)
#pragma unroll
        for (int dx = 0; dx < 2; dx++) {
          const int y = iy - dy, x = ix - dx, k = (ky + 2 * dy) * 4 + kx + 2 * dx;
          const float v = x >= 0 && x < W && y >= 0 && y < H ? src[y * W + x] : 0.0f;
#pragma unroll
          for (int o = 0; o < CO; o++) {
#if STAGED
            sum[o] += v * taps[c - c0][o][k];
#else
            sum[o] += v * w[((size_t)c * NO + co + o) * 16 + k];
#endif
          }
        }
    }
  }
  if (ox < 2 * W && oy < 2 * H)
    for (int o = 0; o < CO; o++) out[(((size_t)n * NO + co + o) * 2 * H + oy) * 2 * W + ox] = sum[o];
}
#endif

#ifdef KERNEL_best4  // softmax of rows and their four largest numbers: LANES threads a row, ROWS rows a block
extern "C" __global__ void best4(float* weights, int* ids, const float* __restrict__ in, int cols) {
  const int lane = threadIdx.x;
  const size_t row = (size_t)blockIdx.x * ROWS + threadIdx.y;
  const float* x = in + row * cols;
  float top[4] = {-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX}, sum = 0, most = -FLT_MAX;
  int at[4] = {0};
  for (int c = lane * VEC; c < cols; c += 32 * VEC) {
    float v[VEC];
    if (VEC == 4) *reinterpret_cast<float4*>(v) = *reinterpret_cast<const float4*>(x + c);
    else if (VEC == 2) *reinterpret_cast<float2*>(v) = *reinterpret_cast<const float2*>(x + c);
    else v[0] = x[c];
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      if (v[j] > most) sum *= __expf(most - v[j]), most = v[j];
      sum += __expf(v[j] - most);
      if (v[j] > top[3]) {
        top[3] = v[j], at[3] = c + j;
#pragma unroll
        for (int k = 3; k > 0; k--)
          if (top[k] > top[k - 1]) {
            const float f = top[k];
            const int i = at[k];
            top[k] = top[k - 1], at[k] = at[k - 1], top[k - 1] = f, at[k - 1] = i;
          }
      }
    }
  }
  float all = most;
  for (int o = 16; o; o >>= 1) all = fmaxf(all, __shfl_xor_sync(~0u, all, o));
  sum *= __expf(most - all);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  for (int k = 0; k < 4; k++) {
    float best = top[0];
    int who = at[0];
    for (int o = 16; o; o >>= 1) {
      const float b = __shfl_xor_sync(~0u, best, o);
      const int i = __shfl_xor_sync(~0u, who, o);
      if (b > best || (b == best && i < who)) best = b, who = i;
    }
    if (who == at[0]) {
      for (int j = 0; j < 3; j++) top[j] = top[j + 1], at[j] = at[j + 1];
      top[3] = -FLT_MAX;
    }
    if (lane == 0) weights[row * 4 + k] = __expf(best - all) / sum, ids[row * 4 + k] = who;
  }
}
#endif

#ifdef KERNEL_timed  // STEPS steps of a five point stencil in shared memory, tiles that overlap: PER rows a thread
extern "C" __global__ void timed(float* out, const float* __restrict__ in, int H, int W, float c) {
  constexpr int TX = BX, TY = BY * PER;
  __shared__ float room[2][TY][TX];
  const int tx = threadIdx.x, x = blockIdx.x * (TX - 2 * STEPS) - STEPS + tx;
  const int y0 = blockIdx.y * (TY - 2 * STEPS) - STEPS;
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int ty = threadIdx.y + p * BY, y = y0 + ty;
    room[0][ty][tx] = x >= 0 && x < W && y >= 0 && y < H ? in[(size_t)y * W + x] : 0.0f;
  }
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PER; p++) {
      const int ty = threadIdx.y + p * BY, y = y0 + ty;
      const float (*r)[TX] = room[s % 2];
      float v = 0;
      if (tx > 0 && tx < TX - 1 && ty > 0 && ty < TY - 1 && x >= 0 && x < W && y >= 0 && y < H)
        v = r[ty][tx] + c * (r[ty - 1][tx] + r[ty + 1][tx] + r[ty][tx - 1] + r[ty][tx + 1] - 4 * r[ty][tx]);
      room[(s + 1) % 2][ty][tx] = v;
    }
  }
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int ty = threadIdx.y + p * BY, y = y0 + ty;
    if (tx >= STEPS && tx < TX - STEPS && ty >= STEPS && ty < TY - STEPS && x < W && y < H)
      out[(size_t)y * W + x] = room[STEPS % 2][ty][tx];
  }
}
#endif

#ifdef KERNEL_imma  // C = A B', bytes, mma.sync m16n8k32 with ldmatrix, STAGES of cp.async: WM x WN warps of FM x FN
extern "C" __global__ void __launch_bounds__(WM * WN * 32) imma(int* C, const int8_t* __restrict__ A, const int8_t* __restrict__ B, int N, int K) {
  constexpr int BM = WM * FM * 16, BN = WN * FN * 16, LINE = BK + 16, THREADS = WM * WN * 32;
  extern __shared__ __align__(128) int8_t ring[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, wm = warp / WN, wn = warp % WN;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  int sum[FM][FN * 2][4] = {0};
  auto copy = [&](int s, int k0) {
    int8_t* as = ring + s * (BM + BN) * LINE;
    for (int i = tid; i < (BM + BN) * (BK / 16); i += THREADS) {
      const int r = i / (BK / 16), c = i % (BK / 16) * 16;
      const int8_t* from = r < BM ? A + (size_t)(m0 + r) * K + k0 + c : B + (size_t)(n0 + r - BM) * K + k0 + c;
      const unsigned to = __cvta_generic_to_shared(as + r * LINE + c);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
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
    const int8_t* as = ring + t % STAGES * (BM + BN) * LINE;
    const int8_t* bs = as + BM * LINE;
#pragma unroll
    for (int k = 0; k < BK; k += 32) {
      unsigned a[FM][4], b[FN][4];
#pragma unroll
      for (int i = 0; i < FM; i++) {
        const unsigned at = __cvta_generic_to_shared(as + ((wm * FM + i) * 16 + lane % 16) * LINE + k + lane / 16 * 16);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(at));
      }
#pragma unroll
      for (int j = 0; j < FN; j++) {
        const unsigned at = __cvta_generic_to_shared(bs + ((wn * FN + j) * 16 + lane % 16) * LINE + k + lane / 16 * 16);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j][2]), "=r"(b[j][3]) : "r"(at));
      }
#pragma unroll
      for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN * 2; j++) {
          int* d = sum[i][j];
          asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                       : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j / 2][j % 2]), "r"(b[j / 2][j % 2 + 2]));
        }
    }
  }
#pragma unroll
  for (int i = 0; i < FM; i++)
#pragma unroll
    for (int j = 0; j < FN * 2; j++) {
      int* to = C + (size_t)(m0 + (wm * FM + i) * 16 + lane / 4) * N + n0 + wn * FN * 16 + j * 8 + lane % 4 * 2;
      *reinterpret_cast<int2*>(to) = make_int2(sum[i][j][0], sum[i][j][1]);
      *reinterpret_cast<int2*>(to + 8 * N) = make_int2(sum[i][j][2], sum[i][j][3]);
    }
}
#endif

#ifdef KERNEL_cell  // an LSTM's cell: four gates of halves side by side, states in floats; VEC numbers a thread at a time
extern "C" __global__ void cell(half* hidden, float* next, const half* __restrict__ gates, const float* __restrict__ state, const float* __restrict__ bias, int H, int count) {
  struct alignas(VEC * 2) Word { half h[VEC]; };
  struct alignas(VEC * 4 > 16 ? 16 : VEC * 4) Wide { float f[VEC]; };
  for (int i = (blockIdx.x * BLOCK + threadIdx.x) * VEC; i < count; i += gridDim.x * BLOCK * VEC) {
    const int row = i / H, col = i % H;
    Word g[4];
#pragma unroll
    for (int k = 0; k < 4; k++) g[k] = *reinterpret_cast<const Word*>(gates + ((size_t)row * 4 + k) * H + col);
    const Wide c = *reinterpret_cast<const Wide*>(state + i);
    Wide fresh;
    Word h;
#pragma unroll
    for (int v = 0; v < VEC; v++) {
      float z[4];
#pragma unroll
      for (int k = 0; k < 4; k++) z[k] = __half2float(g[k].h[v]) + bias[k * H + col + v];
      const float a = 1 / (1 + __expf(-z[0])), f = 1 / (1 + __expf(-z[1])), o = 1 / (1 + __expf(-z[3]));
      fresh.f[v] = f * c.f[v] + a * tanhf(z[2]);
      h.h[v] = __float2half(o * tanhf(fresh.f[v]));
    }
    *reinterpret_cast<Wide*>(next + i) = fresh;
    *reinterpret_cast<Word*>(hidden + i) = h;
  }
}
#endif

#ifdef KERNEL_across  // softmax over channels of planes: BX pixels by BY threads that share a pixel's channels
extern "C" __global__ void across(float* out, const float* __restrict__ in, int channels, int plane) {
  __shared__ float tops[BY][BX], sums[BY][BX];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const size_t base = (size_t)blockIdx.y * channels * plane + blockIdx.x * BX + tx;
  float top = -FLT_MAX, sum = 0;
#if ONLINE
#pragma unroll 4
  for (int c = ty; c < channels; c += BY) {
    const float v = in[base + (size_t)c * plane], m = fmaxf(top, v);
    sum = sum * __expf(top - m) + __expf(v - m);
    top = m;
  }
#else
#pragma unroll 8
  for (int c = ty; c < channels; c += BY) top = fmaxf(top, in[base + (size_t)c * plane]);
#pragma unroll 8
  for (int c = ty; c < channels; c += BY) sum += __expf(in[base + (size_t)c * plane] - top);
#endif
  tops[ty][tx] = top, sums[ty][tx] = sum;
  __syncthreads();
  float most = -FLT_MAX, total = 0;
  for (int r = 0; r < BY; r++) most = fmaxf(most, tops[r][tx]);
  for (int r = 0; r < BY; r++) total += sums[r][tx] * __expf(tops[r][tx] - most);
  const float scale = 1 / total;
#pragma unroll 4
  for (int c = ty; c < channels; c += BY) out[base + (size_t)c * plane] = __expf(in[base + (size_t)c * plane] - most) * scale;
}
#endif

#ifdef KERNEL_aligned  // edit distances of pairs of strings: THREADS threads a pair, each some columns, a row later each
extern "C" __global__ void aligned(int* out, const uint8_t* __restrict__ left, const uint8_t* __restrict__ right) {
  constexpr int EACH = LENGTH / THREADS;
  __shared__ uint8_t rows[PAIRS][LENGTH];
  __shared__ int edge[PAIRS][2][THREADS + 1];
  const int t = threadIdx.x, p = threadIdx.y;
  const size_t pair = ((size_t)blockIdx.x * PAIRS + p) * LENGTH;
  uint8_t mine[EACH];
  int above[EACH], corner = t * EACH;
#pragma unroll
  for (int i = 0; i < EACH; i++) mine[i] = left[pair + t * EACH + i], above[i] = t * EACH + i + 1;
  for (int i = t; i < LENGTH; i += THREADS) rows[p][i] = right[pair + i];
  __syncthreads();
  for (int step = 0; step < LENGTH + THREADS - 1; step++) {
    const int row = step - t;
    if (row >= 0 && row < LENGTH) {
      const uint8_t c = rows[p][row];
      int before = t ? edge[p][step % 2][t] : row + 1, diagonal = corner;
      corner = before;
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        const int v = min(min(above[i], before) + 1, diagonal + (mine[i] != c));
        diagonal = above[i], above[i] = v, before = v;
      }
      edge[p][(step + 1) % 2][t + 1] = before;
    }
    __syncthreads();
  }
  if (t == THREADS - 1) out[blockIdx.x * PAIRS + p] = above[EACH - 1];
}
#endif

#ifdef KERNEL_clustered  // long rows by their root mean square: a cluster of PARTS blocks a row, which read each other's sums
extern "C" __global__ void __cluster_dims__(PARTS, 1, 1) clustered(float* out, const float* __restrict__ in, int cols) {
  extern __shared__ float4 held[];
  __shared__ float room[32], mine;
  cg::cluster_group cluster = cg::this_cluster();
  const int part = cols / PARTS / 4;
  const size_t base = (size_t)blockIdx.y * (cols / 4) + (size_t)blockIdx.x * part;
  float sum = 0;
  for (int i = threadIdx.x; i < part; i += BLOCK) {
    const float4 v = reinterpret_cast<const float4*>(in)[base + i];
    held[i] = v;
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) mine = sum;
  cluster.sync();
  float all = 0;
  for (int p = 0; p < PARTS; p++) all += *cluster.map_shared_rank(&mine, p);
  cluster.sync();
  const float scale = rsqrtf(all / cols + 1e-6f);
  for (int i = threadIdx.x; i < part; i += BLOCK) {
    const float4 v = held[i];
    reinterpret_cast<float4*>(out)[base + i] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
  }
}
#endif
