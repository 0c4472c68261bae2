// C[b,m,n] = epilogue(sum_k A[b,m,k] B[b,k,n]) with Hopper's wgmma, sm_90a.
//
// A block computes one BLOCK_M x BLOCK_N tile. Tiles of A and B come through STAGES buffers in shared memory, filled by
// cp.async in pieces of 16 bytes: rows of A and B have to start on multiples of that. The warps form groups of four; a
// group multiplies 64 rows or more of the tile, straight from shared memory. A step is queued before the one ahead of it
// is done, so that the matrix unit never waits for a barrier; then the buffer that is done with is filled again.
//
// tf32: the matrix unit reads float32 as it lies in memory and drops the 13 low bits, which pulls products of full
// float32 towards zero by up to 2^-9. mma.cu rounds them in registers; here that would take each tile out of shared
// memory and back, about as long as its products.
#include "common/groups.cuh"

namespace carver {

constexpr int kThreads = 32 * WARPS;

// One operand on its way: each thread copies kTrips pieces a stage, rows of kRowsAtOnce at a time, all at the same place of
// a row.
template <int BLOCK, bool K_CONTIGUOUS> struct Operand : Layout<BLOCK, K_CONTIGUOUS> {
    using Here = Layout<BLOCK, K_CONTIGUOUS>;
    using Here::kRowBytes, Here::kRows;
    static constexpr int kPiece = 16;
    static constexpr int kPerRow = kRowBytes / kPiece;
    static constexpr int kRowsAtOnce = kThreads / kPerRow;
    static constexpr int kTripsPerPanel = kRows / kRowsAtOnce;
    static constexpr int kTrips = Here::kStageBytes / (kThreads * kPiece);
    static_assert(kRows % kRowsAtOnce == 0 && kRowsAtOnce % 8 == 0, "every thread copies as much");

    static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kPerRow; }
    static __device__ __forceinline__ int byte() { return static_cast<int>(threadIdx.x) % kPerRow * kPiece; }

    const char *source;  // this thread's first piece in the next stage to be copied
    i64 stride;          // bytes between rows
    int extent;          // elements of m or n left from the tile's origin, at most BLOCK
    unsigned place;      // of the first piece in a stage

    __device__ __forceinline__ void start(const void *base, i64 leading, i64 origin, i64 size, i64 k0) {
        stride = leading * kElement;
        extent = static_cast<int>(least<i64>(size - origin, BLOCK));
        const i64 first = K_CONTIGUOUS ? origin : k0, column = K_CONTIGUOUS ? k0 : origin;
        source = static_cast<const char *>(base) + (first + row()) * stride + column * kElement + byte();
        const int chunk = byte() ^ (row() / (128 / kRowBytes) % kPerRow) * kPiece;
        place = static_cast<unsigned>(row() * kRowBytes + chunk);
    }

    // Copies the next stage, of which `k_left` elements of k exist. What lies outside the matrix becomes zero. WHOLE: no
    // part of the stage does.
    template <bool WHOLE> __device__ __forceinline__ void copy(unsigned stage, int k_left) {
        const int rows = K_CONTIGUOUS ? extent : k_left, bytes = (K_CONTIGUOUS ? k_left : extent) * kElement;
#pragma unroll
        for (int trip = 0; trip < kTrips; ++trip) {
            const int down = trip % kTripsPerPanel * kRowsAtOnce, across = trip / kTripsPerPanel * kRowBytes;
            const char *from = source + down * stride + across;
            const unsigned to = stage + place + trip * kThreads * kPiece;
            if constexpr (WHOLE)
                copy_async<kPiece>(to, from);
            else
                copy_async<kPiece>(to, from, row() + down < rows ? most(0, least(kPiece, bytes - across - byte())) : 0);
        }
        source += K_CONTIGUOUS ? static_cast<i64>(BLOCK_K * kElement) : BLOCK_K * stride;
    }
};

using OperandA = Operand<BLOCK_M, !TRANS_A>;
using OperandB = Operand<BLOCK_N, TRANS_B>;

constexpr int kSmemBytes = most(STAGES * kStageBytes, WARPS * kSlabBytes);
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

// Adds the products of `steps` steps to `sums`. k: elements from the block's first on. group: the warp group's number.
__device__ __forceinline__ void main_loop(Sums &sums, OperandA &a, OperandB &b, unsigned shared, int group, int steps,
                                          i64 k) {
    const bool inside = a.extent == BLOCK_M && b.extent == BLOCK_N;
    // steps copied without a look at edges
    const int whole = inside ? static_cast<int>(least<i64>(steps, k / BLOCK_K)) : 0;
    const int m0 = group % kGroupsM * kGroupM, n0 = group / kGroupsM * kGroupN;
    const Descriptor from_a = OperandA::descriptor(shared + OperandA::offset(m0, 0));
    const Descriptor from_b = OperandB::descriptor(shared + OperandA::kStageBytes + OperandB::offset(n0, 0));

    const auto copy = [&](int step, int stage) {
        const unsigned to = shared + stage;
        if (step < whole) {
            a.template copy<true>(to, BLOCK_K);
            b.template copy<true>(to + OperandA::kStageBytes, BLOCK_K);
        } else if (step < steps) {
            const int k_left = static_cast<int>(least<i64>(k - static_cast<i64>(step) * BLOCK_K, BLOCK_K));
            a.template copy<false>(to, k_left);
            b.template copy<false>(to + OperandA::kStageBytes, k_left);
        }
        copy_async_commit();  // empty at the end, so that the number of groups in flight stays the same
    };
    const auto after = [](int stage) { return stage == (STAGES - 1) * kStageBytes ? 0 : stage + kStageBytes; };

#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) copy(stage, stage * kStageBytes);
    int read = 0, done = (STAGES - 1) * kStageBytes;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        copy_async_wait<STAGES - 2>();
        show_to_matrix_unit();
        __syncthreads();
        multiply_stage(sums, from_a, from_b, read);
        wgmma_wait<1>();  // the step before this one
        if (step > 0) {
            __syncthreads();  // nobody reads its buffer any more
            copy(step + STAGES - 1, done);
        }
        done = read;
        read = after(read);
    }
    wgmma_wait<0>();
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) wgmma_done(sums[tile]);
    copy_async_wait<0>();
}

}  // namespace carver

extern __shared__ __align__(1024) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(carver::kThreads, 1)
carver_matmul(const carver::A::type *__restrict__ a, const carver::B::type *__restrict__ b,
              const carver::C::type *__restrict__ bias, carver::C::type *__restrict__ c,
              carver::Sum *__restrict__ workspace, carver::i64 m, carver::i64 n, carver::i64 k, carver::i64 batches,
              carver::i64 lda, carver::i64 ldb, carver::i64 ldc) {
    using namespace carver;
    const Work work = work_of_block(m, n, k);
    const int warp = threadIdx.x / 32, group = __shfl_sync(0xffffffffu, warp / 4, 0);

    OperandA operand_a;
    OperandB operand_b;
    operand_a.start(a + work.batch * (TRANS_A ? k : m) * lda, lda, work.m0, m, work.k0);
    operand_b.start(b + work.batch * (TRANS_B ? n : k) * ldb, ldb, work.n0, n, work.k0);

    Sums sums = {};
    main_loop(sums, operand_a, operand_b, shared_address(shared_memory), group, work.steps, k - work.k0);

    const i64 m0 = work.m0 + group % kGroupsM * kGroupM, n0 = work.n0 + group / kGroupsM * kGroupN;
    if (SPLIT_K == 1) __syncthreads();  // the last tiles are multiplied: the stages become the warps' slabs
    write_sums(sums, shared_memory, bias, c, workspace, work, m0, n0, m, n, batches, ldc);
}
