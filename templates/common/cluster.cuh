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

template <bool FIRST, typename A, typename B> struct OneOf { using type = A; };
template <typename A, typename B> struct OneOf<false, A, B> { using type = B; };

__device__ __forceinline__ int cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
}
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}
// The words that block `rank` has at this place of its shared memory.
template <typename T> __device__ __forceinline__ T load_cluster(const T *place, int rank) {
    using Word = typename OneOf<alignof(T) == 8, unsigned long long, unsigned>::type;
    static_assert(alignof(T) % 4 == 0, "whole words");
    T value;
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(place)), "r"(rank));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / sizeof(Word)); ++i) {
        Word &word = reinterpret_cast<Word *>(&value)[i];
        if constexpr (sizeof(Word) == 4)
            asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(word) : "r"(there + 4 * i) : "memory");
        else
            asm volatile("ld.shared::cluster.b64 %0, [%1];" : "=l"(word) : "r"(there + 8 * i) : "memory");
    }
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
