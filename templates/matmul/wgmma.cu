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
#ifndef A_DTYPE
#define A_DTYPE 3
#endif
#ifndef B_DTYPE
#define B_DTYPE A_DTYPE
#endif
#ifndef C_DTYPE
#define C_DTYPE A_DTYPE
#endif
#ifndef ACC_DTYPE
#define ACC_DTYPE (A_DTYPE == 7 ? 8 : 1)
#endif
#ifndef BLOCK_K
#define BLOCK_K 64
#endif
#ifndef WARPS
#define WARPS 4
#endif
#ifndef STAGES
#define STAGES 3
#endif

#include "common/matmul.cuh"
#include "common/store.cuh"
#include "common/wgmma.cuh"

namespace carver {

constexpr int kElement = sizeof(A::type);
constexpr int kThreads = 32 * WARPS;
constexpr int kGroups = WARPS / 4, kGroupsM = least(kGroups, BLOCK_M / 64), kGroupsN = kGroups / kGroupsM;
constexpr int kGroupM = BLOCK_M / kGroupsM, kGroupN = BLOCK_N / kGroupsN;  // what one group computes
constexpr int kTiles = kGroupM / 64;
constexpr int kInstructionBytes = 32;
constexpr int kSteps = BLOCK_K * kElement / kInstructionBytes;

static_assert(A_DTYPE != CARVER_F64 && A_DTYPE != CARVER_F32 && A_DTYPE != CARVER_I32, "no wgmma takes the type");
constexpr bool kFloat8 = A_DTYPE == CARVER_F8E4M3 || A_DTYPE == CARVER_F8E5M2;
static_assert(A_DTYPE == B_DTYPE || (kFloat8 && (B_DTYPE == CARVER_F8E4M3 || B_DTYPE == CARVER_F8E5M2)),
              "A and B must have one type, or both be 8-bit floats");
static_assert(ACC_DTYPE == (A_DTYPE == CARVER_I8 ? CARVER_I32 : CARVER_F32), "sums are float32, or int32 of int8");
static_assert(kElement == 2 || (!TRANS_A && TRANS_B), "elements of other than 2 bytes must be contiguous along k");
static_assert(ALIGN_A >= 16 && ALIGN_B >= 16, "rows of A and B start on multiples of 16 bytes");
static_assert(WARPS == 4 || WARPS == 8, "one or two groups of four warps");
static_assert(BLOCK_M % (64 * kGroupsM) == 0, "a warp group has 64 rows, or a multiple");
static_assert(kGroupN % 64 == 0 && kGroupN <= 256, "a warp group has 64, 128, 192 or 256 columns");
static_assert(BLOCK_K * kElement == 64 || BLOCK_K * kElement % 128 == 0, "block_k is 64 bytes, or a multiple of 128");
static_assert(STAGES >= 2, "one step arrives while another is multiplied");

// One operand. BLOCK counts elements of m or n. Its rows in memory are m or n if K_CONTIGUOUS, else k. In shared memory
// they are cut into panels of kRowBytes, within which 16-byte chunks are permuted by exclusive or with the row's number.
template <int BLOCK, bool K_CONTIGUOUS> struct Operand {
    static constexpr int kPiece = 16;
    static constexpr int kRows = K_CONTIGUOUS ? BLOCK : BLOCK_K;
    static constexpr int kBytes = (K_CONTIGUOUS ? BLOCK_K : BLOCK) * kElement;
    static constexpr int kRowBytes = least(128, kBytes);
    static constexpr int kPanelBytes = kRows * kRowBytes;
    static constexpr int kStageBytes = kRows * kBytes;

    // Each thread copies kTrips pieces a stage, rows of kRowsAtOnce at a time, all at the same place of a row.
    static constexpr int kPerRow = kRowBytes / kPiece;
    static constexpr int kRowsAtOnce = kThreads / kPerRow;
    static constexpr int kTripsPerPanel = kRows / kRowsAtOnce;
    static constexpr int kTrips = kStageBytes / (kThreads * kPiece);
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

    static __device__ __forceinline__ Descriptor descriptor(unsigned stage) {
        return {stage, kRowBytes, K_CONTIGUOUS ? 16 : kPanelBytes, 8 * kRowBytes};
    }
    // Bytes from a stage to the operand of one instruction that starts at element `first` of m or n.
    static __device__ __forceinline__ int offset(int first, int step) {
        if constexpr (!K_CONTIGUOUS) return first * kElement / kRowBytes * kPanelBytes + step * 16 * kRowBytes;
        const int byte = step * kInstructionBytes;
        return byte / kRowBytes * kPanelBytes + first * kRowBytes + byte % kRowBytes;
    }
};

using OperandA = Operand<BLOCK_M, !TRANS_A>;
using OperandB = Operand<BLOCK_N, TRANS_B>;
using Sums = Sum[kTiles][kGroupN / 2];

constexpr int kStageBytes = OperandA::kStageBytes + OperandB::kStageBytes;
constexpr int kSlabColumns = 64;
constexpr int kSmemBytes = most(STAGES * kStageBytes, SPLIT_K > 1 ? 0 : WARPS * Slab<kSlabColumns>::kBytes);
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

template <typename D>
__device__ __forceinline__ void multiply(D (&sums)[kGroupN / 2], unsigned long long a, unsigned long long b) {
    constexpr bool kM = TRANS_A, kN = !TRANS_B, kWide = A_DTYPE == CARVER_F8E5M2, kWideB = B_DTYPE == CARVER_F8E5M2;
    if constexpr (A_DTYPE == CARVER_F16) wgmma_f16<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (A_DTYPE == CARVER_BF16) wgmma_bf16<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (A_DTYPE == CARVER_TF32) wgmma_tf32<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (A_DTYPE == CARVER_I8) wgmma_i8<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (!kWide && !kWideB) wgmma_e4m3_e4m3<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (!kWide) wgmma_e4m3_e5m2<kGroupN, kM, kN>(sums, a, b);
    else if constexpr (!kWideB) wgmma_e5m2_e4m3<kGroupN, kM, kN>(sums, a, b);
    else wgmma_e5m2_e5m2<kGroupN, kM, kN>(sums, a, b);
}

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
    const auto multiply_stage = [&](int stage) {
        wgmma_begin();
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile)
                multiply(sums[tile], from_a.at(stage + OperandA::offset(64 * tile, step)),
                         from_b.at(stage + OperandB::offset(0, step)));
        wgmma_commit();
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
        multiply_stage(read);
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

    // a warp has 16 of each 64 rows; its thread's sums are pairs in rows 8 apart, 8 columns further each time
    const i64 m0 = work.m0 + group % kGroupsM * kGroupM + warp % 4 * 16, n0 = work.n0 + group / kGroupsM * kGroupN;
    const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    if constexpr (SPLIT_K > 1) {
        Sum *const partial = workspace + (work.split * batches + work.batch) * m * n;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int i = 0; i < kGroupN / 2; i += 2) {
                const i64 at = m0 + 64 * tile + row + i % 4 * 4;
                put_partial(partial, at, n0 + i / 4 * 8 + column, sums[tile][i], sums[tile][i + 1], m, n);
            }
    } else {
        __syncthreads();  // the last tiles are multiplied: the stages become the warps' slabs
        const Slab<kSlabColumns> slab = {shared_memory + warp * Slab<kSlabColumns>::kBytes};
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int first = 0; first < kGroupN; first += kSlabColumns) {
#pragma unroll
                for (int i = 0; i < kSlabColumns / 2; i += 2) {
                    const Sum one = sums[tile][first / 2 + i], next = sums[tile][first / 2 + i + 1];
                    slab.put(row + i % 4 * 4, i / 4 * 8 + column, one, next, bias, n0 + first, n);
                }
                slab.write(c + work.batch * m * ldc, m0 + 64 * tile, n0 + first, m, n, ldc);
            }
    }
}
