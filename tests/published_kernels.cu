// Kernels as many write them, whose times others published: written anew from what their pages say of them.

#ifndef STEP
#define STEP 0
#endif

// A product of square matrices of n numbers a side; STEP says how threads share the work.
extern "C" __global__ void product(float *c, const float *a, const float *b, int n) {
#if STEP < 2
    // one number a thread: the 32 threads of a warp take numbers of a column (0) or of a row (1)
    const int fast = threadIdx.x % 32, slow = threadIdx.x / 32;
    const int row = blockIdx.y * 32 + (STEP ? slow : fast), column = blockIdx.x * 32 + (STEP ? fast : slow);
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
#else
    // a tile of SIDE x SIDE, DEPTH numbers of both factors in shared memory, DOWN x ALONG numbers a thread
    __shared__ float left[SIDE][DEPTH], right[DEPTH][SIDE];
    constexpr int threads = SIDE * SIDE / (DOWN * ALONG);
    const int x = threadIdx.x % (SIDE / ALONG) * ALONG, y = threadIdx.x / (SIDE / ALONG) * DOWN;
    const float *first = a + blockIdx.y * SIDE * n, *second = b + blockIdx.x * SIDE;
    float sum[DOWN][ALONG] = {};
    for (int k = 0; k < n; k += DEPTH) {
        for (int i = threadIdx.x; i < SIDE * DEPTH; i += threads) {
            left[i / DEPTH][i % DEPTH] = first[i / DEPTH * n + k + i % DEPTH];
            right[i / SIDE][i % SIDE] = second[(k + i / SIDE) * n + i % SIDE];
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; d++) {
            float factor[DOWN];
            for (int j = 0; j < DOWN; j++) factor[j] = left[y + j][d];
            for (int i = 0; i < ALONG; i++) {
                const float other = right[d][x + i];
                for (int j = 0; j < DOWN; j++) sum[j][i] += factor[j] * other;
            }
        }
        __syncthreads();
    }
    float *out = c + blockIdx.y * SIDE * n + blockIdx.x * SIDE;
    for (int j = 0; j < DOWN; j++)
        for (int i = 0; i < ALONG; i++) out[(y + j) * n + x + i] = sum[j][i];
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
