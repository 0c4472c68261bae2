// C[b,m,n] = epilogue(sum_k A[b,m,k] B[b,k,n]) on the tensor cores, sm_75 and newer.
//
// A block computes one BLOCK_M x BLOCK_N tile. Tiles of A and B come through STAGES buffers in shared memory, filled by
// cp.async, on sm_75 through registers; warps of WARP_M x WARP_N read fragments with ldmatrix one instruction step ahead of
// the mma.sync that use them. Whatever the element type, one step takes 32 bytes of k, so all addresses below are in bytes.
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
#define ACC_DTYPE (A_DTYPE == 7 ? 8 : A_DTYPE == 0 ? 0 : 1)
#endif
#ifndef WARP_M
#define WARP_M 64
#endif
#ifndef WARP_N
#define WARP_N 64
#endif
#ifndef STAGES
#define STAGES 3
#endif

#include "common/matmul.cuh"
#include "common/store.cuh"

namespace carver {

constexpr int kElement = sizeof(A::type);
constexpr int kWarpsM = BLOCK_M / WARP_M, kWarpsN = BLOCK_N / WARP_N;
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kInstructionBytes = 32;
constexpr int kSteps = BLOCK_K * kElement / kInstructionBytes;  // instruction steps in one stage
constexpr bool kHalfSum = ACC_DTYPE == CARVER_F16;

static_assert(A_DTYPE != CARVER_F32 && A_DTYPE != CARVER_I32, "no mma.sync of this kernel takes the type");
static_assert(A_DTYPE == B_DTYPE || (kElement == 1 && !is_integer<Sum>()), "A and B must have one type, or both be 8-bit floats");
static_assert(!kHalfSum || A_DTYPE == CARVER_F16, "half-precision sums need float16 operands");
static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "warp tiles divide the block tile");
static_assert(WARP_M >= 16 && WARP_N >= 16 && (WARP_M & (WARP_M - 1)) == 0 && (WARP_N & (WARP_N - 1)) == 0, "a warp tile is a power of two, 16 or more, each way");
static_assert(BLOCK_K * kElement % (2 * kInstructionBytes) == 0, "block_k is an even number of instruction steps: 64 bytes");
static_assert(STAGES >= 2 && kThreads <= 1024, "at least two stages, at most 1024 threads");
static_assert(STAGES == 2 || kAsyncCopy, "copies that pass registers are one step ahead: two stages");

// Where a tile of ROW_BYTES a row lies in shared memory: 16-byte chunks are permuted within each row, by exclusive or
// with a mask of the row, so that the eight rows one ldmatrix phase reads fall into different banks. Of 8-bit elements with
// rows of 16 or 32 bytes of m or n they fall into half of the banks, whatever the permutation: two turns instead of one.
enum class Layout {
    kContiguousK,  // rows of m or n; also 16-bit elements with rows of k, read with ldmatrix.trans
    kBytesAlongRow,  // 8-bit elements with rows of k: a phase reads rows 0 1 4 5 8 9 12 13
    kWordsAlongRow,  // tf32 with rows of k, and doubles either way: four rows of 32 bytes a load, or half a load
};
constexpr Layout layout_of(bool k_contiguous) {
    return kElement == 8 ? Layout::kWordsAlongRow : k_contiguous || kElement == 2 ? Layout::kContiguousK : kElement == 1 ? Layout::kBytesAlongRow : Layout::kWordsAlongRow;
}

template <int ROW_BYTES, Layout LAYOUT> struct Swizzle {
    static constexpr int kUnit = LAYOUT == Layout::kWordsAlongRow ? 32 : 16;  // bytes that stay together
    static constexpr int kLowBit = (ROW_BYTES / kUnit) & -(ROW_BYTES / kUnit);
    static constexpr int kUnits = most(1, least(128 / kUnit, kLowBit));  // units that change places with each other
    static constexpr int kPeriod = kUnit * kUnits;
    static constexpr int kSameMask = LAYOUT == Layout::kBytesAlongRow ? 16 : 128 / kUnit;  // rows that far apart

    static __device__ __forceinline__ int mask(int row) {
        const int phase = LAYOUT == Layout::kBytesAlongRow ? (row & 1) | (row >> 1 & 6) : row;
        return (phase / (128 / kPeriod) & (kUnits - 1)) * kUnit;
    }
    static __device__ __forceinline__ int at(int row, int byte) { return row * ROW_BYTES + (byte ^ mask(row)); }

    // Moves an offset from at() on by `bytes`, a constant whose bits below the period are zero in the offset's column.
    static __device__ __forceinline__ unsigned advance(unsigned offset, int bytes) {
        return (offset ^ (bytes & (kPeriod - 1))) + (bytes & ~(kPeriod - 1));
    }
};

// One operand. BLOCK and WARP count elements of m or n. Its rows in memory are m or n if K_CONTIGUOUS, else k.
template <int BLOCK, int WARP, bool K_CONTIGUOUS, bool IS_A, int ALIGN> struct Operand {
    static constexpr int kRows = K_CONTIGUOUS ? BLOCK : BLOCK_K;
    static constexpr int kRowBytes = (K_CONTIGUOUS ? BLOCK_K : BLOCK) * kElement;
    static constexpr int kStageBytes = kRows * kRowBytes;
    static constexpr Layout kLayout = layout_of(K_CONTIGUOUS);
    using Place = Swizzle<kRowBytes, kLayout>;

    // Each thread copies kTrips pieces of kPiece bytes a stage.
    static constexpr int kPiece = least(16, ALIGN);
    static constexpr int kPerRow = kRowBytes / kPiece;
    static constexpr int kPieces = kRows * kPerRow;
    static constexpr int kTrips = ceil_div(kPieces, kThreads);

    static __device__ __forceinline__ int row_of(int trip) {
        const int thread = threadIdx.x;
        if constexpr (kThreads % kPerRow == 0) return thread / kPerRow + trip * (kThreads / kPerRow);
        if constexpr (kPerRow % kThreads == 0) return trip / (kPerRow / kThreads);
        return (thread + trip * kThreads) / kPerRow;
    }
    static __device__ __forceinline__ int byte_of(int trip) {
        const int thread = threadIdx.x;
        if constexpr (kThreads % kPerRow == 0) return thread % kPerRow * kPiece;
        if constexpr (kPerRow % kThreads == 0) return (thread + trip % (kPerRow / kThreads) * kThreads) * kPiece;
        return (thread + trip * kThreads) % kPerRow * kPiece;
    }

    const char *source;  // this thread's first piece in the next stage to be copied
    i64 stride;          // bytes between rows
    int extent;          // elements of m or n left from the tile's origin, at most BLOCK
    unsigned fragment;   // this lane's bytes into a stage, at step 0 and the warp's first 16 rows or columns

    // Without cp.async, pieces of whole words wait in registers until put(). Narrower ones never wait.
    static constexpr bool kFetches = !kAsyncCopy && kPiece >= 4;
    using Fetched = Vector<unsigned, most(1, kPiece / 4)>[kFetches ? kTrips : 1];

    __device__ __forceinline__ void start(const typename A::type *base, i64 leading, i64 origin, i64 size, i64 k0, int warp) {
        stride = leading * kElement;
        extent = static_cast<int>(least<i64>(size - origin, BLOCK));
        const i64 row = K_CONTIGUOUS ? origin : k0, column = K_CONTIGUOUS ? k0 : origin;
        source = reinterpret_cast<const char *>(base) + (row + row_of(0)) * stride + column * kElement + byte_of(0);

        const int lane = threadIdx.x % 32, i = lane % 8, outer = IS_A ? lane >> 3 & 1 : lane >> 4, half = IS_A ? lane >> 4 : lane >> 3 & 1;
        const int first = warp * WARP;
        if constexpr (kElement == 8)
            fragment = K_CONTIGUOUS ? Place::at(first + lane / 4, 8 * (lane % 4)) : Place::at(lane % 4, 8 * (first + lane / 4));
        else if constexpr (K_CONTIGUOUS)
            fragment = Place::at(first + 8 * outer + i, 16 * half);
        else if constexpr (kElement == 2)
            fragment = Place::at(8 * half + i, 2 * (first + 8 * outer));
        else if constexpr (kElement == 1)  // matrix 2 h + p holds bytes 4 t + 2 p + {0, 1} of k half h for each t
            fragment = Place::at(16 * (lane >> 4) + 4 * (i >> 1) + 2 * (lane >> 3 & 1) + (i & 1), first);
        else
            fragment = Place::at(lane % 4, 4 * (first + lane / 4));
    }

    // Starts to copy the next stage, of which `k_left` elements of k exist. What lies outside the matrix becomes zero.
    // WHOLE: no part of the stage does.
    template <bool WHOLE> __device__ __forceinline__ void copy(unsigned stage, int k_left, Fetched &fetched) {
        const int rows = K_CONTIGUOUS ? extent : k_left, bytes = (K_CONTIGUOUS ? k_left : extent) * kElement;
        const int row0 = row_of(0), byte0 = byte_of(0);
        constexpr int kUnroll = kFetches ? kTrips : !WHOLE ? 4 : kTrips <= 16 && kPiece >= 4 ? kTrips : 8;  // addresses cost registers
#pragma unroll kUnroll
        for (int trip = 0; trip < kTrips; ++trip) {
            const int row = row_of(trip), byte = byte_of(trip);
            if (kPieces % kThreads != 0 && static_cast<int>(threadIdx.x) + trip * kThreads >= kPieces) break;
            const int valid = WHOLE ? kPiece : row < rows ? most(0, least(kPiece, bytes - byte)) : 0;
            const char *from = source + (row - row0) * stride + (byte - byte0);
            const unsigned to = stage + Place::at(row, byte);
            if constexpr (kFetches) {
                if (valid == kPiece)
                    fetched[trip] = load_vector<kPiece / 4>(reinterpret_cast<const unsigned *>(from));
                else
                    reinterpret_cast<Vector<char, kPiece> &>(fetched[trip]) = load_first<kPiece, char>(from, valid, 0);
            } else if constexpr (kPiece >= 4 && WHOLE)
                copy_async<kPiece>(to, from);
            else if constexpr (kPiece >= 4)
                copy_async<kPiece>(to, from, valid);
            else if constexpr (kPiece == 2)
                store_shared_16(to, valid == 2 ? *reinterpret_cast<const unsigned short *>(from) : valid ? *reinterpret_cast<const unsigned char *>(from) : 0);
            else
                store_shared_8(to, valid ? *reinterpret_cast<const unsigned char *>(from) : 0);
        }
        source += K_CONTIGUOUS ? static_cast<i64>(BLOCK_K * kElement) : BLOCK_K * stride;
        hide(source);
    }

    // Puts what copy() left in registers into its stage.
    static __device__ __forceinline__ void put(unsigned stage, const Fetched &fetched) {
        if constexpr (kFetches) {
            constexpr bool kOneMask = kThreads % (kPerRow * Place::kSameMask) == 0;  // for all pieces of a thread
            const unsigned first = stage + Place::at(row_of(0), byte_of(0));
#pragma unroll
            for (int trip = 0; trip < kTrips; ++trip) {
                if (kPieces % kThreads != 0 && static_cast<int>(threadIdx.x) + trip * kThreads >= kPieces) break;
                store_shared(kOneMask ? first + trip * kThreads * kPiece : stage + Place::at(row_of(trip), byte_of(trip)), fetched[trip].at);
            }
        }
    }

    // r[2 o + h] or r[o + 2 h]: rows (columns) 8 o .. 8 o + 7 of 16, k bytes 16 h .. 16 h + 15 of 32. A's registers are in
    // the order of its instruction operand, B's are the operands of two instructions. A double fills both registers of o.
    __device__ __forceinline__ void load(unsigned stage, int step, int tile, unsigned (&r)[4]) const {
        if constexpr (kElement == 8) {
#pragma unroll
            for (int outer = 0; outer < 2; ++outer)
                load_shared_64(r[2 * outer], r[2 * outer + 1],
                               stage + (K_CONTIGUOUS ? Place::advance(fragment, step * kInstructionBytes) + (tile * 16 + outer * 8) * kRowBytes
                                                     : Place::advance(fragment, tile * 128 + outer * 64) + step * 4 * kRowBytes));
        } else if constexpr (K_CONTIGUOUS) {
            load_matrices(r, stage + Place::advance(fragment, step * kInstructionBytes) + tile * 16 * kRowBytes);
        } else if constexpr (kElement == 2) {
            load_matrices_transposed(r, stage + Place::advance(fragment, tile * 32) + step * 16 * kRowBytes);
        } else if constexpr (kElement == 1) {
            unsigned pairs[4];
            load_matrices_transposed(pairs, stage + Place::advance(fragment, tile * 16) + step * 32 * kRowBytes);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                r[IS_A ? 2 * half : half] = __byte_perm(pairs[2 * half], pairs[2 * half + 1], 0x6420);
                r[IS_A ? 2 * half + 1 : half + 2] = __byte_perm(pairs[2 * half], pairs[2 * half + 1], 0x7531);
            }
        } else {
#pragma unroll
            for (int outer = 0; outer < 2; ++outer)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    r[IS_A ? outer + 2 * half : 2 * outer + half] =
                        load_shared_32(stage + Place::advance(fragment, tile * 64 + outer * 32) + (step * 8 + half * 4) * kRowBytes);
        }
        if constexpr (kElement == 4) {
#pragma unroll
            for (int i = 0; i < 4; ++i) r[i] = float_to_tf32(r[i]);
        }
    }

    // 8-bit elements with rows of k come out of ldmatrix.trans in pairs: row (column) 2 g + o of 16 where others have g + 8 o.
    static constexpr bool kInterleaved = !K_CONTIGUOUS && kElement == 1;
};

using OperandA = Operand<BLOCK_M, WARP_M, !TRANS_A, true, ALIGN_A>;
using OperandB = Operand<BLOCK_N, WARP_N, TRANS_B, false, ALIGN_B>;

constexpr int kStageBytes = OperandA::kStageBytes + OperandB::kStageBytes;
constexpr int kTilesM = WARP_M / 16, kTilesN = WARP_N / 16;

// A warp's results leave through shared memory, 16 rows at a time.
constexpr int kSmemBytes = most(STAGES * kStageBytes, SPLIT_K > 1 ? 0 : kThreads / 32 * Slab<WARP_N>::kBytes);
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

// The sums of a 16 x 16 tile, in the two 16 x 8 pieces of the instruction. value(piece, 2 * o + i) is at row 8 o + lane / 4
// of 16 and column 2 (lane % 4) + i of 8.
template <bool HALF> struct TileSums {
    Sum at[2][4];
    __device__ __forceinline__ Sum value(int piece, int i) const { return at[piece][i]; }
};
template <> struct TileSums<true> {  // two to a register
    unsigned at[2][2];
    __device__ __forceinline__ Sum value(int piece, int i) const {
        return half_to_float(static_cast<unsigned short>(at[piece][i >> 1] >> 16 * (i & 1)));
    }
};

template <typename D> __device__ __forceinline__ void multiply(D &d, const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (kHalfSum) mma_f16_half(d, a, b);
    else if constexpr (A_DTYPE == CARVER_F64) mma_f64(d, a, b);
    else if constexpr (A_DTYPE == CARVER_F16) mma_f16(d, a, b);
    else if constexpr (A_DTYPE == CARVER_BF16) mma_bf16(d, a, b);
    else if constexpr (A_DTYPE == CARVER_TF32) mma_tf32(d, a, b);
    else if constexpr (A_DTYPE == CARVER_I8) mma_i8(d, a, b);
    else if constexpr (A_DTYPE == CARVER_F8E4M3 && B_DTYPE == CARVER_F8E4M3) mma_e4m3_e4m3(d, a, b);
    else if constexpr (A_DTYPE == CARVER_F8E4M3) mma_e4m3_e5m2(d, a, b);
    else if constexpr (B_DTYPE == CARVER_F8E4M3) mma_e5m2_e4m3(d, a, b);
    else mma_e5m2_e5m2(d, a, b);
}

// The pipeline of one warp: stages of shared memory, and two sets of fragments in registers.
struct Pipeline {
    OperandA &a;
    OperandB &b;
    i64 k;                       // elements of k not yet copied
    unsigned first, read, write;  // stages
    unsigned fragments_a[2][kTilesM][4], fragments_b[2][kTilesN][4];
    TileSums<kHalfSum> (&sums)[kTilesM][kTilesN];

    struct Fetched {
        OperandA::Fetched a;
        OperandB::Fetched b;
    };
    template <bool WHOLE> __device__ __forceinline__ void copy(unsigned stage, Fetched &fetched) {
        const int k_left = WHOLE ? BLOCK_K : static_cast<int>(least<i64>(k, BLOCK_K));
        a.copy<WHOLE>(stage, k_left, fetched.a);
        b.copy<WHOLE>(stage + OperandA::kStageBytes, k_left, fetched.b);
        k -= BLOCK_K;
    }
    static __device__ __forceinline__ void put(unsigned stage, const Fetched &fetched) {
        OperandA::put(stage, fetched.a);
        OperandB::put(stage + OperandA::kStageBytes, fetched.b);
    }
    __device__ __forceinline__ unsigned after(unsigned stage) const {
        return stage == first + (STAGES - 1) * kStageBytes ? first : stage + kStageBytes;
    }
    __device__ __forceinline__ void load(int step) {
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) a.load(read, step, i, fragments_a[step % 2][i]);
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) b.load(read + OperandA::kStageBytes, step, j, fragments_b[step % 2][j]);
    }
    __device__ __forceinline__ void multiply_step(int step) {
#pragma unroll
        for (int i = 0; i < kTilesM; ++i)
#pragma unroll
            for (int j = 0; j < 2 * kTilesN; ++j) {
                const int piece = i % 2 ? 2 * kTilesN - 1 - j : j;  // back and forth: each instruction keeps one operand
                const unsigned(&pair)[4] = fragments_b[step % 2][piece / 2];
                const unsigned operand_b[2] = {pair[piece % 2 * 2], pair[piece % 2 * 2 + 1]};
                multiply(sums[i][piece / 2].at[piece % 2], fragments_a[step % 2][i], operand_b);
            }
    }

    // `trips` stages, of which the newest `uncopied` have nothing left to copy behind them. The loop turns between the
    // first loads from a new stage and the last multiplications of the one before: those multiplications hide the loads,
    // and the compiler, which sees one turn at a time, cannot put the loads last.
    template <bool WHOLE> __device__ __forceinline__ void run(int trips, int uncopied) {
        if (trips <= 0) return;
#pragma unroll 1
        for (;;) {
            Fetched fetched;
#pragma unroll
            for (int step = 0; step < kSteps - 1; ++step) {
                load(step + 1);
                if (step == 0) {
                    if (WHOLE || trips > uncopied) copy<WHOLE>(write, fetched);
                    copy_async_commit();  // empty at the end, so that the number of groups in flight stays the same
                    write = after(write);
                }
                multiply_step(step);
            }
            // The next stage has arrived, and nobody reads the present one any more: all its fragments are in registers.
            // It is the one that the next trip overwrites.
            if (WHOLE || trips > uncopied) put(after(read), fetched);
            copy_async_wait<STAGES - 2>();
            __syncthreads();
            read = after(read);
            load(0);
            if (--trips == 0) break;
            multiply_step(kSteps - 1);
        }
        multiply_step(kSteps - 1);
    }
};

// Adds the products of all steps of this block to `sums`. k: elements from the block's first on.
__device__ __forceinline__ void main_loop(TileSums<kHalfSum> (&sums)[kTilesM][kTilesN], OperandA &a, OperandB &b, unsigned shared, int steps, i64 k) {
    const bool inside = a.extent == BLOCK_M && b.extent == BLOCK_N;
    const int whole = inside ? static_cast<int>(least<i64>(steps, k / BLOCK_K)) : 0;  // steps copied without a look at edges
    Pipeline pipeline{a, b, k, shared, shared, shared + (STAGES - 1) * kStageBytes, {}, {}, sums};
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < steps) {
            Pipeline::Fetched fetched;
            pipeline.copy<false>(shared + stage * kStageBytes, fetched);
            Pipeline::put(shared + stage * kStageBytes, fetched);
        }
        copy_async_commit();
    }
    copy_async_wait<STAGES - 2>();
    __syncthreads();
    pipeline.load(0);
    const int whole_trips = most(0, whole - (STAGES - 1));
    pipeline.run<true>(whole_trips, 0);
    pipeline.run<false>(steps - whole_trips, STAGES - 1);
    copy_async_wait<0>();
}

// Two sums side by side in a row: `pair` 0 or 1 of rows `outer` 0 or 1 of a 16 x 16 tile, with their place in the tile.
struct Pair {
    Sum first, second;
    int row, column;
};
__device__ __forceinline__ Pair pair_of(const TileSums<kHalfSum> &sums, int outer, int pair) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int row = OperandA::kInterleaved ? 2 * g + outer : g + 8 * outer;
    if constexpr (OperandB::kInterleaved)
        return {sums.value(0, 2 * outer + pair), sums.value(1, 2 * outer + pair), row, 4 * t + 2 * pair};
    else
        return {sums.value(pair, 2 * outer), sums.value(pair, 2 * outer + 1), row, 8 * pair + 2 * t};
}

// m0, n0: the warp's origin.
__device__ __forceinline__ void store_partial(const TileSums<kHalfSum> (&sums)[kTilesM][kTilesN], Sum *partial, i64 m0, i64 n0, i64 m, i64 n) {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int j = 0; j < kTilesN; ++j)
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const Pair p = pair_of(sums[i][j], part / 2, part % 2);
                put_partial(partial, m0 + i * 16 + p.row, n0 + j * 16 + p.column, p.first, p.second, m, n);
            }
}

__device__ __forceinline__ void store_result(const TileSums<kHalfSum> (&sums)[kTilesM][kTilesN], Slab<WARP_N> slab, const C::type *bias, C::type *c, i64 m0, i64 n0, i64 m, i64 n, i64 ldc) {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < kTilesN; ++j)
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const Pair p = pair_of(sums[i][j], part / 2, part % 2);
                slab.put(p.row, j * 16 + p.column, p.first, p.second, bias, n0, n);
            }
        slab.write(c, m0 + i * 16, n0, m, n, ldc);
    }
}

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(carver::kThreads, 1)
carver_matmul(const carver::A::type *__restrict__ a, const carver::B::type *__restrict__ b, const carver::C::type *__restrict__ bias,
              carver::C::type *__restrict__ c, carver::Sum *__restrict__ workspace, carver::i64 m, carver::i64 n, carver::i64 k,
              carver::i64 batches, carver::i64 lda, carver::i64 ldb, carver::i64 ldc) {
    using namespace carver;
    const Work work = work_of_block(m, n, k);
    const int warp = threadIdx.x / 32, warp_m = warp % kWarpsM, warp_n = warp / kWarpsM;

    OperandA operand_a;
    OperandB operand_b;
    operand_a.start(a + work.batch * (TRANS_A ? k : m) * lda, lda, work.m0, m, work.k0, warp_m);
    operand_b.start(reinterpret_cast<const A::type *>(b + work.batch * (TRANS_B ? n : k) * ldb), ldb, work.n0, n, work.k0, warp_n);

    TileSums<kHalfSum> sums[kTilesM][kTilesN] = {};
    main_loop(sums, operand_a, operand_b, shared_address(shared_memory), work.steps, k - work.k0);

    const i64 m0 = work.m0 + warp_m * WARP_M, n0 = work.n0 + warp_n * WARP_N;
    if constexpr (SPLIT_K > 1) {
        store_partial(sums, workspace + (work.split * batches + work.batch) * m * n, m0, n0, m, n);
    } else {
        __syncthreads();  // the last fragments are read: the stages become the warps' slabs
        store_result(sums, {shared_memory + warp * Slab<WARP_N>::kBytes}, bias, c + work.batch * m * ldc, m0, n0, m, n, ldc);
    }
}
