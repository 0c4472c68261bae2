// Latency of L2 and of DRAM: one thread follows a chain of addresses, none of which is known before the last has arrived.
#include "common/carver.cuh"

// A chain through all `slots` (a power of two), `stride` words apart: place i leads to (a i + c) mod slots, which visits
// every place once because a % 4 = 1 and c is odd (Hull and Dobell, 1962).
extern "C" __global__ void carver_chain(unsigned *data, carver::i64 slots, carver::i64 stride) {
    using carver::i64;
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < slots; i += static_cast<i64>(gridDim.x) * blockDim.x)
        data[i * stride] = static_cast<unsigned>(((i * 1664525 + 1013904223) & (slots - 1)) * stride);
}

// Clocks of `hops` loads, after `warm` that are not counted. Volatile loads are served by L2, and stay between the clocks.
extern "C" __global__ void carver_chase(const volatile unsigned *data, int *clocks, carver::i64 warm, carver::i64 hops) {
    unsigned at = 0;
#pragma unroll 1
    for (carver::i64 i = 0; i < warm; ++i) at = data[at];
    const long long began = clock64();
#pragma unroll 1
    for (carver::i64 i = 0; i < hops; ++i) at = data[at];
    clocks[1] = static_cast<int>(at);
    __threadfence();
    clocks[0] = static_cast<int>(clock64() - began);
}
