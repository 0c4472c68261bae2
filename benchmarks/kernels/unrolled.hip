// A direct convolution, all taps unrolled, and a dedispersion that sums one output at a time. Sizes are macros.
#ifdef FILTER_HEIGHT
__constant__ float filter[FILTER_HEIGHT * FILTER_WIDTH];

extern "C" __global__ void convolve(float *out, const float *in) {
    constexpr int rows = block_size_y * tile_size_y + FILTER_HEIGHT - 1, columns = block_size_x * tile_size_x + FILTER_WIDTH - 1;
    constexpr int beside = use_padding && block_size_x % 32 ? (32 - (columns - block_size_x) % 32) % 32 : 0;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * block_size_x * tile_size_x, y = blockIdx.y * block_size_y * tile_size_y;
    constexpr int pitch = WIDTH + FILTER_WIDTH - 1;
#if use_shmem
    __shared__ float held[rows][columns + beside];
    #pragma unroll
    for (int j = ty; j < rows; j += block_size_y)
        #pragma unroll
        for (int i = tx; i < columns; i += block_size_x) held[j][i] = in[(y + j) * pitch + x + i];
    __syncthreads();
#endif
    float sum[tile_size_y][tile_size_x];
    #pragma unroll
    for (int j = 0; j < tile_size_y; j++)
        #pragma unroll
        for (int i = 0; i < tile_size_x; i++) sum[j][i] = 0.0f;
    #pragma unroll
    for (int v = 0; v < FILTER_HEIGHT; v++)
        #pragma unroll
        for (int u = 0; u < FILTER_WIDTH; u++)
            #pragma unroll
            for (int j = 0; j < tile_size_y; j++)
                #pragma unroll
                for (int i = 0; i < tile_size_x; i++)
#if use_shmem
                    sum[j][i] += held[ty + j * block_size_y + v][tx + i * block_size_x + u] * filter[v * FILTER_WIDTH + u];
#else
                    sum[j][i] += in[(y + ty + j * block_size_y + v) * pitch + x + tx + i * block_size_x + u] * filter[v * FILTER_WIDTH + u];
#endif
    #pragma unroll
    for (int j = 0; j < tile_size_y; j++)
        #pragma unroll
        for (int i = 0; i < tile_size_x; i++)
            out[(y + ty + j * block_size_y) * WIDTH + x + tx + i * block_size_x] = sum[j][i];
}
#else
extern "C" __global__ void dedisperse(const unsigned char *in, float *out, const float *shifts) {
    const int x = blockIdx.x * block_size_x * tile_size_x + threadIdx.x * (tile_stride_x ? 1 : tile_size_x);
    const int y = blockIdx.y * block_size_y * tile_size_y + threadIdx.y * (tile_stride_y ? 1 : tile_size_y);
    for (int i = 0; i < tile_size_x; i++) {
        const int sample = x + i * (tile_stride_x ? block_size_x : 1);
        if (sample < SAMPLES)
            for (int j = 0; j < tile_size_y; j++) {
                const int trial = y + j * (tile_stride_y ? block_size_y : 1);
                if (trial < TRIALS) {
                    float sum = 0.0f;
                    for (int h = 0; h < CHANNELS; h++) {
                        unsigned int delay = (0.0f + trial * 0.02f) * shifts[h];
                        sum += in[h * (SAMPLES + MAX_DELAY) + sample + delay];
                    }
                    out[trial * SAMPLES + sample] = sum;
                }
            }
    }
}
#endif
