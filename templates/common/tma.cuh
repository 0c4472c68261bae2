// Hopper's copy engine and the barriers that it signals. sm_90a. Like ptx.cuh, little but inline assembly.
#pragma once

#include "common/carver.cuh"

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

__device__ __forceinline__ int cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// What each thread of a warp group may have from here on; all four warps say so.
template <int COUNT> __device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT> __device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }

constexpr int kMapBytes = 128;

// A dense tensor of three axes, the first contiguous, as the copy engine reads it: in boxes of `box_columns` x `box_rows`
// elements, rows of a box SWIZZLE_BYTES long with their 16-byte chunks exchanged. What lies outside becomes zero. A warp
// builds the map in shared memory and leaves it in global memory, where the engine looks for it.
// Source: PTX ISA 9.0, tensormap.replace and its table of element types.
template <int ELEMENT_TYPE, int SWIZZLE_BYTES>
__device__ __forceinline__ void make_map(void *map, unsigned scratch, const void *base, i64 columns, i64 rows, i64 planes, i64 row_bytes,
                                         int box_columns, int box_rows) {
    const int lane = threadIdx.x % 32;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(scratch + 4 * lane), "r"(0) : "memory");
    __syncwarp();
    if (lane == 0) {
        const i64 at = scratch;
#define CARVER_MAP(FIELD, BITS, AXIS, CONSTRAINT, VALUE) \
    asm volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024." BITS " [%0], " AXIS "%1;" ::"l"(at), CONSTRAINT(VALUE) : "memory");
        CARVER_MAP("global_address", "b64", "", "l", base)
        CARVER_MAP("rank", "b32", "", "n", 2)  // less one
        CARVER_MAP("box_dim", "b32", "0, ", "r", box_columns)
        CARVER_MAP("box_dim", "b32", "1, ", "r", box_rows)
        CARVER_MAP("box_dim", "b32", "2, ", "r", 1)
        CARVER_MAP("global_dim", "b32", "0, ", "r", static_cast<unsigned>(columns))
        CARVER_MAP("global_dim", "b32", "1, ", "r", static_cast<unsigned>(rows))
        CARVER_MAP("global_dim", "b32", "2, ", "r", static_cast<unsigned>(planes))
        CARVER_MAP("global_stride", "b64", "0, ", "l", row_bytes)
        CARVER_MAP("global_stride", "b64", "1, ", "l", row_bytes * rows)
        CARVER_MAP("element_stride", "b32", "0, ", "r", 1)
        CARVER_MAP("element_stride", "b32", "1, ", "r", 1)
        CARVER_MAP("element_stride", "b32", "2, ", "r", 1)
        CARVER_MAP("elemtype", "b32", "", "n", ELEMENT_TYPE)
        CARVER_MAP("interleave_layout", "b32", "", "n", 0)
        CARVER_MAP("swizzle_mode", "b32", "", "n", (SWIZZLE_BYTES == 128 ? 3 : 2))
        CARVER_MAP("fill_mode", "b32", "", "n", 0)
#undef CARVER_MAP
    }
    __syncwarp();
    const i64 from = scratch;
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(map), "l"(from)
                 : "memory");
}
// Before the first use of a map by the warp that copies.
__device__ __forceinline__ void map_ready(const void *map) { asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory"); }

// Of the block's barriers, the one of this number: THREADS meet there, of which those that only arrive do not wait.
template <int THREADS> __device__ __forceinline__ void meet(int number) { asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }
template <int THREADS> __device__ __forceinline__ void arrive(int number) { asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(THREADS) : "memory"); }

// Starts to copy a box to shared memory; the barrier counts its bytes. BLOCKS above 1: to as many blocks of the cluster, at
// the same place of each, and to the barrier of each.
template <int BLOCKS>
__device__ __forceinline__ void copy_box(unsigned shared, const void *map, int column, int row, int plane, unsigned barrier) {
    if constexpr (BLOCKS == 1)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
                     "l"(map), "r"(column), "r"(row), "r"(plane), "r"(barrier)
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
                     "l"(map), "r"(column), "r"(row), "r"(plane), "r"(barrier), "h"(static_cast<unsigned short>((1 << BLOCKS) - 1))
                     : "memory");
}

}  // namespace carver
