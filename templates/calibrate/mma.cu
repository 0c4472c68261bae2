// Clocks that a block takes for 8 independent mma.sync a warp and round.
// KIND as in carver.cuh: 0 float64, 2 tf32, 3 float16, 4 bfloat16, 5 and 6 float8, 7 int8. HALF_SUMS = 1: float16 sums of float16.
#ifndef KIND
#define KIND 3
#endif
#ifndef HALF_SUMS
#define HALF_SUMS 0
#endif

#include "common/carver.cuh"

namespace carver {

constexpr int kTiles = 8;

template <int DTYPE, bool HALF> struct Tile;
#define CARVER_TILE(DTYPE, HALF, SUM, COUNT, CALL)                                                                     \
    template <> struct Tile<DTYPE, HALF> {                                                                             \
        SUM sums[COUNT] = {};                                                                                          \
        __device__ __forceinline__ void step(const unsigned(&a)[4], const unsigned(&b)[2]) { CALL(sums, a, b); }       \
    };
CARVER_TILE(CARVER_F64, false, double, 4, mma_f64)
CARVER_TILE(CARVER_TF32, false, float, 4, mma_tf32)
CARVER_TILE(CARVER_F16, false, float, 4, mma_f16)
CARVER_TILE(CARVER_F16, true, unsigned, 2, mma_f16_half)
CARVER_TILE(CARVER_BF16, false, float, 4, mma_bf16)
CARVER_TILE(CARVER_F8E4M3, false, float, 4, mma_e4m3_e4m3)
CARVER_TILE(CARVER_F8E5M2, false, float, 4, mma_e5m2_e5m2)
CARVER_TILE(CARVER_I8, false, int, 4, mma_i8)
#undef CARVER_TILE

}  // namespace carver

extern "C" __global__ void __launch_bounds__(512) carver_mma(int *clocks, float *out, carver::i64 rounds) {
    using namespace carver;
    Tile<KIND, HALF_SUMS> tiles[kTiles];
    // halves between 1 and 2, so that sums stay finite for a while and bits change
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = 0x3c003c00u | (threadIdx.x * 2654435761u >> (4 + i)) & 0x03ff03ffu;
    for (int i = 0; i < 2; ++i) b[i] = a[i] ^ 0x02550255u;
    __syncthreads();
    const long long began = clock64();
#pragma unroll 1
    for (int round = 0; round < static_cast<int>(rounds); ++round) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) tiles[i].step(a, b);
    }
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = static_cast<int>(clock64() - began);
    float total = 0;
    for (int i = 0; i < kTiles; ++i) total += static_cast<float>(tiles[i].sums[0] + tiles[i].sums[1]);
    if (total == 12345.f) *out = total;
}
