// CUDA kernels as users of tuners write them, whose passes and bytes `test_everyday_cuda.py` counts by hand.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/pipeline>
#include <cuda/barrier>
#include <mma.h>
namespace cg = cooperative_groups;
#ifndef BX
#define BX 256
#endif
// coop groups reduce + grid-stride
template <typename T, int BLOCK>
__device__ void cg_reduce_(const T* x, T* out, int n) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ T part[BLOCK / 32];
    T s = 0;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) s += __ldg(x + i);
    s = cg::reduce(warp, s, cg::plus<T>());
    if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = s;
    block.sync();
    if (warp.meta_group_rank() == 0) {
        s = warp.thread_rank() < BLOCK / 32 ? part[warp.thread_rank()] : T(0);
        s = cg::reduce(warp, s, cg::plus<T>());
        if (warp.thread_rank() == 0) atomicAdd(out, s);
    }
}
extern "C" __global__ void __launch_bounds__(BX) cg_reduce(const float* x, float* out, int n) { cg_reduce_<float, BX>(x, out, n); }
extern "C" __global__ void __launch_bounds__(BX) cg_reduce_int(const int* x, int* out, int n) { cg_reduce_<int, BX>(x, out, n); }
// warp-aggregated atomics (compaction)
extern "C" __global__ void filter_aggregated(const int* x, int* y, int* count, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        if (x[i] > 0) {
            auto g = cg::coalesced_threads();
            int base = 0;
            if (g.thread_rank() == 0) base = atomicAdd(count, g.size());
            y[g.shfl(base, 0) + g.thread_rank()] = x[i];
        }
    }
}
// cp.async pipeline with cuda::pipeline, sgemm
template <int BM, int BN, int BK, int STAGES, int TM, int TN>
__device__ void pipe_gemm_(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
    extern __shared__ float smem[];
    constexpr int THREADS = BM / TM * BN / TN;
    float* As = smem; float* Bs = smem + STAGES * BM * BK;
    auto block = cg::this_thread_block();
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    int tid = threadIdx.x, tx = tid % (BN / TN), ty = tid / (BN / TN);
    float acc[TM][TN] = {};
    auto fetch = [&](int t) {
        int s = t % STAGES;
        for (int e = tid; e < BM * BK / 4; e += THREADS) {
            int r = e / (BK / 4), c = e % (BK / 4) * 4;
            cuda::memcpy_async((float4*)&As[s * BM * BK + r * BK + c], (const float4*)&A[(size_t)(blockIdx.y * BM + r) * K + t * BK + c], cuda::aligned_size_t<16>(16), pipe);
        }
        for (int e = tid; e < BN * BK / 4; e += THREADS) {
            int r = e / (BN / 4), c = e % (BN / 4) * 4;
            cuda::memcpy_async((float4*)&Bs[s * BN * BK + r * BN + c], (const float4*)&B[(size_t)(t * BK + r) * N + blockIdx.x * BN + c], cuda::aligned_size_t<16>(16), pipe);
        }
    };
    int tiles = K / BK;
    for (int t = 0; t < STAGES - 1; t++) { pipe.producer_acquire(); if (t < tiles) fetch(t); pipe.producer_commit(); }
    for (int t = 0; t < tiles; t++) {
        pipe.producer_acquire(); if (t + STAGES - 1 < tiles) fetch(t + STAGES - 1); pipe.producer_commit();
        cuda::pipeline_consumer_wait_prior<STAGES - 1>(pipe);
        __syncthreads();
        const float* a_ = As + t % STAGES * BM * BK; const float* b_ = Bs + t % STAGES * BN * BK;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; i++) a[i] = a_[(ty * TM + i) * BK + k];
            for (int j = 0; j < TN; j++) b[j] = b_[k * BN + tx * TN + j];
            for (int i = 0; i < TM; i++) for (int j = 0; j < TN; j++) acc[i][j] += a[i] * b[j];
        }
        pipe.consumer_release();
        __syncthreads();
    }
    for (int i = 0; i < TM; i++) for (int j = 0; j < TN; j++) C[(size_t)(blockIdx.y * BM + ty * TM + i) * N + blockIdx.x * BN + tx * TN + j] = acc[i][j];
}
extern "C" __global__ void __launch_bounds__(256) pipe_gemm(const float* A, const float* B, float* C, int M, int N, int K) { pipe_gemm_<64, 64, 16, 3, 4, 4>(A, B, C, M, N, K); }
// wmma gemm
extern "C" __global__ void __launch_bounds__(128) wmma_gemm(const half* A, const half* B, float* C, int M, int N, int K) {
    using namespace nvcuda::wmma;
    __shared__ half As[64][40], Bs[32][72];
    int warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
    fragment<accumulator, 16, 16, 16, float> c[2][2];
    for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) fill_fragment(c[i][j], 0.f);
    for (int k0 = 0; k0 < K; k0 += 32) {
        for (int e = threadIdx.x; e < 64 * 4; e += 128) *(uint4*)&As[e / 4][e % 4 * 8] = *(const uint4*)&A[(size_t)(blockIdx.y * 64 + e / 4) * K + k0 + e % 4 * 8];
        for (int e = threadIdx.x; e < 32 * 8; e += 128) *(uint4*)&Bs[e / 8][e % 8 * 8] = *(const uint4*)&B[(size_t)(k0 + e / 8) * N + blockIdx.x * 64 + e % 8 * 8];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a[2];
            fragment<matrix_b, 16, 16, 16, half, row_major> b[2];
            for (int i = 0; i < 2; i++) { load_matrix_sync(a[i], &As[wm + i * 16][k], 40); load_matrix_sync(b[i], &Bs[k][wn + i * 16], 72); }
            for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) mma_sync(c[i][j], a[i], b[j], c[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) store_matrix_sync(&C[(size_t)(blockIdx.y * 64 + wm + i * 16) * N + blockIdx.x * 64 + wn + j * 16], c[i][j], N, mem_row_major);
}
// mma.sync PTX with ldmatrix and cp.async
__device__ __forceinline__ unsigned sm(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void __launch_bounds__(128) mma_gemm(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) {
    extern __shared__ __align__(128) unsigned char raw[];
    constexpr int BM = 128, BN = 128, BK = 32, ST = 3, AB = BM * BK * 2, BB = BN * BK * 2;
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, wm = warp / 2 * 64, wn = warp % 2 * 64;
    float acc[4][8][4] = {};
    auto swz = [](int r, int c) { return r * 64 + ((c ^ (r >> 1 & 3)) << 4); };
    auto load = [&](int t) {
        unsigned base = sm(raw) + t % ST * (AB + BB);
        for (int e = tid; e < BM * 4; e += 128) {
            int r = e / 4, c = e % 4;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + swz(r, c)), "l"(A + (size_t)(blockIdx.y * BM + r) * K + t * BK + c * 8));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + AB + swz(r, c)), "l"(B + (size_t)(blockIdx.x * BN + r) * K + t * BK + c * 8));
        }
    };
    int tiles = K / BK;
    for (int t = 0; t < ST - 1; t++) { if (t < tiles) load(t); asm volatile("cp.async.commit_group;"); }
    for (int t = 0; t < tiles; t++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(ST - 2));
        __syncthreads();
        if (t + ST - 1 < tiles) load(t + ST - 1);
        asm volatile("cp.async.commit_group;");
        unsigned base = sm(raw) + t % ST * (AB + BB);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            unsigned a[4][4], b[8][2];
            for (int i = 0; i < 4; i++) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(base + swz(wm + i * 16 + lane % 16, k * 2 + lane / 16)));
            for (int j = 0; j < 4; j++) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[2 * j][0]), "=r"(b[2 * j][1]), "=r"(b[2 * j + 1][0]), "=r"(b[2 * j + 1][1]) : "r"(base + AB + swz(wn + j * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2)));
            for (int i = 0; i < 4; i++) for (int j = 0; j < 8; j++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3]) : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
        }
    }
    for (int i = 0; i < 4; i++) for (int j = 0; j < 8; j++) for (int h = 0; h < 2; h++)
        *(float2*)&C[(size_t)(blockIdx.y * BM + wm + i * 16 + h * 8 + lane / 4) * N + blockIdx.x * BN + wn + j * 8 + lane % 4 * 2] = make_float2(acc[i][j][2 * h], acc[i][j][2 * h + 1]);
}
// decoupled look-back scan
extern "C" __global__ void __launch_bounds__(256) lookback(const int* x, int* y, volatile unsigned long long* state, int* ticket, int n) {
    __shared__ int tile, warp_sums[8], prefix;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1);
    __syncthreads();
    int t = tile, at = t * 1024 + threadIdx.x * 4;
    int4 v = at < n ? *(const int4*)(x + at) : make_int4(0, 0, 0, 0);
    v.y += v.x; v.z += v.y; v.w += v.z;
    int s = v.w, lane = threadIdx.x % 32, w = threadIdx.x / 32;
    for (int d = 1; d < 32; d *= 2) { int o = __shfl_up_sync(~0u, s, d); if (lane >= d) s += o; }
    if (lane == 31) warp_sums[w] = s;
    __syncthreads();
    int before = 0, all = 0;
    for (int i = 0; i < 8; i++) { if (i < w) before += warp_sums[i]; all += warp_sums[i]; }
    if (threadIdx.x == 0) {
        if (t == 0) { state[0] = (2ull << 32) | (unsigned)all; prefix = 0; }
        else {
            state[t] = (1ull << 32) | (unsigned)all;
            int sum = 0;
            for (int p = t - 1; p >= 0;) {
                unsigned long long q = state[p];
                if (q >> 32 == 0) continue;
                sum += (int)q;
                if (q >> 32 == 2) break;
                p--;
            }
            state[t] = (2ull << 32) | (unsigned)(sum + all);
            prefix = sum;
        }
    }
    __syncthreads();
    int add = prefix + before + s - v.w;
    if (at < n) *(int4*)(y + at) = make_int4(v.x + add, v.y + add, v.z + add, v.w + add);
}
// BRX switch on argument, block and data
extern "C" __global__ void brx(const float* x, float* y, const int* op, int n, int mode) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
#pragma unroll 1
    for (int k = 0; k < 4; k++)
        switch (mode < 0 ? op[blockIdx.x] : mode + k) {
            case 0: v = sinf(v); break;
            case 1: v = expf(v); break;
            case 2: v = v * v + 1; break;
            case 3: v = tanhf(v); break;
            case 4: v = rsqrtf(v); break;
            case 5: v = v - floorf(v); break;
            case 6: v = log1pf(v); break;
            case 7: v = erff(v); break;
            case 8: v = cbrtf(v); break;
            default: v = 0; break;
        }
    y[i] = v;
}
// constant memory + dynamic shared conv with halo
__constant__ float coeff[81];
template <int W, int H, int R>
__device__ void conv_(const float* in, float* out, int w, int h) {
    extern __shared__ float tile[];
    constexpr int P = W + 2 * R;
    for (int j = threadIdx.y; j < H + 2 * R; j += blockDim.y)
        for (int i = threadIdx.x; i < P; i += blockDim.x) {
            int x = min(max((int)blockIdx.x * W + i - R, 0), w - 1), y = min(max((int)blockIdx.y * H + j - R, 0), h - 1);
            tile[j * P + i] = __ldg(&in[y * w + x]);
        }
    __syncthreads();
    for (int j = threadIdx.y; j < H; j += blockDim.y)
        for (int i = threadIdx.x; i < W; i += blockDim.x) {
            float s = 0;
#pragma unroll
            for (int b = 0; b <= 2 * R; b++)
#pragma unroll
                for (int a = 0; a <= 2 * R; a++) s += tile[(j + b) * P + i + a] * coeff[b * (2 * R + 1) + a];
            out[(blockIdx.y * H + j) * w + blockIdx.x * W + i] = s;
        }
}
extern "C" __global__ void conv9(const float* in, float* out, int w, int h) { conv_<64, 16, 4>(in, out, w, h); }
// histogram in shared with privatised copies, 256 bins, uchar4
extern "C" __global__ void hist(const uchar4* x, unsigned* bins, int n4) {
    __shared__ unsigned local[8][257];
    for (int i = threadIdx.x; i < 8 * 257; i += blockDim.x) (&local[0][0])[i] = 0;
    __syncthreads();
    unsigned* mine = local[threadIdx.x / 32 % 8];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += blockDim.x * gridDim.x) {
        uchar4 v = x[i];
        atomicAdd(mine + v.x, 1); atomicAdd(mine + v.y, 1); atomicAdd(mine + v.z, 1); atomicAdd(mine + v.w, 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) {
        unsigned s = 0;
        for (int w = 0; w < 8; w++) s += local[w][b];
        atomicAdd(bins + b, s);
    }
}
// barrier-based producer consumer (cuda::barrier, memcpy_async block-wide)
extern "C" __global__ void __launch_bounds__(256) block_copy(const float* x, float* y, int tiles) {
    __shared__ alignas(128) float buf[2][1024];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar[2];
    auto block = cg::this_thread_block();
    if (threadIdx.x == 0) { init(&bar[0], 256); init(&bar[1], 256); }
    block.sync();
    int t = blockIdx.x;
    if (t < tiles) cuda::memcpy_async(block, buf[0], x + (size_t)t * 1024, cuda::aligned_size_t<16>(4096), bar[0]);
    for (int s = 0; t < tiles; s ^= 1, t += gridDim.x) {
        if (t + gridDim.x < tiles) cuda::memcpy_async(block, buf[s ^ 1], x + (size_t)(t + gridDim.x) * 1024, cuda::aligned_size_t<16>(4096), bar[s ^ 1]);
        bar[s].arrive_and_wait();
        for (int i = threadIdx.x; i < 1024; i += 256) y[(size_t)t * 1024 + i] = buf[s][i] * 2 + (i ? buf[s][i - 1] : 0);
        block.sync();
    }
}
// bitonic sort in shared memory
extern "C" __global__ void bitonic(int* x, int n) {
    extern __shared__ int s[];
    int t = threadIdx.x, base = blockIdx.x * 2 * blockDim.x;
    s[t] = x[base + t]; s[t + blockDim.x] = x[base + t + blockDim.x];
    for (int k = 2; k <= 2 * (int)blockDim.x; k <<= 1)
        for (int j = k >> 1; j > 0; j >>= 1) {
            __syncthreads();
            int i = 2 * t - (t & (j - 1)), p = i + j;
            bool up = (i & k) == 0;
            int a = s[i], b = s[p];
            if ((a > b) == up) { s[i] = b; s[p] = a; }
        }
    __syncthreads();
    x[base + t] = s[t]; x[base + t + blockDim.x] = s[t + blockDim.x];
}
// spmv csr vector; 13 attention row online softmax; 14 nbody; 15 matmul naive with int64; 16 fft radix-2 stages
extern "C" __global__ void spmv(const int* rows, const int* cols, const float* vals, const float* x, float* y, int m) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    if (row >= m) return;
    float s = 0;
    for (int j = rows[row] + tile.thread_rank(); j < rows[row + 1]; j += 8) s += vals[j] * __ldg(x + cols[j]);
    s = cg::reduce(tile, s, cg::plus<float>());
    if (tile.thread_rank() == 0) y[row] = s;
}
extern "C" __global__ void __launch_bounds__(128) attend(const half* Q, const half* K, const half* V, half* O, int heads, int len, float scale) {
    constexpr int D = 64;
    __shared__ half2 k_[32][D / 2 + 1], v_[32][D / 2 + 1];
    int row = blockIdx.x * 128 + threadIdx.x; size_t base = (size_t)blockIdx.y * len * D;
    half2 q[D / 2]; float2 o[D / 2]; float m = -1e30f, l = 0;
    for (int d = 0; d < D / 2; d++) { q[d] = ((const half2*)(Q + base + (size_t)row * D))[d]; o[d] = make_float2(0, 0); }
    for (int t = 0; t < len; t += 32) {
        __syncthreads();
        for (int e = threadIdx.x; e < 32 * D / 2; e += 128) { k_[e / (D / 2)][e % (D / 2)] = ((const half2*)(K + base + (size_t)t * D))[e]; v_[e / (D / 2)][e % (D / 2)] = ((const half2*)(V + base + (size_t)t * D))[e]; }
        __syncthreads();
#pragma unroll 1
        for (int j = 0; j < 32 && t + j <= row; j++) {
            float2 acc = make_float2(0, 0);
#pragma unroll
            for (int d = 0; d < D / 2; d++) { float2 a = __half22float2(q[d]), b = __half22float2(k_[j][d]); acc.x += a.x * b.x; acc.y += a.y * b.y; }
            float s = (acc.x + acc.y) * scale, mn = fmaxf(m, s), c = __expf(m - mn), p = __expf(s - mn);
            l = l * c + p; m = mn;
#pragma unroll
            for (int d = 0; d < D / 2; d++) { float2 b = __half22float2(v_[j][d]); o[d].x = o[d].x * c + p * b.x; o[d].y = o[d].y * c + p * b.y; }
        }
    }
    for (int d = 0; d < D / 2; d++) ((half2*)(O + base + (size_t)row * D))[d] = __floats2half2_rn(o[d].x / l, o[d].y / l);
}
extern "C" __global__ void fft(float2* x, int log_n) {
    extern __shared__ float2 f[];
    int n = 1 << log_n; float2* row = x + (size_t)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) f[__brev(i) >> (32 - log_n)] = row[i];
    for (int s = 1; s <= log_n; s++) {
        __syncthreads();
        int half_ = 1 << (s - 1);
        for (int k = threadIdx.x; k < n / 2; k += blockDim.x) {
            int at = k & (half_ - 1), i = (k >> (s - 1)) * 2 * half_ + at;
            float sn, cs; __sincosf(-3.14159265f * at / half_, &sn, &cs);
            float2 a = f[i], b = f[i + half_], c = make_float2(b.x * cs - b.y * sn, b.x * sn + b.y * cs);
            f[i] = make_float2(a.x + c.x, a.y + c.y); f[i + half_] = make_float2(a.x - c.x, a.y - c.y);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = f[i];
}
// hotspot-like temporal blocking
template <int T, int BW>
__device__ void hotspot_(const float* in, const float* p, float* out, int w, int h) {
    __shared__ float a[BW][BW];
    int x = (int)blockIdx.x * (BW - 2 * T) + threadIdx.x - T, y = (int)blockIdx.y * (BW - 2 * T) + threadIdx.y - T;
    int cx = min(max(x, 0), w - 1), cy = min(max(y, 0), h - 1), tx = threadIdx.x, ty = threadIdx.y;
    a[ty][tx] = in[cy * w + cx];
    float pw = p[cy * w + cx], v = a[ty][tx];
    int n = ty - 1 < 0 ? 0 : ty - 1, s = ty + 1 > BW - 1 ? BW - 1 : ty + 1, wst = tx - 1 < 0 ? 0 : tx - 1, e = tx + 1 > BW - 1 ? BW - 1 : tx + 1;
    for (int i = 0; i < T; i++) {
        __syncthreads();
        bool in_ = tx > i && tx < BW - 1 - i && ty > i && ty < BW - 1 - i;
        if (in_) v = a[ty][tx] + 0.1f * (pw + a[n][tx] + a[s][tx] + a[ty][e] + a[ty][wst] - 4 * a[ty][tx]);
        __syncthreads();
        if (in_) a[ty][tx] = v;
    }
    if (tx >= T && tx < BW - T && ty >= T && ty < BW - T && x < w && y < h) out[y * w + x] = v;
}
extern "C" __global__ void hotspot(const float* in, const float* p, float* out, int w, int h) { hotspot_<4, 32>(in, p, out, w, h); }
// point in polygon
extern "C" __global__ void __launch_bounds__(256) polygon(int* inside, const float2* points, const float2* vertices, int n, int vertex_count) {
    int i = blockIdx.x * 256 * 4 + threadIdx.x;
    int c[4] = {}; float2 p[4];
    for (int k = 0; k < 4; k++) p[k] = points[i + 256 * k];
    int prev = vertex_count - 1;
    for (int v = 0; v < vertex_count; prev = v++) {
        float2 a = vertices[v], b = vertices[prev]; float slope = (b.x - a.x) / (b.y - a.y);
#pragma unroll
        for (int k = 0; k < 4; k++) if ((a.y > p[k].y) != (b.y > p[k].y) && p[k].x < slope * (p[k].y - a.y) + a.x) c[k] = !c[k];
    }
    for (int k = 0; k < 4; k++) inside[i + 256 * k] = c[k];
}
// expdist-like double + block reduce
extern "C" __global__ void expdist(const double* A, const double* B, int m, int n, double* out) {
    __shared__ double sh[256];
    int i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 16 + threadIdx.y;
    double s = 0;
    if (i < m && j < n) { double dx = A[i] - B[j], dy = A[m + i] - B[n + j]; s = exp(-(dx * dx + dy * dy) / 2.0); }
    int t = threadIdx.y * 16 + threadIdx.x; sh[t] = s; __syncthreads();
    for (int k = 128; k; k >>= 1) { if (t < k) sh[t] += sh[t + k]; __syncthreads(); }
    if (t == 0) out[blockIdx.y * gridDim.x + blockIdx.x] = sh[0];
}
// cluster dsmem / grid sync cooperative
extern "C" __global__ void grid_sync(const float* x, float* y, float* tmp, int n) {
    auto g = cg::this_grid();
    for (int i = g.thread_rank(); i < n; i += g.size()) tmp[i] = x[i] * 2;
    g.sync();
    for (int i = g.thread_rank(); i < n; i += g.size()) y[i] = tmp[n - 1 - i];
}
// dp4a / int8
extern "C" __global__ void int8_gemv(const int* W, const int* x, int* y, int rows, int k4) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, s = 0;
    for (int c = threadIdx.x; c < k4; c += 32) s = __dp4a(W[(size_t)row * k4 + c], x[c], s);
    s = __reduce_add_sync(~0u, s);
    if (threadIdx.x == 0 && row < rows) y[row] = s;
}
// 2d texture-like bilinear with __ldg and int math mod
extern "C" __global__ void bilinear(const float* in, float* out, int iw, int ih, int ow, int oh) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= ow * oh) return;
    int ox = i % ow, oy = i / ow;
    float fx = (ox + 0.5f) * iw / ow - 0.5f, fy = (oy + 0.5f) * ih / oh - 0.5f;
    int x0 = max((int)floorf(fx), 0), y0 = max((int)floorf(fy), 0), x1 = min(x0 + 1, iw - 1), y1 = min(y0 + 1, ih - 1);
    float ax = fx - x0, ay = fy - y0;
    out[i] = (1 - ay) * ((1 - ax) * __ldg(in + y0 * iw + x0) + ax * __ldg(in + y0 * iw + x1)) + ay * ((1 - ax) * __ldg(in + y1 * iw + x0) + ax * __ldg(in + y1 * iw + x1));
}
