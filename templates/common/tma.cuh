// Hopper's copy engine and the barriers that it signals. sm_90a. Like ptx.cuh, little but inline assembly.
#pragma once

#include "common/cluster.cuh"

namespace carver {

// A barrier in shared memory: a phase ends when `count` arrivals and all announced bytes are there.
__device__ __forceinline__ void barrier_init(unsigned barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// Initialised barriers become visible to the copy engine and to the cluster, which has to meet before they are used.
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Arrives at the same barrier of block `rank` of the cluster.
__device__ __forceinline__ void barrier_arrive(unsigned barrier, int rank) {
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}
// Returns when the phase of this parity has ended.
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{.reg .pred ended; mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2; selp.b32 %0, 1, 0, ended;}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}

// What each thread of a warp group may have from here on; all four warps say so.
template <int COUNT> __device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT> __device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }

// How the copy engine reads a dense tensor; the driver encodes it for a parameter of the kernel.
struct __align__(64) TensorMap {
    unsigned char encoded[128];
};
__device__ __forceinline__ void prefetch_map(const TensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Of the block's barriers, the one of this number: THREADS meet there, of which those that only arrive do not wait.
template <int THREADS> __device__ __forceinline__ void meet(int number) { asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }
template <int THREADS> __device__ __forceinline__ void arrive(int number) { asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }

// Starts to copy a box to shared memory; the barrier counts its bytes. BLOCKS above 1: to as many blocks of the cluster, at
// the same place of each, and to the barrier of each.
template <int BLOCKS>
__device__ __forceinline__ void copy_box(unsigned shared, const TensorMap &map, int column, int row, int plane, unsigned barrier) {
    if constexpr (BLOCKS == 1)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
                     "l"(&map), "r"(column), "r"(row), "r"(plane), "r"(barrier)
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
                     "l"(&map), "r"(column), "r"(row), "r"(plane), "r"(barrier), "h"(static_cast<unsigned short>((1 << BLOCKS) - 1))
                     : "memory");
}

}  // namespace carver
