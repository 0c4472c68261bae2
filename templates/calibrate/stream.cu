// Bandwidth of DRAM and of L2, against the bytes that are asked for at a time.
//
// A thread asks for UNROLL vectors of 16 bytes, uses them, and asks for the next ones, so that a launch of T threads keeps
// at most 16 * UNROLL * T bytes in flight. Loads go past L1. With WRITE = 1 what is read is written to `to` as well. Groups
// of `sharers` blocks, `apart` from each other, read the same at about the same time.
#ifndef UNROLL
#define UNROLL 4
#endif
#ifndef WRITE
#define WRITE 0
#endif

#include "common/carver.cuh"

extern "C" __global__ void __launch_bounds__(1024)
carver_stream(const uint4 *__restrict__ data, uint4 *__restrict__ to, carver::i64 vectors, carver::i64 rounds,
              carver::i64 sharers, carver::i64 apart) {
    using carver::i64;
    const i64 lanes = carver::ceil_div<i64>(gridDim.x, sharers * apart) * apart * blockDim.x;
    const i64 first = (blockIdx.x / (sharers * apart) * apart + blockIdx.x % apart) * blockDim.x + threadIdx.x;
    const unsigned size = vectors, ahead = lanes % vectors;
    unsigned at = first % vectors, sum = 0;
#pragma unroll 1
    for (i64 round = 0; round < rounds; ++round) {
        unsigned where[UNROLL];
        uint4 read[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            where[i] = at;
            read[i] = __ldcg(data + at);
            at += ahead;  // round the end: every thread of every size reads as much
            if (at >= size) at -= size;
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (WRITE)
                to[where[i]] = read[i];
            else
                sum ^= read[i].x ^ read[i].y ^ read[i].z ^ read[i].w;
        }
    }
    if (!WRITE && sum == 0x9e3779b9u) to[0] = make_uint4(sum, 0, 0, 0);  // never, but the compiler cannot know
}
