// Three kernels with the tunables that people give such kernels, for benchmarks/strategies.py. Each is compiled
// with its tunables as macros.

#ifdef KERNEL_blur
// A weighted mean of 7 x 7 neighbours; the input has a border of 3 on each side.
__global__ void __launch_bounds__(block_size_x * block_size_y) blur(float *out, const float *in, const float *weights, int width) {
    constexpr int tile_x = block_size_x * across, tile_y = block_size_y * down;
    const int left = blockIdx.x * tile_x, top = blockIdx.y * tile_y;
#if staged
    __shared__ float tile[tile_y + 6][tile_x + 6];
    for (int y = threadIdx.y; y < tile_y + 6; y += block_size_y)
        for (int x = threadIdx.x; x < tile_x + 6; x += block_size_x) tile[y][x] = in[(top + y) * (width + 6) + left + x];
    __syncthreads();
#endif
#pragma unroll
    for (int j = 0; j < down; j++)
#pragma unroll
        for (int i = 0; i < across; i++) {
            // strided: neighbouring threads have neighbouring points
            const int x = strided ? threadIdx.x + i * block_size_x : threadIdx.x * across + i;
            const int y = strided ? threadIdx.y + j * block_size_y : threadIdx.y * down + j;
            float total = 0;
#pragma unroll
            for (int v = 0; v < 7; v++)
#pragma unroll
                for (int u = 0; u < 7; u++)
#if staged
                    total += weights[v * 7 + u] * tile[y + v][x + u];
#else
                    total += weights[v * 7 + u] * in[(top + y + v) * (width + 6) + left + x + u];
#endif
            out[(top + y) * width + left + x] = total;
        }
}
#endif

#ifdef KERNEL_sgemm
// c = a b of square matrices; ahead: the next tile is read into registers while this one is multiplied.
__global__ void __launch_bounds__(block_size_x * block_size_y) sgemm(float *c, const float *a, const float *b, int n) {
    constexpr int rows = block_size_y * tall, cols = block_size_x * wide, threads = block_size_x * block_size_y;
    constexpr int of_a = rows * depth / threads, of_b = depth * cols / threads;
    __shared__ float as[rows][depth + padded], bs[depth][cols];
    const int thread = threadIdx.y * block_size_x + threadIdx.x, row = blockIdx.y * rows, col = blockIdx.x * cols;
    float sum[tall][wide] = {}, next_a[of_a], next_b[of_b];
    auto read = [&](int k) {
#pragma unroll
        for (int i = 0; i < of_a; i++) next_a[i] = a[(row + (thread + i * threads) / depth) * n + k + (thread + i * threads) % depth];
#pragma unroll
        for (int i = 0; i < of_b; i++) next_b[i] = b[(k + (thread + i * threads) / cols) * n + col + (thread + i * threads) % cols];
    };
    if (ahead) read(0);
    for (int k = 0; k < n; k += depth) {
        if (!ahead) read(k);
#pragma unroll
        for (int i = 0; i < of_a; i++) as[(thread + i * threads) / depth][(thread + i * threads) % depth] = next_a[i];
#pragma unroll
        for (int i = 0; i < of_b; i++) bs[(thread + i * threads) / cols][(thread + i * threads) % cols] = next_b[i];
        __syncthreads();
        if (ahead && k + depth < n) read(k + depth);
#pragma unroll
        for (int d = 0; d < depth; d++)
#pragma unroll
            for (int i = 0; i < tall; i++)
#pragma unroll
                for (int j = 0; j < wide; j++) sum[i][j] += as[threadIdx.y + i * block_size_y][d] * bs[d][threadIdx.x + j * block_size_x];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < tall; i++)
#pragma unroll
        for (int j = 0; j < wide; j++) c[(row + threadIdx.y + i * block_size_y) * n + col + threadIdx.x + j * block_size_x] = sum[i][j];
}
#endif

#ifdef KERNEL_bodies
// What each of `count` bodies is pulled by all others; blocks along y take a part of these each, and add theirs.
__global__ void __launch_bounds__(block_size_x) bodies(float *pull, const float4 *body, int count) {
#if staged
    __shared__ float4 tile[block_size_x];
#endif
    constexpr int times = unrolled;
    const int first = blockIdx.x * block_size_x * each + threadIdx.x, share = count / parts, from = blockIdx.y * share;
    float4 own[each];
    float x[each] = {}, y[each] = {}, z[each] = {};
#pragma unroll
    for (int i = 0; i < each; i++) own[i] = body[first + i * block_size_x];
    auto add = [&](const float4 &other) {
#pragma unroll
        for (int i = 0; i < each; i++) {
            const float dx = other.x - own[i].x, dy = other.y - own[i].y, dz = other.z - own[i].z;
            const float near = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), weight = other.w * near * near * near;
            x[i] += dx * weight, y[i] += dy * weight, z[i] += dz * weight;
        }
    };
#if staged
    for (int at = from; at < from + share; at += block_size_x) {
        tile[threadIdx.x] = body[at + threadIdx.x];
        __syncthreads();
#pragma unroll times
        for (int j = 0; j < block_size_x; j++) add(tile[j]);
        __syncthreads();
    }
#else
#pragma unroll times
    for (int at = from; at < from + share; at++) add(body[at]);
#endif
#pragma unroll
    for (int i = 0; i < each; i++) {
        float *mine = pull + 3 * (first + i * block_size_x);
#if parts > 1
        atomicAdd(mine, x[i]), atomicAdd(mine + 1, y[i]), atomicAdd(mine + 2, z[i]);
#else
        mine[0] = x[i], mine[1] = y[i], mine[2] = z[i];
#endif
    }
}
#endif
