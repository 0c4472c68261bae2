// Blocks of a cluster, which read each other's shared memory. Compute capability 9.0 and later.
#pragma once

#include "common/carver.cuh"

#define CARVER_CLUSTER_1
#define CARVER_CLUSTER_2 __cluster_dims__(2, 1, 1)
#define CARVER_CLUSTER_4 __cluster_dims__(4, 1, 1)
#define CARVER_CLUSTER_8 __cluster_dims__(8, 1, 1)
#define CARVER_CLUSTER_(blocks) CARVER_CLUSTER_##blocks
#define CARVER_CLUSTER(blocks) CARVER_CLUSTER_(blocks)

namespace carver {

__device__ __forceinline__ int cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The word, or the two words, that block `rank` has at this place of its shared memory.
template <typename T> __device__ __forceinline__ T load_cluster(const T *place, int rank) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "one word or two");
    T value;
    if constexpr (sizeof(T) == 4)
        asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %1, %2; ld.shared::cluster.b32 %0, [there];}"
                     : "=r"(reinterpret_cast<unsigned &>(value))
                     : "r"(shared_address(place)), "r"(rank));
    else
        asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %1, %2; ld.shared::cluster.b64 %0, [there];}"
                     : "=l"(reinterpret_cast<unsigned long long &>(value))
                     : "r"(shared_address(place)), "r"(rank));
    return value;
}

// Joins value[place] of all blocks of a cluster, the blocks in order and each output by one of them.
template <int BLOCKS, int OUTPUTS, int TEAM, typename V, typename WRITE>
__device__ __forceinline__ void join_cluster(const V *value, WRITE write) {
    cluster_sync();
    constexpr int kShare = ceil_div(OUTPUTS, BLOCKS);
    const int first = cluster_rank() * kShare;
    for (int place = first + static_cast<int>(threadIdx.x); place < least(OUTPUTS, first + kShare); place += TEAM) {
        V each[BLOCKS];
#pragma unroll
        for (int rank = 0; rank < BLOCKS; ++rank) each[rank] = load_cluster(value + place, rank);
        V sum = each[0];
#pragma unroll
        for (int rank = 1; rank < BLOCKS; ++rank) sum = V::join(sum, each[rank]);
        write(place, sum);
    }
    cluster_sync();  // nobody leaves while others read
}

}  // namespace carver
