// Kernels as many write them, whose times others published: written anew from what their pages say of them.

#ifndef STEP
#define STEP 0
#endif
#ifndef WIDE
#define WIDE 32
#endif
#ifndef APART
#define APART 0
#endif
#ifndef TREE
#define TREE 1
#endif
#ifndef SHARED
#define SHARED 0
#endif

// A product of square matrices of n numbers a side; STEP says how threads share the work.
extern "C" __global__ void product(float *c, const float *a, const float *b, int n) {
#if STEP < 2
    // one number a thread: the threads of a warp take numbers of a column (0) or of rows that are WIDE (1)
    const int fast = threadIdx.x % WIDE, slow = threadIdx.x / WIDE;
    const int row = blockIdx.y * WIDE + (STEP ? slow : fast), column = blockIdx.x * WIDE + (STEP ? fast : slow);
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
#else
    // a tile of SIDE x SIDE, DEPTH numbers of both factors in shared memory, DOWN x ALONG numbers a thread, whose
    // columns are neighbours or APART
    __shared__ float left[SIDE][DEPTH], right[DEPTH][SIDE];
    constexpr int threads = SIDE * SIDE / (DOWN * ALONG), next = APART ? SIDE / ALONG : 1;
    const int x = threadIdx.x % (SIDE / ALONG) * (APART ? 1 : ALONG), y = threadIdx.x / (SIDE / ALONG) * DOWN;
    const float *first = a + blockIdx.y * SIDE * n, *second = b + blockIdx.x * SIDE;
    float sum[DOWN][ALONG] = {};
    for (int k = 0; k < n; k += DEPTH) {
        for (int j = 0; j < SIDE * DEPTH / threads; j++) {
            const int i = threadIdx.x + j * threads;
            left[i / DEPTH][i % DEPTH] = first[i / DEPTH * n + k + i % DEPTH];
            right[i / SIDE][i % SIDE] = second[(k + i / SIDE) * n + i % SIDE];
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; d++) {
            float factor[DOWN];
            for (int j = 0; j < DOWN; j++) factor[j] = left[y + j][d];
            for (int i = 0; i < ALONG; i++) {
                const float other = right[d][x + i * next];
                for (int j = 0; j < DOWN; j++) sum[j][i] += factor[j] * other;
            }
        }
        __syncthreads();
    }
    float *out = c + blockIdx.y * SIDE * n + blockIdx.x * SIDE;
    for (int j = 0; j < DOWN; j++)
        for (int i = 0; i < ALONG; i++) out[(y + j) * n + x + i * next] = sum[j][i];
#endif
}

extern "C" __global__ void add(float *out, const float *a, const float *b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

// Rows of a table, of as many words as positions are, plus a row for each position.
extern "C" __global__ void embed(float *out, const int *words, const float *table, const float *places, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, token = i / n, column = i % n;
    out[i] = table[words[token] * n + column] + places[token % 1024 * n + column];
}

__device__ float summed(float x) {
    for (int apart = 16; apart; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

// A warp for each row, which it goes over three times.
extern "C" __global__ void layer_norm(float *out, const float *in, const float *weight, const float *bias, int n) {
    const int lane = threadIdx.x % 32;
    const long row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const float *x = in + row * n;
    float sum = 0.0f;
    for (int i = lane; i < n; i += 32) sum += x[i];
    const float mean = summed(sum) / n;
    sum = 0.0f;
    for (int i = lane; i < n; i += 32) sum += (x[i] - mean) * (x[i] - mean);
    const float scale = rsqrtf(summed(sum) / n + 1e-5f);
    for (int i = lane; i < n; i += 32) __stcs(out + row * n + i, (__ldcs(x + i) - mean) * scale * weight[i] + bias[i]);
}

// A warp for each row, which it goes over twice.
extern "C" __global__ void softmax(float *out, const float *in, int n) {
    const int lane = threadIdx.x % 32;
    const long row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    float most = -INFINITY, sum = 0.0f;
    for (int i = lane; i < n; i += 32) {
        const float x = in[row * n + i], higher = fmaxf(most, x);
        sum = sum * expf(most - higher) + expf(x - higher);
        most = higher;
    }
    float top = most;
    for (int apart = 16; apart; apart /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, apart));
    const float scale = 1.0f / summed(sum * expf(most - top));
    for (int i = lane; i < n; i += 32) out[row * n + i] = expf(in[row * n + i] - top) * scale;
}

// Sums of blocks, by a tree whose threads are TREE 1: ever farther apart, 2: the first ones, of words ever farther
// apart, 3 and 4: the first ones, of words in a row; each has one word, or two (4).
extern "C" __global__ void sums(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned kept[512];
    const int me = threadIdx.x, i = blockIdx.x * blockDim.x * (TREE == 4 ? 2 : 1) + me;
    kept[me] = i < n ? in[i] : 0;
    if (TREE == 4) kept[me] += i + blockDim.x < n ? in[i + blockDim.x] : 0;
    __syncthreads();
#if TREE < 3
    for (int step = 1; step < blockDim.x; step *= 2) {
        const int at = TREE == 1 ? me : 2 * step * me;
        if (TREE == 1 ? me % (2 * step) == 0 : at < blockDim.x) kept[at] += at + step < n ? kept[at + step] : 0;
#else
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (me < step) kept[me] += kept[me + step];
#endif
        __syncthreads();
    }
    if (me == 0) out[blockIdx.x] = kept[0];
}

// How often each of 512 words comes, counted in global memory (SHARED 0), or first in shared memory (1).
extern "C" __global__ void counts(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned kept[512];
    for (int i = threadIdx.x; i < 512; i += blockDim.x) kept[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(SHARED ? &kept[in[i]] : &out[in[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; SHARED && i < 512; i += blockDim.x) atomicAdd(&out[i], kept[i]);
}

// A row of numbers times a vector by each thread.
extern "C" __global__ void gemv(unsigned *out, const unsigned *in, const unsigned *vector, int rows, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) sum += in[row * n + i] * vector[i];
    out[row] = sum;
}
