// C[b,m,n] = epilogue(sum_k A[b,m,k] B[b,k,n]) with Hopper's wgmma, fed by its copy engine, sm_90a.
//
// As many blocks as SMs walk the BLOCK_M x BLOCK_N tiles. One thread of a block asks for boxes of A and B, STAGES steps ahead
// and across tiles; rows of both start on multiples of 16 bytes. One or two groups of four warps multiply: they share a tile,
// or ALTERNATE: each has a tile of its own, so that one writes its result while the other multiplies. CLUSTER = 2: two blocks
// whose tiles lie below each other, each of which brings half of their common columns of B for both.
//
// tf32: the copy engine rounds what it brings. An operand whose rows start elsewhere, or of other than 16 bits whose rows are
// not along k, is copied first: into rows of k on multiples of 16 bytes.
#ifndef GROUPS
#define GROUPS 2
#endif
#define WARPS (4 * GROUPS)
#define PACK_A (ALIGN_A < 16 || (TRANS_A && A_DTYPE != 3 && A_DTYPE != 4))
#define PACK_B (ALIGN_B < 16 || (!TRANS_B && A_DTYPE != 3 && A_DTYPE != 4))
#ifndef CLUSTER
#define CLUSTER 1
#endif

#include "common/groups.cuh"
#include "common/tma.cuh"

namespace carver {

constexpr int kMultiplying = 32 * WARPS, kThreads = kMultiplying + 128;
static_assert(!ALTERNATE || kGroups == 2, "two groups alternate");
static_assert(CLUSTER == 1 || CLUSTER == 2, "one block or two");

// The stages, the warps' slabs, and barriers of both kinds.
constexpr int kSlabsAt = STAGES * kStageBytes, kBarriersAt = kSlabsAt + WARPS * kSlabBytes, kSmemBytes = kBarriersAt + 16 * STAGES;
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

// An operand as the copy engine brings it; each of PARTS blocks of a cluster copies its share of every row of panels to all.
template <int BLOCK, bool K_CONTIGUOUS, int PARTS> struct Source : Layout<BLOCK, K_CONTIGUOUS> {
    using Here = Layout<BLOCK, K_CONTIGUOUS>;
    static constexpr int kColumns = Here::kRowBytes / kElement, kRows = Here::kRows / PARTS;
    static_assert(kRows % 8 == 0 && kRows <= 256, "whole patterns, and what a box may have");

    static __device__ __forceinline__ void copy(unsigned stage, const TensorMap &map, i64 origin, i64 k, i64 batch, int part, unsigned barrier) {
        const int column = static_cast<int>(K_CONTIGUOUS ? k : origin), row = static_cast<int>(K_CONTIGUOUS ? origin : k) + part * kRows;
#pragma unroll
        for (int panel = 0; panel < Here::kBytes / Here::kRowBytes; ++panel)
            copy_box<PARTS>(stage + panel * Here::kPanelBytes + part * kRows * Here::kRowBytes, map, column + panel * kColumns, row,
                            static_cast<int>(batch), barrier);
    }
};
using SourceA = Source<BLOCK_M, kRowsA, 1>;
using SourceB = Source<BLOCK_N, kRowsB, CLUSTER>;

#if PACK_A || PACK_B
// The workspace: partial sums, and copies of operands, each on a multiple of 128 bytes.
struct Workspace {
    i64 leading, a, b;  // elements of a copied row; bytes from the start
    static __device__ __forceinline__ i64 rounded(i64 bytes) { return ceil_div<i64>(bytes, 128) * 128; }
    __device__ __forceinline__ Workspace(i64 m, i64 n, i64 k, i64 batches)
        : leading(ceil_div<i64>(k * kElement, 16) * 16 / kElement), a(SPLIT_K > 1 ? rounded(SPLIT_K * batches * m * n * sizeof(Sum)) : 0),
          b(a + (PACK_A ? rounded(batches * m * leading * kElement) : 0)) {}
};

// Copies `size` x k elements, or k x `size` of them if TURN, into rows of k. A block takes kPackTile of both.
constexpr int kPackTile = 64, kPackThreads = 256;
template <bool TURN, typename T> __device__ __forceinline__ void pack(const T *from, T *to, i64 size, i64 k, i64 leading, i64 packed) {
    constexpr int kVector = 16 / sizeof(T), kPerRow = kPackTile / kVector, kLane = kPackTile / 32;
    __shared__ T tile[kPackTile][kPackTile + 4 / sizeof(T) + (sizeof(T) < 4)];
    const unsigned across = static_cast<unsigned>(ceil_div<i64>(k, kPackTile)), down = static_cast<unsigned>(ceil_div<i64>(size, kPackTile));
    const i64 batch = blockIdx.x / (across * down), first = blockIdx.x / across % down * kPackTile, k0 = blockIdx.x % across * kPackTile;
    from += batch * (TURN ? k : size) * leading, to += batch * size * packed;
    const i64 rows = TURN ? k - k0 : size - first, columns = TURN ? size - first : k - k0;
    const T *const origin = from + (TURN ? k0 * leading + first : first * leading + k0);
#pragma unroll
    for (int row = threadIdx.x / 32; row < kPackTile; row += kPackThreads / 32)
#pragma unroll
        for (int i = 0; i < kLane; ++i) {
            const int column = threadIdx.x % 32 + i * 32;
            tile[row][column] = row < rows && column < columns ? origin[row * leading + column] : T{};
        }
    __syncthreads();
#pragma unroll
    for (int at = threadIdx.x; at < kPackTile * kPerRow; at += kPackThreads) {
        const int row = at / kPerRow, column = at % kPerRow * kVector;
        if (first + row >= size || k0 + column >= packed) continue;
        Vector<T, kVector> out;
#pragma unroll
        for (int e = 0; e < kVector; ++e) out.at[e] = TURN ? tile[column + e][row] : tile[row][column + e];
        store_vector<kVector>(to + (first + row) * packed + k0 + column, out);
    }
}
#endif

// A place in the ring of stages, and how often it was passed.
struct Ring {
    int stage = 0;
    unsigned turn = 0;
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, turn ^= 1;
    }
    __device__ __forceinline__ void skip(int steps) {
        const unsigned at = static_cast<unsigned>(stage + steps);
        turn ^= at / STAGES & 1, stage = static_cast<int>(at % STAGES);
    }
};

}  // namespace carver

extern __shared__ __align__(1024) unsigned char shared_memory[];

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(carver::kThreads, 1)
carver_matmul(const __grid_constant__ carver::TensorMap map_a, const __grid_constant__ carver::TensorMap map_b,
              const carver::C::type *__restrict__ bias, carver::C::type *__restrict__ c,
              carver::Sum *__restrict__ workspace, carver::i64 m, carver::i64 n, carver::i64 k, carver::i64 batches, carver::i64 ldc) {
    using namespace carver;
    constexpr int kHeight = BLOCK_M * CLUSTER;
    const unsigned shared = shared_address(shared_memory), full = shared + kBarriersAt, empty = full + 8 * STAGES;
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    const unsigned tiles = static_cast<unsigned>(ceil_div(m, kHeight) * ceil_div(n, BLOCK_N) * SPLIT_K * batches);
    const unsigned first = blockIdx.x / CLUSTER, others = gridDim.x / CLUSTER;
    if (threadIdx.x == kMultiplying) prefetch_map(map_a), prefetch_map(map_b);
    if (threadIdx.x == 0) {
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full + 8 * stage, 1);
            barrier_init(empty + 8 * stage, CLUSTER * kSharing);
        }
        barriers_ready();
    }
    if constexpr (CLUSTER > 1)
        cluster_sync();
    else
        __syncthreads();

    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (group == kGroups) {  // the last four warps copy; one thread does
        if constexpr (kGroups == 2) fewer_registers<40>();
        if (threadIdx.x == kMultiplying) {
            Ring ring;
#pragma unroll 1
            for (unsigned tile = first; tile < tiles; tile += others) {
                const Work work = work_of<kHeight>(tile, m, n, k);
                i64 at = work.k0;
#pragma unroll 1
                for (int step = 0; step < work.steps; ++step, at += BLOCK_K, ring.next()) {
                    const unsigned stage = shared + ring.stage * kStageBytes, arrived = full + 8 * ring.stage;
                    barrier_wait(empty + 8 * ring.stage, ring.turn ^ 1);
                    barrier_expect(arrived, kStageBytes);
                    SourceA::copy(stage, map_a, work.m0 + rank * BLOCK_M, at, work.batch, 0, arrived);
                    SourceB::copy(stage + LayoutA::kStageBytes, map_b, work.n0, at, work.batch, rank, arrived);
                }
            }
        }
    } else {
        if constexpr (kGroups == 2) more_registers<232>();
        const int part = ALTERNATE ? 0 : group;  // of the tile
        const int in_m = part % kGroupsM * kGroupM, in_n = part / kGroupsM * kGroupN;
        const Descriptor from_a = LayoutA::descriptor(shared + LayoutA::offset(in_m, 0));
        const Descriptor from_b = LayoutB::descriptor(shared + LayoutA::kStageBytes + LayoutB::offset(in_n, 0));
        const auto release = [&](int stage) {  // nobody reads the stage any more; the blocks that fill it are told
            if (threadIdx.x % 128 < CLUSTER) barrier_arrive(empty + 8 * stage, CLUSTER > 1 ? threadIdx.x % 128 : 0);
        };
        Ring ring;
        bool mine = !ALTERNATE || group == 0;
#pragma unroll 1
        for (unsigned tile = first; tile < tiles; tile += others) {
            const Work work = work_of<kHeight>(tile, m, n, k);
            if (ALTERNATE && !mine) {
                ring.skip(work.steps);
                mine = true;
                continue;
            }
            Sums sums = {};
            int before = ring.stage;
            // A barrier tells one turn from the next, not from the one after: the other group has to be through with the turns
            // before, and says so once its last products are queued. Group 0 begins.
            if (ALTERNATE && tile != first) meet<256>(2 + group);
#pragma unroll 1
            for (int step = 0; step < work.steps; ++step, ring.next()) {
                barrier_wait(full + 8 * ring.stage, ring.turn);
                multiply_stage(sums, from_a, from_b, ring.stage * kStageBytes);
                wgmma_wait<1>();  // the step before this one
                if (step > 0) release(before);
                before = ring.stage;
            }
            if (ALTERNATE && tile + others < tiles) arrive<256>(3 - group);
            wgmma_wait<0>();
#pragma unroll
            for (int tile_m = 0; tile_m < kTiles; ++tile_m) wgmma_done(sums[tile_m]);
            if (work.steps > 0) release(before);
            write_sums(sums, shared_memory + kSlabsAt, bias, c, workspace, work, work.m0 + rank * BLOCK_M + in_m, work.n0 + in_n, m, n, batches, ldc);
            if (ALTERNATE) mine = false;
        }
    }
    if constexpr (CLUSTER > 1) {
        __syncwarp();
        cluster_sync();  // what the other block still signals is there
    }
}

#if PACK_A
extern "C" __global__ void __launch_bounds__(carver::kPackThreads)
carver_pack_a(const carver::A::type *__restrict__ a, carver::Sum *__restrict__ workspace, carver::i64 m, carver::i64 n, carver::i64 k,
              carver::i64 batches, carver::i64 lda) {
    const carver::Workspace at(m, n, k, batches);
    carver::pack<TRANS_A>(a, reinterpret_cast<carver::A::type *>(reinterpret_cast<char *>(workspace) + at.a), m, k, lda, at.leading);
}
#endif
#if PACK_B
extern "C" __global__ void __launch_bounds__(carver::kPackThreads)
carver_pack_b(const carver::B::type *__restrict__ b, carver::Sum *__restrict__ workspace, carver::i64 m, carver::i64 n, carver::i64 k,
              carver::i64 batches, carver::i64 ldb) {
    const carver::Workspace at(m, n, k, batches);
    carver::pack<!TRANS_B>(b, reinterpret_cast<carver::B::type *>(reinterpret_cast<char *>(workspace) + at.b), n, k, ldb, at.leading);
}
#endif
