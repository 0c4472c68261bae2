// A direct convolution and a dedispersion in HIP C++, with the tunables of carver's declared ones. Sizes are macros.
#ifndef tile_stride_x
#define tile_stride_x 1
#define tile_stride_y 1
#endif
#ifdef FILTER_HEIGHT
__constant__ float filter[FILTER_HEIGHT * FILTER_WIDTH];

extern "C" __global__ void convolve(const float *__restrict__ in, float *__restrict__ out) {
    constexpr int rows = block_size_y * tile_size_y + FILTER_HEIGHT - 1, columns = block_size_x * tile_size_x + FILTER_WIDTH - 1;
    constexpr int beside = use_padding && block_size_x % 32 ? (32 - (columns - block_size_x) % 32) % 32 : 0;
    constexpr int pitch = use_shmem ? columns + beside : WIDTH + FILTER_WIDTH - 1;
    const int x = blockIdx.x * block_size_x * tile_size_x, y = blockIdx.y * block_size_y * tile_size_y;
    const float *from = in + y * (WIDTH + FILTER_WIDTH - 1) + x;
#if use_shmem
    __shared__ float held[rows][columns + beside];
    #pragma unroll 1
    for (int j = threadIdx.y; j < rows; j += block_size_y)
        #pragma unroll 1
        for (int i = threadIdx.x; i < columns; i += block_size_x) held[j][i] = from[j * (WIDTH + FILTER_WIDTH - 1) + i];
    __syncthreads();
    const float *tile = &held[0][0];
#else
    const float *tile = from;
#endif
    float sum[tile_size_y][tile_size_x] = {};
    #pragma unroll 1
    for (int v = 0; v < FILTER_HEIGHT; v++)
        #pragma unroll
        for (int u = 0; u < FILTER_WIDTH; u++)
            #pragma unroll
            for (int j = 0; j < tile_size_y; j++)
                #pragma unroll
                for (int i = 0; i < tile_size_x; i++)
                    sum[j][i] += filter[v * FILTER_WIDTH + u] *
                                 tile[(threadIdx.y + j * block_size_y + v) * pitch + threadIdx.x + i * block_size_x + u];
    #pragma unroll
    for (int j = 0; j < tile_size_y; j++)
        #pragma unroll
        for (int i = 0; i < tile_size_x; i++) {
            const int row = y + threadIdx.y + j * block_size_y, column = x + threadIdx.x + i * block_size_x;
            if (row < HEIGHT && column < WIDTH) out[row * WIDTH + column] = sum[j][i];
        }
}
#else
__constant__ float shifts[CHANNELS];

extern "C" __global__ void dedisperse(const unsigned char *__restrict__ in, float *__restrict__ out) {
    constexpr int apart_x = tile_stride_x ? block_size_x : 1, apart_y = tile_stride_y ? block_size_y : 1;
    const int t = blockIdx.x * block_size_x * tile_size_x + threadIdx.x * (tile_stride_x ? 1 : tile_size_x);
    const int d = blockIdx.y * block_size_y * tile_size_y + threadIdx.y * (tile_stride_y ? 1 : tile_size_y);
    int at[tile_size_x];  // loads past the end read the last sample, so that none waits for a branch
    #pragma unroll
    for (int i = 0; i < tile_size_x; i++) at[i] = t + i * apart_x < SAMPLES ? t + i * apart_x : SAMPLES - 1;
    float sum[tile_size_y][tile_size_x] = {};
    #pragma unroll 1
    for (int h = 0; h < CHANNELS; h++)
        #pragma unroll
        for (int j = 0; j < tile_size_y; j++) {
            const int delay = (int)(shifts[h] * (float)(d + j * apart_y));
            #pragma unroll
            for (int i = 0; i < tile_size_x; i++) sum[j][i] += in[h * (SAMPLES + MAX_DELAY) + at[i] + delay];
        }
    #pragma unroll
    for (int j = 0; j < tile_size_y; j++)
        #pragma unroll
        for (int i = 0; i < tile_size_x; i++)
            if (d + j * apart_y < TRIALS && t + i * apart_x < SAMPLES)
                out[(d + j * apart_y) * SAMPLES + t + i * apart_x] = sum[j][i];
}
#endif
