// Kernels in CUDA C++ of kinds that no earlier set has: persistent and specialised warps, blocks of sparse matrices, states and particles.
#include <cuda_fp16.h>
#include <stdint.h>
#ifdef KERNEL_groupnorm
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#endif
#ifdef UNROLL
constexpr int kUnroll = UNROLL;
#endif

__device__ __forceinline__ unsigned shared_at(const void* p) { return __cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from)); }
__device__ __forceinline__ void ldmatrix4(unsigned (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_at(p)));
}
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <int FM_, int FN_, int BK_, int LINE_>  // one tile of BK: rows of both operands lie by K
__device__ __forceinline__ void multiply(float (&sum)[FM_][FN_ * 2][4], const half* as, const half* bs, int lane) {
#pragma unroll
  for (int k = 0; k < BK_; k += 16) {
    unsigned a[FM_][4];
#pragma unroll
    for (int i = 0; i < FM_; i++) ldmatrix4(a[i], as + (i * 16 + lane % 16) * LINE_ + k + lane / 16 * 8);
#pragma unroll
    for (int j = 0; j < FN_; j++) {
      unsigned b[4];
      ldmatrix4(b, bs + (j * 16 + lane % 16) * LINE_ + k + lane / 16 * 8);
#pragma unroll
      for (int i = 0; i < FM_; i++) mma(sum[i][j * 2], a[i], b[0], b[2]), mma(sum[i][j * 2 + 1], a[i], b[1], b[3]);
    }
  }
}

#ifdef KERNEL_implicit  // a convolution 3 x 3 of halves, NHWC, as a product by mma.sync: BM pixels x BN channels, STAGES of cp.async
extern "C" __global__ void __launch_bounds__(WM * WN * 32) implicit(half* __restrict__ out, const half* __restrict__ x, const half* __restrict__ w, int side, int C, int CO) {
  constexpr int BM = WM * FM * 16, BN = WN * FN * 16, LINE = BK + 8, THREADS = WM * WN * 32;
  extern __shared__ __align__(128) half ring[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, wm = warp / WN, wn = warp % WN, m0 = blockIdx.x * BM, n0 = blockIdx.y * BN;
  const int chunks = C / BK, turns = 9 * chunks;
  float sum[FM][FN * 2][4] = {};
  auto copy = [&](int s, int t) {
    const int tap = t / chunks, c0 = t % chunks * BK, u = tap / 3, v = tap % 3;
    half* to = ring + s * (BM + BN) * LINE;
#pragma unroll
    for (int i = tid; i < (BM + BN) * (BK / 8); i += THREADS) {
      const int r = i / (BK / 8), c = i % (BK / 8) * 8;
      const half* from;
      if (r < BM) {
        const int p = m0 + r, n = p / (side * side), y = p / side % side, z = p % side;
        from = x + ((size_t)(n * (side + 2) + y + u) * (side + 2) + z + v) * C;
      } else {
        from = w + ((size_t)(n0 + r - BM) * 9 + tap) * C;
      }
      copy16(to + r * LINE + c, from + c0 + c);
    }
  };
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    copy(s, s);
    asm volatile("cp.async.commit_group;");
  }
#pragma unroll 1
  for (int t = 0; t < turns; t++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    if (t + STAGES - 1 < turns) copy((t + STAGES - 1) % STAGES, t + STAGES - 1);
    asm volatile("cp.async.commit_group;");
    const half* as = ring + t % STAGES * (BM + BN) * LINE;
    multiply<FM, FN, BK, LINE>(sum, as + wm * FM * 16 * LINE, as + (BM + wn * FN * 16) * LINE, lane);
  }
#pragma unroll
  for (int i = 0; i < FM; i++)
#pragma unroll
    for (int j = 0; j < FN * 2; j++) {
      half* to = out + (size_t)(m0 + (wm * FM + i) * 16 + lane / 4) * CO + n0 + wn * FN * 16 + j * 8 + lane % 4 * 2;
      *(half2*)to = __floats2half2_rn(fmaxf(sum[i][j][0], 0.0f), fmaxf(sum[i][j][1], 0.0f));
      *(half2*)(to + (size_t)8 * CO) = __floats2half2_rn(fmaxf(sum[i][j][2], 0.0f), fmaxf(sum[i][j][3], 0.0f));
    }
}
#endif

#ifdef KERNEL_special  // C = A B' in half: PRODUCERS warps fill a ring by cp.async, others multiply; full and empty by mbarriers; blocks go on from tile to tile
__device__ __forceinline__ void wait_for(uint64_t* bar, int parity) {
  asm volatile(
      "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(shared_at(bar)), "r"(parity) : "memory");
}
extern "C" __global__ void __launch_bounds__((WM * WN + PRODUCERS) * 32) special(half* C, const half* __restrict__ A, const half* __restrict__ B, int M, int N, int K) {
  constexpr int BM = WM * FM * 16, BN = WN * FN * 16, LINE = BK + 8, CONSUMERS = WM * WN;
  extern __shared__ __align__(128) half ring[];
  __shared__ uint64_t full[STAGES], empty[STAGES];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, across = N / BN, tiles = M / BM * across;
  if (tid == 0)
    for (int s = 0; s < STAGES; s++) {
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_at(&full[s])), "r"(PRODUCERS * 32));
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_at(&empty[s])), "r"(CONSUMERS));
    }
  __syncthreads();
  int s = 0, parity = 0;
  if (warp >= CONSUMERS) {
    const int t = tid - CONSUMERS * 32;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const half *a = A + (size_t)(tile / across * BM) * K, *b = B + (size_t)(tile % across * BN) * K;
      for (int k = 0; k < K; k += BK) {
        wait_for(&empty[s], parity ^ 1);
#pragma unroll 8
        for (int i = t; i < (BM + BN) * (BK / 8); i += PRODUCERS * 32) {
          const int r = i / (BK / 8), c = i % (BK / 8) * 8;
          copy16(ring + (s * (BM + BN) + r) * LINE + c, (r < BM ? a + (size_t)r * K : b + (size_t)(r - BM) * K) + k + c);
        }
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_at(&full[s])));
        if (++s == STAGES) s = 0, parity ^= 1;
      }
    }
    asm volatile("cp.async.wait_all;");
  } else {
    const int wm = warp / WN, wn = warp % WN;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      float sum[FM][FN * 2][4] = {};
      for (int k = 0; k < K; k += BK) {
        wait_for(&full[s], parity);
        const half* as = ring + s * (BM + BN) * LINE;
        multiply<FM, FN, BK, LINE>(sum, as + wm * FM * 16 * LINE, as + (BM + wn * FN * 16) * LINE, lane);
        __syncwarp();
        if (lane == 0) asm volatile("{\n.reg .b64 t;\nmbarrier.arrive.shared.b64 t, [%0];\n}" ::"r"(shared_at(&empty[s])) : "memory");
        if (++s == STAGES) s = 0, parity ^= 1;
      }
#pragma unroll
      for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN * 2; j++) {
          half* to = C + (size_t)(tile / across * BM + (wm * FM + i) * 16 + lane / 4) * N + tile % across * BN + wn * FN * 16 + j * 8 + lane % 4 * 2;
          *(half2*)to = __floats2half2_rn(sum[i][j][0], sum[i][j][1]);
          *(half2*)(to + (size_t)8 * N) = __floats2half2_rn(sum[i][j][2], sum[i][j][3]);
        }
    }
  }
}
#endif

#ifdef KERNEL_bytekeys  // attention of one query a head over keys of bytes by dp4a: LANES lanes a key, PER keys of a group at once
extern "C" __global__ void __launch_bounds__(WARPS * 32) bytekeys(float* __restrict__ out, const int* __restrict__ q, const int* __restrict__ keys, const half* __restrict__ values, const float* __restrict__ scales, int seq) {
  constexpr int WORDS = 32 / LANES, DIMS = 4 * WORDS, GROUPS = WARPS * 32 / LANES;
  __shared__ float mosts[GROUPS], totals[GROUPS], held[GROUPS][128];
  const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES, head = blockIdx.x;
  int own[WORDS];
#pragma unroll
  for (int i = 0; i < WORDS; i++) own[i] = q[head * 32 + lane * WORDS + i];
  float most = -1e30f, total = 0.0f, sum[DIMS] = {};
  for (int first = group * PER; first < seq; first += GROUPS * PER) {
    float s[PER], top = most;
#pragma unroll
    for (int p = 0; p < PER; p++) {
      const size_t at = (size_t)head * seq + first + p;
      int k[WORDS], made = 0;
      if (WORDS % 4 == 0) {
#pragma unroll
        for (int i = 0; i < WORDS / 4; i++) *(int4*)&k[i * 4 % WORDS] = ((const int4*)(keys + at * 32 + lane * WORDS))[i];
      } else {
        *(int2*)k = *(const int2*)(keys + at * 32 + lane * WORDS);
      }
#pragma unroll
      for (int i = 0; i < WORDS; i++) made = __dp4a(k[i], own[i], made);
#pragma unroll
      for (int far = LANES / 2; far; far /= 2) made += __shfl_xor_sync(~0u, made, far);
      s[p] = made * scales[at] * 4e-5f;
      top = fmaxf(top, s[p]);
    }
    const float by = exp2f(most - top);
    most = top, total *= by;
#pragma unroll
    for (int d = 0; d < DIMS; d++) sum[d] *= by;
#pragma unroll
    for (int p = 0; p < PER; p++) {
      const float e = exp2f(s[p] - most);
      total += e;
      const uint4* from = (const uint4*)(values + ((size_t)head * seq + first + p) * 128 + lane * DIMS);
#pragma unroll
      for (int i = 0; i < DIMS / 8; i++) {
        const uint4 v = from[i];
        const half2* h = (const half2*)&v;
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float2 f = __half22float2(h[j]);
          sum[i * 8 + j * 2] += e * f.x, sum[i * 8 + j * 2 + 1] += e * f.y;
        }
      }
    }
  }
  if (lane == 0) mosts[group] = most, totals[group] = total;
#pragma unroll
  for (int d = 0; d < DIMS; d++) held[group][lane * DIMS + d] = sum[d];
  __syncthreads();
  float top = -1e30f;
  for (int g = 0; g < GROUPS; g++) top = fmaxf(top, mosts[g]);
  for (int d = threadIdx.x; d < 128; d += WARPS * 32) {
    float up = 0.0f, down = 0.0f;
    for (int g = 0; g < GROUPS; g++) {
      const float by = exp2f(mosts[g] - top);
      up += by * held[g][d], down += by * totals[g];
    }
    out[head * 128 + d] = up / down;
  }
}
#endif

#ifdef KERNEL_inverted  // inverses of many matrices by Gauss and Jordan: a column a lane in registers, a column of others by shuffles or shared memory
extern "C" __global__ void __launch_bounds__(BLOCK) inverted(float* __restrict__ out, const float* __restrict__ a, int count, float more) {
  constexpr int MATS = BLOCK / ORDER;
  __shared__ __align__(16) float column[MATS][ORDER];
  const int lane = threadIdx.x % ORDER, mine = threadIdx.x / ORDER;
#pragma unroll 1
  for (int m = blockIdx.x * MATS + mine; m < count; m += gridDim.x * MATS) {
    float v[ORDER];
#pragma unroll
    for (int i = 0; i < ORDER; i++) v[i] = a[((size_t)m * ORDER + i) * ORDER + lane] + (i == lane ? more : 0.0f);
#pragma unroll
    for (int k = 0; k < ORDER; k++) {
      float f[ORDER];
      if (SHARED) {
        if (lane == k) {
#pragma unroll
          for (int i = 0; i < ORDER; i += 4) *(float4*)&column[mine][i] = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < ORDER; i += 4) *(float4*)&f[i] = *(const float4*)&column[mine][i];
        __syncwarp();
      } else {
#pragma unroll
        for (int i = 0; i < ORDER; i++) f[i] = __shfl_sync(~0u, v[i], k, ORDER);
      }
      const float p = __fdividef(1.0f, f[k]), r = lane == k ? p : v[k] * p;
#pragma unroll
      for (int i = 0; i < ORDER; i++)
        if (i != k) v[i] = (lane == k ? 0.0f : v[i]) - f[i] * r;
      v[k] = r;
    }
#pragma unroll
    for (int i = 0; i < ORDER; i++) out[((size_t)m * ORDER + i) * ORDER + lane] = v[i];
  }
}
#endif

#ifdef KERNEL_largest  // the 32 largest of each row, sorted: PARTS warps a row, lists in registers joined by bitonic merges of shuffles
__device__ __forceinline__ float exchanged(float v, int far, bool up) {
  const float other = __shfl_xor_sync(~0u, v, far);
  return ((threadIdx.x & far) == 0) == up ? fmaxf(v, other) : fminf(v, other);
}
__device__ __forceinline__ float joined(float kept, float fresh) {  // one falls, the other rises
  kept = fmaxf(kept, fresh);
#pragma unroll
  for (int far = 16; far; far /= 2) kept = exchanged(kept, far, true);
  return kept;
}
extern "C" __global__ void __launch_bounds__(ROWS * PARTS * 32) largest(float* __restrict__ out, const float* __restrict__ x, int cols) {
  __shared__ float held[ROWS][PARTS][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % PARTS, mine = warp / PARTS, row = blockIdx.x * ROWS + mine;
  const float* from = x + (size_t)row * cols;
  float kept = -1e30f;
#pragma unroll 1
  for (int first = part * 32 * VEC; first < cols; first += PARTS * 32 * VEC) {
    float v[VEC];
    if (VEC == 4) *(float4*)v = *(const float4*)&from[first + lane * 4];
    else if (VEC == 2) *(float2*)v = *(const float2*)&from[first + lane * 2];
    else v[0] = from[first + lane];
#pragma unroll
    for (int i = 0; i < VEC; i++) {
#pragma unroll
      for (int size = 2; size <= 32; size *= 2)
#pragma unroll
        for (int far = size / 2; far; far /= 2) v[i] = exchanged(v[i], far, size < 32 && (lane & size) == 0 ? true : false);
      kept = joined(kept, v[i]);
    }
  }
  if (PARTS > 1) {
    held[mine][part][lane] = kept;
    __syncthreads();
    if (part) return;
#pragma unroll
    for (int p = 1; p < PARTS; p++) kept = joined(kept, held[mine][p][31 - lane]);
  }
  out[row * 32 + lane] = kept;
}
#endif

#ifdef KERNEL_distances  // how often pairs of points in a periodic box are so far apart: tiles of others in shared memory, COPIES of the counts
extern "C" __global__ void __launch_bounds__(BLOCK) distances(unsigned* __restrict__ counts, const float4* __restrict__ pos, int n) {
  __shared__ float4 others[BLOCK];
  __shared__ unsigned own[COPIES][256];
  for (int i = threadIdx.x; i < COPIES * 256; i += BLOCK) own[0][i] = 0;
  float4 mine[PER];
#pragma unroll
  for (int p = 0; p < PER; p++) mine[p] = pos[(blockIdx.x * PER + p) * BLOCK + threadIdx.x];
  unsigned* to = own[threadIdx.x / 32 % COPIES];
  for (int first = blockIdx.y * (n / gridDim.y); first < (int)((blockIdx.y + 1) * (n / gridDim.y)); first += BLOCK) {
    __syncthreads();
    others[threadIdx.x] = pos[first + threadIdx.x];
    __syncthreads();
#pragma unroll 2
    for (int j = 0; j < BLOCK; j++) {
      const float4 other = others[j];
#pragma unroll
      for (int p = 0; p < PER; p++) {
        float dx = other.x - mine[p].x, dy = other.y - mine[p].y, dz = other.z - mine[p].z;
        dx -= rintf(dx), dy -= rintf(dy), dz -= rintf(dz);
        const int bin = sqrtf(dx * dx + dy * dy + dz * dz) * 290.0f;
        atomicAdd(&to[min(bin, 255)], 1u);
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += BLOCK) {
    unsigned sum = 0;
#pragma unroll
    for (int c = 0; c < COPIES; c++) sum += own[c][i];
    atomicAdd(&counts[i], sum);
  }
}
#endif

#ifdef KERNEL_blocked  // C = A B, A of blocks of 16 x 16 halves that rows list, B of N columns: a warp a row of blocks and NT columns of 8
extern "C" __global__ void __launch_bounds__(WARPS * 32) blocked(float* __restrict__ C, const int* __restrict__ starts, const int* __restrict__ cols, const half* __restrict__ held, const half* __restrict__ B, int N) {
  constexpr int WIDE = NT * 8, LINE = WIDE + 8;
  __shared__ __align__(16) half own[WARPS][2][16][LINE];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.y * WARPS + warp, n0 = blockIdx.x * WIDE;
  const int first = starts[row], last = starts[row + 1];
  float sum[NT][4] = {};
  auto copy = [&](int s, int k) {
    const half* from = B + (size_t)cols[k] * 16 * N + n0;
#pragma unroll
    for (int i = lane; i < 16 * NT; i += 32) copy16(&own[warp][s][i / NT][i % NT * 8], from + (size_t)(i / NT) * N + i % NT * 8);
    asm volatile("cp.async.commit_group;");
  };
  if (first < last) copy(0, first);
  for (int k = first; k < last; k++) {
    const int s = (k - first) & 1;
    const unsigned* from = (const unsigned*)(held + (size_t)k * 256);
    unsigned a[4];
#pragma unroll
    for (int e = 0; e < 4; e++) a[e] = from[(lane / 4 + e % 2 * 8) * 8 + lane % 4 + e / 2 * 4];
    if (k + 1 < last) {
      copy(s ^ 1, k + 1);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < NT; j++) {
      unsigned b0, b1;
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(shared_at(&own[warp][s][lane % 16][j * 8])));
      mma(sum[j], a, b0, b1);
    }
    __syncwarp();
  }
#pragma unroll
  for (int j = 0; j < NT; j++) {
    float* to = C + (size_t)(row * 16 + lane / 4) * N + n0 + j * 8 + lane % 4 * 2;
    *(float2*)to = make_float2(sum[j][0], sum[j][1]);
    *(float2*)(to + (size_t)8 * N) = make_float2(sum[j][2], sum[j][3]);
  }
}
#endif

#ifdef KERNEL_bucketed  // numbers into 256 buckets by a byte of theirs: warps find equals by match, blocks take places by atomics, and store by bucket
extern "C" __global__ void __launch_bounds__(BLOCK) bucketed(int* __restrict__ out, int* heads, const int* __restrict__ x, int room) {
  constexpr int WARPS = BLOCK / 32;
  __shared__ int counts[WARPS][256], base[256];
  __shared__ int tile[STAGED ? BLOCK * ITEMS : 1], begin[257];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = (blockIdx.x * WARPS + warp) * 32 * ITEMS + lane;
  for (int i = threadIdx.x; i < WARPS * 256; i += BLOCK) counts[0][i] = 0;
  __syncthreads();
  int key[ITEMS], place[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) key[i] = x[first + i * 32];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int d = key[i] >> 22 & 255;
    const unsigned same = __match_any_sync(~0u, d), below = same & ((1u << lane) - 1);
    const int before = counts[warp][d];
    __syncwarp();
    if (below == 0) counts[warp][d] = before + __popc(same);
    __syncwarp();
    place[i] = before + __popc(below);
  }
  __syncthreads();
  for (int d = threadIdx.x; d < 256; d += BLOCK) {
    int sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      const int c = counts[w][d];
      counts[w][d] = sum, sum += c;
    }
    base[d] = d * room + atomicAdd(&heads[d], sum);
    begin[d + 1] = sum;
  }
  if (STAGED) {
    if (threadIdx.x == 0) begin[0] = 0;
    __syncthreads();
    if (warp == 0) {  // sums of all before, eight a lane
      int own[8], sum = 0;
#pragma unroll
      for (int i = 0; i < 8; i++) own[i] = sum += begin[1 + lane * 8 + i];
      int all = sum;
#pragma unroll
      for (int far = 1; far < 32; far *= 2) {
        const int other = __shfl_up_sync(~0u, all, far);
        if (lane >= far) all += other;
      }
#pragma unroll
      for (int i = 0; i < 8; i++) begin[1 + lane * 8 + i] = own[i] + all - sum;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      const int d = key[i] >> 22 & 255;
      tile[begin[d] + counts[warp][d] + place[i]] = key[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < BLOCK * ITEMS; i += BLOCK) {
      const int k = tile[i], d = k >> 22 & 255;
      out[base[d] + i - begin[d]] = k;
    }
  } else {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      const int d = key[i] >> 22 & 255;
      out[base[d] + counts[warp][d] + place[i]] = key[i];
    }
  }
}
#endif

#ifdef KERNEL_wkv  // a state of 64 x 64 a head that decays by channel along time: a column of it PARTS lanes, CHUNK steps staged at once
extern "C" __global__ void __launch_bounds__(64 * PARTS) wkv(float* __restrict__ out, const float* __restrict__ r, const float* __restrict__ k, const float* __restrict__ w, const float* __restrict__ v, const float* __restrict__ u, int steps, int heads) {
  constexpr int OWN = 64 / PARTS, THREADS = 64 * PARTS;
  __shared__ __align__(16) float held[4][CHUNK][64];
  const int head = blockIdx.x % heads, batch = blockIdx.x / heads, part = threadIdx.x % PARTS, j = threadIdx.x / PARTS;
  float state[OWN] = {}, bonus[OWN];
#pragma unroll
  for (int i = 0; i < OWN; i++) bonus[i] = u[head * 64 + part * OWN + i];
#pragma unroll 1
  for (int t0 = 0; t0 < steps; t0 += CHUNK) {
    __syncthreads();
    for (int i = threadIdx.x; i < 4 * CHUNK * 16; i += THREADS) {
      const int of = i / (CHUNK * 16), t = i / 16 % CHUNK, c = i % 16 * 4;
      const float* from = of == 0 ? r : of == 1 ? k : of == 2 ? w : v;
      *(float4*)&held[of][t][c] = *(const float4*)&from[((size_t)(batch * steps + t0 + t) * heads + head) * 64 + c];
    }
    __syncthreads();
#pragma unroll 1
    for (int t = 0; t < CHUNK; t++) {
      const float mine = held[3][t][j];
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < OWN; i += 4) {
        float a[4], b[4], c[4];
        *(float4*)a = *(const float4*)&held[0][t][part * OWN + i];
        *(float4*)b = *(const float4*)&held[1][t][part * OWN + i];
        *(float4*)c = *(const float4*)&held[2][t][part * OWN + i];
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const float kv = b[e] * mine;
          sum += a[e] * (bonus[i + e] * kv + state[i + e]);
          state[i + e] = state[i + e] * c[e] + kv;
        }
      }
#pragma unroll
      for (int far = PARTS / 2; far; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
      if (part == 0) out[((size_t)(batch * steps + t0 + t) * heads + head) * 64 + j] = sum;
    }
  }
}
#endif

#ifdef KERNEL_ntt  // number theoretic transforms of N numbers below a prime, by Montgomery's products, two buffers in shared memory
constexpr unsigned P = 998244353u, INVERSE = 998244351u;
__device__ __forceinline__ unsigned product(unsigned a, unsigned b) {
  const uint64_t t = (uint64_t)a * b;
  const unsigned m = (unsigned)t * INVERSE;
  const unsigned made = (t + (uint64_t)m * P) >> 32;
  return made >= P ? made - P : made;
}
extern "C" __global__ void __launch_bounds__(THREADS) ntt(unsigned* __restrict__ out, const unsigned* __restrict__ x, const unsigned* __restrict__ roots) {
  __shared__ unsigned held[2][N], table[TABLED ? N : 1];
  const size_t row = (size_t)blockIdx.x * N;
  for (int i = threadIdx.x * 4; i < N; i += THREADS * 4) {
    *(uint4*)&held[0][i] = *(const uint4*)&x[row + i];
    if (TABLED) *(uint4*)&table[i % (TABLED ? N : 1)] = *(const uint4*)&roots[i];
  }
#pragma unroll
  for (int m = 1, s = 0; m < N; m *= 2, s ^= 1) {
    __syncthreads();
#pragma unroll kUnroll
    for (int i = threadIdx.x; i < N / 2; i += THREADS) {
      const int k = i % m, j = i / m;
      const unsigned a = held[s][i], b = product(held[s][i + N / 2], TABLED ? table[(m + k) % (TABLED ? N : 1)] : __ldg(&roots[m + k]));
      const unsigned up = a + b, down = a - b;
      held[s ^ 1][j * 2 * m + k] = up >= P ? up - P : up;
      held[s ^ 1][j * 2 * m + k + m] = a < b ? down + P : down;
    }
  }
  __syncthreads();
  constexpr int END = N == 1024 || N == 4096 ? 0 : 1;
  for (int i = threadIdx.x * 4; i < N; i += THREADS * 4) *(uint4*)&out[row + i] = *(const uint4*)&held[END][i];
}
#endif

#ifdef KERNEL_groupnorm  // norms of groups of channels of images, NHWC, halves, then SiLU: a block a group, sums by cooperative groups
namespace cg = cooperative_groups;
extern "C" __global__ void __launch_bounds__(BLOCK) groupnorm(half* __restrict__ out, const half* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta, int pixels, int channels) {
  constexpr int LINE = GROUP / VEC;
  __shared__ float2 held[BLOCK / 32];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const size_t base = (size_t)blockIdx.y * pixels * channels + blockIdx.x * GROUP;
  float sum = 0.0f, squares = 0.0f;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < pixels * LINE; i += BLOCK) {
    const half* from = x + base + (size_t)(i / LINE) * channels + i % LINE * VEC;
    if (VEC == 2) {
      const float2 v = __half22float2(*(const half2*)from);
      sum += v.x + v.y, squares += v.x * v.x + v.y * v.y;
    } else {
      const float v = __half2float(*from);
      sum += v, squares += v * v;
    }
  }
  sum = cg::reduce(warp, sum, cg::plus<float>()), squares = cg::reduce(warp, squares, cg::plus<float>());
  if (warp.thread_rank() == 0) held[threadIdx.x / 32] = make_float2(sum, squares);
  __syncthreads();
  sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < BLOCK / 32; i++) sum += held[i].x, squares += held[i].y;
  const float over = 1.0f / (pixels * GROUP), mean = sum * over, by = rsqrtf(squares * over - mean * mean + 1e-5f);
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < pixels * LINE; i += BLOCK) {
    const int c = i % LINE * VEC, of = blockIdx.x * GROUP + c;
    const size_t at = base + (size_t)(i / LINE) * channels + c;
    float v[VEC];
#pragma unroll
    for (int e = 0; e < VEC; e++) {
      v[e] = (__half2float(x[at + e]) - mean) * by * gamma[of + e] + beta[of + e];
      v[e] = __fdividef(v[e], 1.0f + __expf(-v[e]));
    }
    if (VEC == 2) *(half2*)&out[at] = __floats2half2_rn(v[0], v[VEC - 1]);
    else out[at] = __float2half(v[0]);
  }
}
#endif

#ifdef KERNEL_pushed  // charged particles a step on in fields of their cells: six numbers of each together (0), these by words of two (1), or an array a number (2)
extern "C" __global__ void __launch_bounds__(BLOCK) pushed(float* __restrict__ out, const float* __restrict__ in, const float4* __restrict__ electric, const float4* __restrict__ magnetic, const int* __restrict__ cell, int n, float dt) {
#pragma unroll
  for (int p = 0; p < PER; p++) {
    const int i = (blockIdx.x * PER + p) * BLOCK + threadIdx.x;
    float s[6];
#pragma unroll
    for (int e = 0; e < 6; e++) {
      if (LAYOUT == 2) s[e] = in[(size_t)e * n + i];
      else if (LAYOUT == 0) s[e] = in[(size_t)i * 6 + e];
      else if (e % 2 == 0) *(float2*)&s[e] = *(const float2*)&in[(size_t)i * 6 + e];
    }
    const int c = cell[i];
    const float4 E = electric[c], B = magnetic[c];
    const float h = 0.5f * dt;
    const float ux = s[3] + h * E.x, uy = s[4] + h * E.y, uz = s[5] + h * E.z;
    const float tx = h * B.x, ty = h * B.y, tz = h * B.z, by = 2.0f / (1.0f + tx * tx + ty * ty + tz * tz);
    const float wx = ux + uy * tz - uz * ty, wy = uy + uz * tx - ux * tz, wz = uz + ux * ty - uy * tx;
    s[3] = ux + by * (wy * tz - wz * ty) + h * E.x;
    s[4] = uy + by * (wz * tx - wx * tz) + h * E.y;
    s[5] = uz + by * (wx * ty - wy * tx) + h * E.z;
#pragma unroll
    for (int e = 0; e < 3; e++) s[e] += dt * s[e + 3];
#pragma unroll
    for (int e = 0; e < 6; e++) {
      if (LAYOUT == 2) out[(size_t)e * n + i] = s[e];
      else if (LAYOUT == 0) out[(size_t)i * 6 + e] = s[e];
      else if (e % 2 == 0) *(float2*)&out[(size_t)i * 6 + e] = *(const float2*)&s[e];
    }
  }
}
#endif
