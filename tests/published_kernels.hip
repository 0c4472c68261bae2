// Kernels as pages on HIP describe them, written anew; `published_times.csv` says which page timed which.
#ifndef STEP
#define STEP 0
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef BX
#define BX 256
#endif
#ifndef BZ
#define BZ 1
#endif
#ifndef WAY
#define WAY 0
#endif
#ifndef NUMBER
#define NUMBER double
#endif
#ifndef SIDE
#define SIDE 128
#define THREADS 256
#define PAD 0
#define AHEAD 0
#define UNROLL 8
#endif

// Products of tiles of SIDE x SIDE by 8: a wave has 8 x 4 threads, each of which keeps squares of 4 x 4 of its tile.
__global__ void __launch_bounds__(THREADS) product(float *c, const float *a, const float *b, int n)
{
    constexpr int side = SIDE, depth = 8, waves = THREADS / 32, wide = THREADS == 256 ? 64 : 128;
    constexpr int tall = side * side / waves / wide, across = wide / 32, down = tall / 16;
    constexpr int own = side * depth / THREADS;
    __shared__ float left[depth][side + PAD], right[depth][side];
    const int wave = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int x = wave % (side / wide) * wide + lane % 8 * 4, y = wave / (side / wide) * tall + lane / 8 * 4;
    const int row = threadIdx.x / depth, at = threadIdx.x % depth, k_of = threadIdx.x / side, col = threadIdx.x % side;
    const float *from_a = a + (size_t)(blockIdx.y * side + row) * n + at;
    const float *from_b = b + (size_t)k_of * n + blockIdx.x * side + col;
    float sums[down * 4][across * 4] = {}, next_a[own], next_b[own];
    auto fetch = [&](int k) {
        for (int i = 0; i < own; ++i) next_b[i] = from_b[(size_t)(k + i * (THREADS / side)) * n];
        for (int i = 0; i < own; ++i) next_a[i] = from_a[(size_t)i * (THREADS / depth) * n + k];
    };
    auto keep = [&] {
        for (int i = 0; i < own; ++i) right[k_of + i * (THREADS / side)][col] = next_b[i];
        for (int i = 0; i < own; ++i) left[at][row + i * (THREADS / depth)] = next_a[i];
        __syncthreads();
    };
    if (AHEAD) {
        fetch(0);
        keep();
    }
    for (int k = 0; k < n; k += depth) {
        if (!AHEAD) {
            fetch(k);
            keep();
        } else if (k + depth < n)
            fetch(k + depth);
#pragma unroll UNROLL
        for (int j = 0; j < depth; ++j) {
            float of_a[down * 4], of_b[across * 4];
            for (int i = 0; i < across * 4; ++i) of_b[i] = right[j][x + i / 4 * 32 + i % 4];
            for (int i = 0; i < down * 4; ++i) of_a[i] = left[j][y + i / 4 * 16 + i % 4];
            for (int i = 0; i < down * 4; ++i)
                for (int l = 0; l < across * 4; ++l) sums[i][l] += of_a[i] * of_b[l];
        }
        __syncthreads();
        if (AHEAD && k + depth < n) keep();
    }
    for (int i = 0; i < down * 4; ++i)
        for (int l = 0; l < across * 4; ++l)
            c[(size_t)(blockIdx.y * side + y + i / 4 * 16 + i % 4) * n + blockIdx.x * side + x + l / 4 * 32 + l % 4] = sums[i][l];
}

// Seven points of a cube of N numbers a side; a thread has ROWS along y, and reads from low addresses to high ones. STEP
// 5 does not keep what it stores in caches, 6 has blocks side by side along z before x as well.
__global__ void __launch_bounds__(BX * BZ) laplacian(double *f, const double *u, int n, double x2, double y2, double z2, double own)
{
    const int bx = STEP == 6 ? blockIdx.z : blockIdx.x, by = STEP == 6 ? blockIdx.x : blockIdx.y;
    const int bz = STEP == 6 ? blockIdx.y : blockIdx.z;
    const int i = bx * BX + threadIdx.x, j = by * ROWS, k = bz * BZ + threadIdx.z;
    if (i == 0 || i >= n - 1 || k == 0 || k >= n - 1) return;
    const int plane = n * n;
    const size_t at = i + (size_t)n * j + (size_t)plane * k;
    double sum[ROWS] = {};
    for (int r = 0; r < ROWS; ++r) sum[r] += u[at - plane + r * n] * z2;
    sum[0] += j > 0 ? u[at - n] * y2 : 0.0;
    for (int r = 0; r < ROWS; ++r) {
        const double here = u[at + r * n];
        sum[r] += u[at - 1 + r * n] * x2 + here * own;
        sum[r] += u[at + 1 + r * n] * x2;
        if (r > 0) sum[r - 1] += here * y2;
        if (r < ROWS - 1) sum[r + 1] += here * y2;
    }
    sum[ROWS - 1] += j < n - ROWS ? u[at + ROWS * n] * y2 : 0.0;
    for (int r = 0; r < ROWS; ++r) sum[r] += u[at + plane + r * n] * z2;
    for (int r = 0; r < ROWS; ++r)
        if (r + j > 0 && r + j < n - 1) {
            if (STEP >= 5) __builtin_nontemporal_store(sum[r], &f[at + r * n]);
            else f[at + r * n] = sum[r];
        }
}

// Squares of 32 x 32 numbers turned by as many threads, which read rows and write columns (WAY 0), the other way (1), or
// turn them in LDS (2); 3 copies.
__global__ void __launch_bounds__(1024) turn(NUMBER *out, const NUMBER *in, int n)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    const size_t rows = (size_t)y * n + x, columns = (size_t)x * n + y;
#if WAY == 2
    __shared__ NUMBER tile[32][32 + (sizeof(NUMBER) == 8)];
    tile[threadIdx.y][threadIdx.x] = in[rows];
    __syncthreads();
    out[(size_t)(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
#else
    out[WAY == 0 ? columns : rows] = in[WAY == 1 ? columns : rows];
#endif
}

// y A x: a thread has a row of A that lies along memory (WAY 0) or across (1), or a wave has one (2).
__global__ void __launch_bounds__(64) form(double *sum, const double *a, const double *x, const double *y, int n)
{
#if WAY < 2
    double all = 0;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) {
        double row = 0;
        for (int j = 0; j < n; ++j) row += a[WAY == 0 ? (size_t)i * n + j : (size_t)j * n + i] * x[j];
        all += y[i] * row;
    }
    unsafeAtomicAdd(sum, all);
#else
    __shared__ double row;
    double own = 0;
    const int i = blockIdx.x * 64;
    if (threadIdx.x == 0) row = 0;
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += 64) own += a[(size_t)i * n + j] * x[j];
    unsafeAtomicAdd(&row, own);
    __syncthreads();
    if (threadIdx.x == 0) unsafeAtomicAdd(sum, row * y[i]);
#endif
}
