// output[y][x] = sum_ij input[y + i][x + j] filter[i * filter_width + j] in float32: the direct convolution of Kernel Tuner's example,
// written anew with its tunables.
//
// A thread sums tile_size_y x tile_size_x outputs that lie one block apart. With use_shmem the block stages its part of
// the input in shared memory, with use_padding in longer rows, against bank conflicts. With read_only the input is read
// through the read-only path. It has filter_height - 1 rows and filter_width - 1 columns more than the output; tiles
// may hang over the ends of both.
//
// Launch: block (block_size_x, block_size_y), one for each tile.

constexpr int kTileRows = block_size_y * tile_size_y, kTileColumns = block_size_x * tile_size_x;
constexpr int kInputRows = image_height + filter_height - 1, kInputColumns = image_width + filter_width - 1;
constexpr int kHaloRows = kTileRows + filter_height - 1, kHaloColumns = kTileColumns + filter_width - 1;
constexpr int kPadding = use_padding && block_size_x % 32 ? (32 - (kHaloColumns - block_size_x) % 32) % 32 : 0;
constexpr bool kHangsOver = image_height % kTileRows || image_width % kTileColumns;

__constant__ float filter[filter_height * filter_width];

// The pointers are not __restrict__, which would let the compiler take the read-only path by itself. The two spellings
// differ in the machine's code: the sum of a pointer and two products has all of its 64 bits computed.
__device__ __forceinline__ float fetch(const float *input, int y, int x) {
    return read_only ? __ldg(input + y * kInputColumns + x) : input[y * kInputColumns + x];
}

extern "C" __global__ void conv(float *output, const float *input) {
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int y0 = blockIdx.y * kTileRows, x0 = blockIdx.x * kTileColumns;

#if use_shmem
    __shared__ float halo[kHaloRows][kHaloColumns + kPadding];
#pragma unroll
    for (int y = ty; y < kHaloRows; y += block_size_y)
#pragma unroll
        for (int x = tx; x < kHaloColumns; x += block_size_x)
            if (!kHangsOver || (y0 + y < kInputRows && x0 + x < kInputColumns))
                halo[y][x] = fetch(input, y0 + y, x0 + x);
    __syncthreads();
#endif

    float sums[tile_size_y][tile_size_x] = {};
#pragma unroll
    for (int i = 0; i < filter_height; ++i)
#pragma unroll
        for (int j = 0; j < filter_width; ++j)
#pragma unroll
            for (int ti = 0; ti < tile_size_y; ++ti)
#pragma unroll
                for (int tj = 0; tj < tile_size_x; ++tj) {
                    const int y = ty + ti * block_size_y + i, x = tx + tj * block_size_x + j;
#if use_shmem
                    sums[ti][tj] += halo[y][x] * filter[i * filter_width + j];
#else
                    if (!kHangsOver || (y0 + y < kInputRows && x0 + x < kInputColumns))
                        sums[ti][tj] += fetch(input, y0 + y, x0 + x) * filter[i * filter_width + j];
#endif
                }

#pragma unroll
    for (int ti = 0; ti < tile_size_y; ++ti)
#pragma unroll
        for (int tj = 0; tj < tile_size_x; ++tj) {
            const int y = y0 + ty + ti * block_size_y, x = x0 + tx + tj * block_size_x;
            if (!kHangsOver || (y < image_height && x < image_width)) output[y * image_width + x] = sums[ti][tj];
        }
}
