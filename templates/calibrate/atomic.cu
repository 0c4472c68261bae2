// Additions to float32 sums in global memory: each thread to places of its own (`slots` of them in all, a power of two), by
// the instruction or by compare-and-swap; with slots = 1 all to the same place.
#include "common/carver.cuh"

extern "C" __global__ void __launch_bounds__(256) carver_add(float *sums, carver::i64 slots, carver::i64 rounds) {
    const carver::i64 lanes = static_cast<carver::i64>(gridDim.x) * blockDim.x;
    carver::i64 at = static_cast<carver::i64>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (carver::i64 i = 0; i < rounds; ++i, at += lanes) atomicAdd(sums + (at & (slots - 1)), 1.f);
}

extern "C" __global__ void __launch_bounds__(256) carver_swap(unsigned *sums, carver::i64 slots, carver::i64 rounds) {
    const carver::i64 lanes = static_cast<carver::i64>(gridDim.x) * blockDim.x;
    carver::i64 at = static_cast<carver::i64>(blockIdx.x) * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (carver::i64 i = 0; i < rounds; ++i, at += lanes) {
        unsigned *place = sums + (at & (slots - 1)), seen = *place, before;
        do {
            before = seen;
            seen = atomicCAS(place, before, __float_as_uint(__uint_as_float(before) + 1.f));
        } while (seen != before);
    }
}
