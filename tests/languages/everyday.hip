// Everyday kernels in HIP, whose passes and bytes `test_everyday_hip.py` counts by hand.
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>

// vector add, grid stride
extern "C" __global__ void vadd(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)blockDim.x * gridDim.x) c[i] = a[i] + b[i];
}
// of float4
extern "C" __global__ void __launch_bounds__(256) vadd4(const float4* a, const float4* b, float4* c, int n4) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) { float4 x = a[i], y = b[i]; c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); }
}
// transposition through LDS
template <int TILE, int ROWS, typename T>
__device__ void transpose_(const T* in, T* out, int width, int height) {
    __shared__ T tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < TILE; j += ROWS) if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x; y = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < TILE; j += ROWS) if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
extern "C" __global__ void transpose(const float* in, float* out, int w, int h) { transpose_<32, 8>(in, out, w, h); }
extern "C" __global__ void transpose_half(const half* in, half* out, int w, int h) { transpose_<64, 4>(in, out, w, h); }
// reduction by shuffles
__device__ float warp_sum(float v) {
    for (int offset = warpSize / 2; offset > 0; offset >>= 1) v += __shfl_down(v, offset);
    return v;
}
extern "C" __global__ void reduce(const float* x, float* out, int n) {
    __shared__ float partial[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += x[i];
    sum = warp_sum(sum);
    int lane = threadIdx.x % warpSize, wave = threadIdx.x / warpSize;
    if (lane == 0) partial[wave] = sum;
    __syncthreads();
    sum = threadIdx.x < blockDim.x / warpSize ? partial[lane] : 0;
    if (wave == 0) sum = warp_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}
// softmax rows
extern "C" __global__ void softmax(const float* x, float* y, int cols) {
    __shared__ float held[64];
    const float* row = x + (size_t)blockIdx.x * cols;
    float m = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, row[c]);
    for (int o = warpSize / 2; o; o >>= 1) m = fmaxf(m, __shfl_xor(m, o));
    if (threadIdx.x % warpSize == 0) held[threadIdx.x / warpSize] = m;
    __syncthreads();
    for (int w = 0; w < blockDim.x / warpSize; w++) m = fmaxf(m, held[w]);
    float s = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += __expf(row[c] - m);
    for (int o = warpSize / 2; o; o >>= 1) s += __shfl_xor(s, o);
    __syncthreads();
    if (threadIdx.x % warpSize == 0) held[threadIdx.x / warpSize] = s;
    __syncthreads();
    s = 0;
    for (int w = 0; w < blockDim.x / warpSize; w++) s += held[w];
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(size_t)blockIdx.x * cols + c] = __expf(row[c] - m) / s;
}
// histogram with LDS atomics
extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, int n) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += blockDim.x * gridDim.x) {
        unsigned four = ((const unsigned*)x)[i];
        atomicAdd(&local[four & 255], 1); atomicAdd(&local[four >> 8 & 255], 1);
        atomicAdd(&local[four >> 16 & 255], 1); atomicAdd(&local[four >> 24], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) if (local[i]) atomicAdd(&bins[i], local[i]);
}
// stencil, 3d, marching z
extern "C" __global__ void stencil(const float* in, float* out, int nx, int ny, int nz) {
    __shared__ float plane[10][34];
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    size_t at = (size_t)j * nx + i, step = (size_t)nx * ny;
    bool inside = i > 0 && i < nx - 1 && j > 0 && j < ny - 1;
    float below = 0, here = i < nx && j < ny ? in[at] : 0, above = i < nx && j < ny ? in[at + step] : 0;
    for (int k = 1; k < nz - 1; k++) {
        at += step;
        below = here; here = above; above = i < nx && j < ny ? in[at + step] : 0;
        __syncthreads();
        plane[ty][tx] = here;
        if (threadIdx.x == 0 && i > 0) plane[ty][0] = in[at - 1];
        if (threadIdx.x == 31 && i < nx - 1) plane[ty][33] = in[at + 1];
        if (threadIdx.y == 0 && j > 0) plane[0][tx] = in[at - nx];
        if (threadIdx.y == 7 && j < ny - 1) plane[9][tx] = in[at + nx];
        __syncthreads();
        if (inside) out[at] = 0.1f * (plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] + plane[ty + 1][tx] + below + above) + 0.4f * here;
    }
}
// scan (Hillis Steele in LDS)
extern "C" __global__ void scan(const int* x, int* y, int n) {
    extern __shared__ int temp[];
    int t = threadIdx.x, base = blockIdx.x * blockDim.x;
    temp[t] = base + t < n ? x[base + t] : 0;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        int v = t >= d ? temp[t - d] : 0;
        __syncthreads();
        temp[t] += v;
        __syncthreads();
    }
    if (base + t < n) y[base + t] = temp[t];
}
// csr spmv, wave per row
extern "C" __global__ void spmv(const int* rows, const int* cols, const float* vals, const float* x, float* y, int m) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, lane = threadIdx.x % warpSize;
    if (row >= m) return;
    float s = 0;
    for (int j = rows[row] + lane; j < rows[row + 1]; j += warpSize) s += vals[j] * x[cols[j]];
    s = warp_sum(s);
    if (lane == 0) y[row] = s;
}
// nbody
extern "C" __global__ void nbody(const float4* pos, float4* acc, int n) {
    __shared__ float4 tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float4 p = pos[i]; float ax = 0, ay = 0, az = 0;
    for (int t = 0; t < n / 256; t++) {
        tile[threadIdx.x] = pos[t * 256 + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 256; k++) {
            float dx = tile[k].x - p.x, dy = tile[k].y - p.y, dz = tile[k].z - p.z;
            float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-9f);
            float w = tile[k].w * inv * inv * inv;
            ax += w * dx; ay += w * dy; az += w * dz;
        }
        __syncthreads();
    }
    acc[i] = make_float4(ax, ay, az, 0);
}
// tiled SGEMM
template <int BM, int BN, int BK, int TM, int TN>
__device__ void sgemm_(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BK][BM], Bs[BK][BN];
    const int tid = threadIdx.x, tx = tid % (BN / TN), ty = tid / (BN / TN);
    constexpr int threads = BM / TM * BN / TN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = tid; e < BM * BK / 4; e += threads) {
            int r = e / (BK / 4), c = e % (BK / 4) * 4;
            float4 v = *(const float4*)&A[(blockIdx.y * BM + r) * K + k0 + c];
            As[c][r] = v.x; As[c + 1][r] = v.y; As[c + 2][r] = v.z; As[c + 3][r] = v.w;
        }
        for (int e = tid; e < BN * BK / 4; e += threads) {
            int r = e / (BN / 4), c = e % (BN / 4) * 4;
            *(float4*)&Bs[r][c] = *(const float4*)&B[(k0 + r) * N + blockIdx.x * BN + c];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; i++) a[i] = As[k][ty * TM + i];
            for (int j = 0; j < TN; j++) b[j] = Bs[k][tx * TN + j];
            for (int i = 0; i < TM; i++) for (int j = 0; j < TN; j++) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++) for (int j = 0; j < TN; j += 4)
        *(float4*)&C[(blockIdx.y * BM + ty * TM + i) * N + blockIdx.x * BN + tx * TN + j] = make_float4(acc[i][j], acc[i][j+1], acc[i][j+2], acc[i][j+3]);
}
extern "C" __global__ void __launch_bounds__(256) sgemm(const float* A, const float* B, float* C, int M, int N, int K) { sgemm_<64, 64, 16, 4, 4>(A, B, C, M, N, K); }
extern "C" __global__ void __launch_bounds__(256) sgemm8(const float* A, const float* B, float* C, int M, int N, int K) { sgemm_<128, 128, 8, 8, 8>(A, B, C, M, N, K); }
// GEMM by matrix cores: 4 waves in 2x2, each 32x32 (2x2 of 16x16)
typedef _Float16 half4_t __attribute__((ext_vector_type(4)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef float floatx4 __attribute__((ext_vector_type(4)));
typedef float floatx8 __attribute__((ext_vector_type(8)));
extern "C" __global__ void hgemm(const _Float16* A, const _Float16* B, float* C, int M, int N, int K) {
    constexpr int BM = 64, BN = 64, BK = 32;
    __shared__ _Float16 As[BM][BK + 8], Bs[BN][BK + 8];  // B is N x K
#if defined(__gfx90a__) || defined(__gfx942__)
    constexpr int wave_size = 64;
#else
    constexpr int wave_size = 32;
#endif
    int wave = threadIdx.x / wave_size, lane = threadIdx.x % wave_size, wm = wave / 2 * 32, wn = wave % 2 * 32;
#if defined(__gfx90a__) || defined(__gfx942__)
    floatx4 acc[2][2] = {};
#else
    floatx8 acc[2][2] = {};
#endif
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = threadIdx.x; e < BM * BK / 8; e += blockDim.x) {
            int r = e / (BK / 8), c = e % (BK / 8) * 8;
            *(half8*)&As[r][c] = *(const half8*)&A[(size_t)(blockIdx.y * BM + r) * K + k0 + c];
            *(half8*)&Bs[r][c] = *(const half8*)&B[(size_t)(blockIdx.x * BN + r) * K + k0 + c];
        }
        __syncthreads();
        for (int k = 0; k < BK; k += 16) {
#if defined(__gfx90a__) || defined(__gfx942__)
            half4_t a[2], b[2];
            for (int i = 0; i < 2; i++) {
                a[i] = *(half4_t*)&As[wm + i * 16 + lane % 16][k + lane / 16 * 4];
                b[i] = *(half4_t*)&Bs[wn + i * 16 + lane % 16][k + lane / 16 * 4];
            }
            for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) acc[i][j] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[i], b[j], acc[i][j], 0, 0, 0);
#elif defined(__gfx1100__) || defined(__gfx1151__)
            half16 a[2], b[2];
            for (int i = 0; i < 2; i++) {
                for (int e = 0; e < 16; e++) { a[i][e] = As[wm + i * 16 + lane % 16][k + e]; b[i][e] = Bs[wn + i * 16 + lane % 16][k + e]; }
            }
            for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) acc[i][j] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a[i], b[j], acc[i][j]);
#else
            half8 a[2], b[2];
            for (int i = 0; i < 2; i++) {
                a[i] = *(half8*)&As[wm + i * 16 + lane % 16][k + lane / 16 * 8];
                b[i] = *(half8*)&Bs[wn + i * 16 + lane % 16][k + lane / 16 * 8];
            }
            for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) acc[i][j] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a[i], b[j], acc[i][j]);
#endif
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) {
#if defined(__gfx90a__) || defined(__gfx942__)
        for (int e = 0; e < 4; e++) C[(size_t)(blockIdx.y * BM + wm + i * 16 + lane / 16 * 4 + e) * N + blockIdx.x * BN + wn + j * 16 + lane % 16] = acc[i][j][e];
#else
        for (int e = 0; e < 8; e++) C[(size_t)(blockIdx.y * BM + wm + i * 16 + e * 2 + lane / 16) * N + blockIdx.x * BN + wn + j * 16 + lane % 16] = acc[i][j][e];
#endif
    }
}
// dot by half2, switch on a mode
extern "C" __global__ void activate(const float* x, float* y, int n, int mode) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    switch (mode) {
        case 0: v = fmaxf(v, 0.f); break;
        case 1: v = 1.f / (1.f + __expf(-v)); break;
        case 2: v = tanhf(v); break;
        case 3: v = v / (1.f + __expf(-v)); break;
        default: v = v * 2.f; break;
    }
    y[i] = v;
}
// stream compaction by ballots
extern "C" __global__ void compact(const int* x, int* y, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && x[i] > 0;
    unsigned long long mask = __ballot(keep);
    int lane = __lane_id(), before = __popcll(mask & ((1ull << lane) - 1)), base = 0;
    if (lane == 0 && mask) base = atomicAdd(count, __popcll(mask));
    base = __shfl(base, 0);
    if (keep) y[base + before] = x[i];
}
// constant memory convolution
__constant__ float filter[17 * 17];
extern "C" __global__ void conv(const float* in, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w - 16 || y >= h - 16) return;
    float s = 0;
    for (int i = 0; i < 17; i++) for (int j = 0; j < 17; j++) s += in[(y + i) * w + x + j] * filter[i * 17 + j];
    out[y * (w - 16) + x] = s;
}
// layer norm, half input, vectors of 8 bytes
extern "C" __global__ void layernorm(const half* x, const float* g, const float* b, half* y, int cols, float eps) {
    __shared__ float s1[16], s2[16];
    const half* row = x + (size_t)blockIdx.x * cols;
    float s = 0, q = 0;
    for (int c = threadIdx.x * 4; c < cols; c += blockDim.x * 4) {
        half4_t v = *(const half4_t*)(row + c);
        for (int k = 0; k < 4; k++) { float f = (float)v[k]; s += f; q += f * f; }
    }
    for (int o = warpSize / 2; o; o >>= 1) { s += __shfl_xor(s, o); q += __shfl_xor(q, o); }
    if (threadIdx.x % warpSize == 0) { s1[threadIdx.x / warpSize] = s; s2[threadIdx.x / warpSize] = q; }
    __syncthreads();
    s = q = 0;
    for (int w = 0; w < (int)blockDim.x / warpSize; w++) { s += s1[w]; q += s2[w]; }
    float mean = s / cols, inv = rsqrtf(q / cols - mean * mean + eps);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(size_t)blockIdx.x * cols + c] = (half)((((float)row[c]) - mean) * inv * g[c] + b[c]);
}
// persistent blocks that take tiles from a counter, by LDS
extern "C" __global__ void persistent(const float* x, float* y, int* next, int tiles) {
    __shared__ int tile;
    for (;;) {
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        int t = tile;
        __syncthreads();
        if (t >= tiles) return;
        for (int k = 0; k < 8; k++) y[((size_t)t * 8 + k) * 256 + threadIdx.x] = 2 * x[((size_t)t * 8 + k) * 256 + threadIdx.x];
    }
}
// a table of offsets in LDS
extern "C" __global__ void taps(const float* x, float* y, int width, int n, int taps) {
    __shared__ int off[64];
    if ((int)threadIdx.x < taps) off[threadIdx.x] = (threadIdx.x / 3) * width + threadIdx.x % 3;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int t = 0; t < taps; t++) s += i < n ? x[i + off[t]] : 0;
    if (i < n) y[i] = s;
}
// 2d block tiles, grid.z batches, switch by blockIdx.y
extern "C" __global__ void multi(const float* a, float* b, float* c, float* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    switch (blockIdx.y) {
        case 0: b[i] = a[i] + 1; break;
        case 1: c[i] = a[i] * 3; break;
        case 2: d[i] = a[i] - a[n + i]; break;
        case 3: d[n + i] = a[2 * n + i] * a[i]; break;
        case 4: c[n + i] = sqrtf(a[3 * n + i]); break;
        default: b[n + i] = a[i] / a[n + i]; break;
    }
}
// triangular index by square root of the block
extern "C" __global__ void triangular(const float* x, float* y, int tiles) {
    int b = blockIdx.x, row = (int)((sqrtf(8.f * b + 1.f) - 1.f) / 2.f), col = b - row * (row + 1) / 2;
    float s = 0;
    for (int k = 0; k <= row; k++) s += x[(row * tiles + k) * 64 + threadIdx.x] * x[(col * tiles + k) * 64 + threadIdx.x];
    y[(row * tiles + col) * 64 + threadIdx.x] = s;
}
// grouped: uint64 hash, modulo by a size
extern "C" __global__ void modulo(const float* x, float* y, int n, int c, int h, int w) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int ww = i % w, hh = i / w % h, cc = i / (w * h) % c, nn = i / (w * h * c);
        y[((nn * h + hh) * w + ww) * c + cc] = x[i];
    }
}
// sums of tiles up to each, which wait for the one before
extern "C" __global__ void one_by_one(const float* x, float* y, volatile int* flag, volatile float* sum) {
    float before = 0.0f, own = x[blockIdx.x * 256 + threadIdx.x];
    if (threadIdx.x == 0) {
        if (blockIdx.x % 64 > 0) {
            while (flag[blockIdx.x - 1] == 0) {}
            before = sum[blockIdx.x - 1];
        }
        sum[blockIdx.x] = before + own;
        __threadfence();
        flag[blockIdx.x] = 1;
    }
    y[blockIdx.x * 256 + threadIdx.x] = own + before;
}
