// C[n*M + m] = sum_k A[k*M + m] B[k*N + n] in float32: CLBlast's Xgemm (GEMMK = 0), written anew with its tunables.
//
// A block computes an MWG x NWG tile in steps of KWG, a thread MWG/MDIMC x NWG/NDIMC of it, read in vectors of VWM and
// VWN. Those of one thread lie side by side or, with STRM (STRN), as far apart as there are threads. With SA (SB) the
// block stages a step of A (B) in shared memory, in rows of MDIMA (NDIMB) threads; without, each thread reads what it
// multiplies from global memory. KWI rows of a step are unrolled. M, N and K are multiples of MWG, NWG and KWG.
//
// Launch: block (MDIMC, NDIMC), grid (M / MWG, N / NWG).

constexpr int kThreads = MDIMC * NDIMC;

static_assert(KWG % KWI == 0, "the unroll divides the step");
static_assert(MWG % (MDIMC * VWM) == 0 && NWG % (NDIMC * VWN) == 0, "thread tiles are whole vectors");
static_assert(MWG % (MDIMA * VWM) == 0 && NWG % (NDIMB * VWN) == 0, "fetches are whole vectors");
static_assert(kThreads % MDIMA == 0 && kThreads % NDIMB == 0, "the threads that fetch divide the block");
static_assert(KWG % (kThreads / MDIMA) == 0 && KWG % (kThreads / NDIMB) == 0, "fetches divide the step");

template <int WIDTH> struct alignas(WIDTH < 4 ? 4 * WIDTH : 16) Vector {  // no load moves more than 16 bytes
    float at[WIDTH];
};

// One operand: rows of k, TILE elements wide, which THREADS share as they multiply and FETCHERS as they stage it.
template <int TILE, int THREADS, int FETCHERS, int WIDTH, bool STRIDED, bool STAGED> struct Operand {
    using V = Vector<WIDTH>;
    static constexpr int kRow = TILE / WIDTH, kOwn = kRow / THREADS, kFetched = kRow / FETCHERS;  // vectors
    static constexpr int kFetchedRows = KWG / (kThreads / FETCHERS);
    static constexpr int kElements = kOwn * WIDTH, kShared = STAGED ? KWG * kRow : 1;

    const V *matrix;
    V *tile;
    int leading, origin;  // a row of the matrix, and the tile's place in it; in vectors

    // Where the i-th of `each` vectors of one of `threads` threads lies in a row of the tile.
    static __device__ __forceinline__ int place(int thread, int i, int threads = THREADS, int each = kOwn) {
        return STRIDED ? thread + i * threads : thread * each + i;
    }

    __device__ __forceinline__ void stage(int k0, int thread) const {
        if constexpr (STAGED) {
            const int lane = thread % FETCHERS, row = thread / FETCHERS * kFetchedRows;
#pragma unroll
            for (int i = 0; i < kFetched; ++i)
#pragma unroll
                for (int j = 0; j < kFetchedRows; ++j) {
                    const int column = place(lane, i, FETCHERS, kFetched), k = row + j;
                    tile[k * kRow + column] = matrix[(k0 + k) * leading + origin + column];
                }
        }
    }

    // A thread's elements of row k of the step that starts at k0.
    __device__ __forceinline__ void read(float (&to)[kElements], int k0, int k, int thread) const {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const int column = place(thread, i);
            const V vector = STAGED ? tile[k * kRow + column] : matrix[(k0 + k) * leading + origin + column];
#pragma unroll
            for (int e = 0; e < WIDTH; ++e) to[i * WIDTH + e] = vector.at[e];
        }
    }
};
using OperandA = Operand<MWG, MDIMC, MDIMA, VWM, STRM, SA>;
using OperandB = Operand<NWG, NDIMC, NDIMB, VWN, STRN, SB>;

extern "C" __global__ void __launch_bounds__(kThreads) xgemm(
    int M, int N, int K, const OperandA::V *__restrict__ A, const OperandB::V *__restrict__ B,
    OperandA::V *__restrict__ C
) {
    __shared__ OperandA::V tile_a[OperandA::kShared];
    __shared__ OperandB::V tile_b[OperandB::kShared];
    const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * MDIMC + tx;
    const OperandA a{A, tile_a, M / VWM, static_cast<int>(blockIdx.x) * OperandA::kRow};
    const OperandB b{B, tile_b, N / VWN, static_cast<int>(blockIdx.y) * OperandB::kRow};

    constexpr int kM = OperandA::kElements, kN = OperandB::kElements;
    float sums[kN][kM] = {};
    for (int k0 = 0; k0 < K; k0 += KWG) {
        a.stage(k0, thread);
        b.stage(k0, thread);
        if (SA || SB) __syncthreads();
#pragma unroll 1
        for (int k = 0; k < KWG; k += KWI) {
#pragma unroll
            for (int i = 0; i < KWI; ++i) {
                float column[kM], row[kN];
                a.read(column, k0, k + i, tx);
                b.read(row, k0, k + i, ty);
#pragma unroll
                for (int n = 0; n < kN; ++n)
#pragma unroll
                    for (int m = 0; m < kM; ++m) sums[n][m] = fmaf(column[m], row[n], sums[n][m]);
            }
        }
        if (SA || SB) __syncthreads();
    }

#pragma unroll
    for (int n = 0; n < kN; ++n) {
        const int row = (b.origin + b.place(ty, n / VWN)) * VWN + n % VWN;
#pragma unroll
        for (int i = 0; i < a.kOwn; ++i) {
            OperandA::V out;
#pragma unroll
            for (int e = 0; e < VWM; ++e) out.at[e] = sums[n][i * VWM + e];
            C[row * a.leading + a.origin + a.place(tx, i)] = out;
        }
    }
}
