// C[b,m,n] = epilogue(sum_k A[b,m,k] B[b,k,n]) on the CUDA cores, for every GPU and element type.
//
// A block computes one BLOCK_M x BLOCK_N tile, a thread THREAD_M x THREAD_N of it. Tiles of A and B go through registers,
// where they become the type that is added up, into shared memory as rows of k. STAGES = 2 has a second buffer there, which
// saves one of two barriers a step.
#ifndef A_DTYPE
#define A_DTYPE 1
#endif
#ifndef B_DTYPE
#define B_DTYPE A_DTYPE
#endif
#ifndef C_DTYPE
#define C_DTYPE A_DTYPE
#endif
#ifndef BLOCK_K
#define BLOCK_K 16
#endif
#ifndef THREAD_M
#define THREAD_M 8
#endif
#ifndef THREAD_N
#define THREAD_N 8
#endif
#ifndef STAGES
#define STAGES 2
#endif

#include "common/matmul.cuh"

namespace carver {

constexpr int kThreadsM = BLOCK_M / THREAD_M, kThreadsN = BLOCK_N / THREAD_N;
constexpr int kThreads = kThreadsM * kThreadsN;

static_assert(BLOCK_M % THREAD_M == 0 && BLOCK_N % THREAD_N == 0, "thread tiles divide the block tile");
static_assert(kThreads <= 1024 && kThreads % 32 == 0, "whole warps, at most 1024 threads");
static_assert(STAGES == 1 || STAGES == 2, "one or two buffers");

// One operand. BLOCK and THREAD count elements of m or n, THREADS the threads along it.
template <typename ELEMENT, int BLOCK, int THREAD, bool K_CONTIGUOUS, int ALIGN> struct Operand {
    using T = typename ELEMENT::type;
    static constexpr int kRows = K_CONTIGUOUS ? BLOCK : BLOCK_K, kColumns = K_CONTIGUOUS ? BLOCK_K : BLOCK;

    // Each thread fetches kTrips vectors of a step.
    static constexpr int kVector = least<int>(kColumns, most<int>(1, least(16, ALIGN) / sizeof(T)));
    static constexpr int kPerRow = kColumns / kVector, kPieces = kRows * kPerRow, kTrips = ceil_div(kPieces, kThreads);
    static_assert(kColumns % kVector == 0, "a row of the tile is a whole number of vectors");

    // In shared memory: BLOCK_K rows. Where they are written down the columns, 16 bytes more keep the writes apart.
    static constexpr int kPitch = BLOCK + (K_CONTIGUOUS ? 16 / static_cast<int>(sizeof(Sum)) : 0);

    // A thread's elements are kGroups vectors of kRead, so that neighbours read neighbouring vectors.
    static constexpr int kRead = least<int>(THREAD, 16 / sizeof(Sum)), kGroups = THREAD / kRead;
    static_assert(THREAD % kRead == 0, "a thread tile is a whole number of 16-byte vectors, or one smaller power of two");

    const T *source;  // the tile's origin in the next step
    i64 leading;
    int extent;  // elements of m or n left from the tile's origin, at most BLOCK
    Vector<T, kVector> fetched[kTrips];

    __device__ __forceinline__ void start(const T *base, i64 leading_, i64 origin, i64 size, i64 k0) {
        leading = leading_;
        extent = static_cast<int>(least<i64>(size - origin, BLOCK));
        source = base + (K_CONTIGUOUS ? origin * leading + k0 : k0 * leading + origin);
    }
    __device__ __forceinline__ void fetch(int k_left) {
        const int rows = K_CONTIGUOUS ? extent : k_left, columns = K_CONTIGUOUS ? k_left : extent;
#pragma unroll
        for (int trip = 0; trip < kTrips; ++trip) {
            const int piece = threadIdx.x + trip * kThreads, row = piece / kPerRow, column = piece % kPerRow * kVector;
            const T *from = source + row * leading + column;
            if (row < rows && column + kVector <= columns) {
                fetched[trip] = load_vector<kVector>(from);
            } else {
#pragma unroll
                for (int e = 0; e < kVector; ++e) fetched[trip].at[e] = row < rows && column + e < columns ? from[e] : T{};
            }
        }
        source += K_CONTIGUOUS ? static_cast<i64>(BLOCK_K) : BLOCK_K * leading;
    }
    __device__ __forceinline__ void put(Sum *tile) const {
#pragma unroll
        for (int trip = 0; trip < kTrips; ++trip) {
            const int piece = threadIdx.x + trip * kThreads, row = piece / kPerRow, column = piece % kPerRow * kVector;
            if (kPieces % kThreads != 0 && piece >= kPieces) break;
#pragma unroll
            for (int e = 0; e < kVector; ++e)
                tile[K_CONTIGUOUS ? (column + e) * kPitch + row : row * kPitch + column + e] = ELEMENT::load(fetched[trip].at[e]);
        }
    }
    // The thread's elements of one row of k; `thread` counts along m or n, of `threads`.
    static __device__ __forceinline__ void read(Sum (&out)[THREAD], const Sum *tile, int k, int thread, int threads) {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            const auto v = load_vector<kRead>(tile + k * kPitch + (group * threads + thread) * kRead);
#pragma unroll
            for (int e = 0; e < kRead; ++e) out[group * kRead + e] = v.at[e];
        }
    }
};

using OperandA = Operand<A, BLOCK_M, THREAD_M, !TRANS_A, ALIGN_A>;
using OperandB = Operand<B, BLOCK_N, THREAD_N, TRANS_B, ALIGN_B>;

constexpr int kTileA = BLOCK_K * OperandA::kPitch, kTileB = BLOCK_K * OperandB::kPitch;
constexpr int kSmemBytes = STAGES * (kTileA + kTileB) * static_cast<int>(sizeof(Sum));
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(carver::kThreads, 1)
carver_matmul(const carver::A::type *__restrict__ a, const carver::B::type *__restrict__ b, const carver::C::type *__restrict__ bias,
              carver::C::type *__restrict__ c, carver::Sum *__restrict__ workspace, carver::i64 m, carver::i64 n, carver::i64 k,
              carver::i64 batches, carver::i64 lda, carver::i64 ldb, carver::i64 ldc) {
    using namespace carver;
    const Work work = work_of_block(m, n, k);

    // A warp is 4 x 8 threads where the block is wide enough: it then reads the fewest different vectors.
    constexpr bool kSquare = kThreadsM % 4 == 0 && kThreadsN % 8 == 0;
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int thread_m = kSquare ? warp / (kThreadsN / 8 + !kSquare) * 4 + lane / 8 : thread / kThreadsN;
    const int thread_n = kSquare ? warp % (kThreadsN / 8 + !kSquare) * 8 + lane % 8 : thread % kThreadsN;

    OperandA operand_a;
    OperandB operand_b;
    operand_a.start(a + work.batch * (TRANS_A ? k : m) * lda, lda, work.m0, m, work.k0);
    operand_b.start(b + work.batch * (TRANS_B ? n : k) * ldb, ldb, work.n0, n, work.k0);

    Sum *const tiles = reinterpret_cast<Sum *>(shared_memory);
    Sum sums[THREAD_M][THREAD_N] = {};
    i64 k_left = k - work.k0;
    const auto fetch = [&] {
        const int left = static_cast<int>(least<i64>(k_left, BLOCK_K));
        operand_a.fetch(left);
        operand_b.fetch(left);
        k_left -= BLOCK_K;
    };
    const auto put = [&](int stage) {
        operand_a.put(tiles + stage * (kTileA + kTileB));
        operand_b.put(tiles + stage * (kTileA + kTileB) + kTileA);
    };

    if (work.steps > 0) {
        fetch();
        put(0);
        __syncthreads();
    }
    int stage = 0;
#pragma unroll 1
    for (int step = 0; step < work.steps; ++step) {
        const bool more = step + 1 < work.steps;
        if (more) fetch();
        const Sum *tile_a = tiles + stage * (kTileA + kTileB), *tile_b = tile_a + kTileA;
#pragma unroll 8
        for (int kk = 0; kk < BLOCK_K; ++kk) {
            Sum row[THREAD_M], column[THREAD_N];
            OperandA::read(row, tile_a, kk, thread_m, kThreadsM);
            OperandB::read(column, tile_b, kk, thread_n, kThreadsN);
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
                for (int j = 0; j < THREAD_N; ++j) sums[i][j] += row[i] * column[j];
        }
        if (STAGES == 1) __syncthreads();
        if (more) {
            if (STAGES == 2) stage ^= 1;
            put(stage);
            __syncthreads();
        }
    }

    constexpr int kRead = OperandB::kRead;
    constexpr int kVector = least<int>(kRead, most<int>(1, least(16, ALIGN_C) / sizeof(C::type)));
    Sum *const partial = workspace + (work.split * batches + work.batch) * m * n;
    C::type *const result = c + work.batch * m * ldc;
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
        const i64 row = work.m0 + (i / OperandA::kRead * kThreadsM + thread_m) * OperandA::kRead + i % OperandA::kRead;
        if (row >= m) continue;
#pragma unroll
        for (int j = 0; j < THREAD_N; j += kRead) {
            const i64 column = work.n0 + (j / kRead * kThreadsN + thread_n) * kRead;
            if constexpr (SPLIT_K > 1) {
                Vector<Sum, kRead> out;
#pragma unroll
                for (int e = 0; e < kRead; ++e) out.at[e] = sums[i][j + e];
                if (n % kRead == 0) {
                    if (column < n) store_vector<kRead>(partial + row * n + column, out);
                } else {
#pragma unroll
                    for (int e = 0; e < kRead; ++e)
                        if (column + e < n) partial[row * n + column + e] = out.at[e];
                }
            } else {
#pragma unroll
                for (int v = 0; v < kRead; v += kVector) {
                    Vector<C::type, kVector> out;
#pragma unroll
                    for (int e = 0; e < kVector; ++e) out.at[e] = finish<C>(sums[i][j + v + e], bias, least(column + v + e, n - 1));
                    if (column + v + kVector <= n) {
                        store_vector<kVector>(result + row * ldc + column + v, out);
                    } else {
#pragma unroll
                        for (int e = 0; e < kVector; ++e)
                            if (column + v + e < n) result[row * ldc + column + v + e] = out.at[e];
                    }
                }
            }
        }
    }
}
