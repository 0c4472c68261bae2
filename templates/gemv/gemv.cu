// Y[b,n] = epilogue(sum_k X[b,k] A[b,n,k]), or A[b,k,n] with TRANS_A.
//
// A block reads BLOCK_N x BLOCK_K tiles of A along k and keeps the sums of its BLOCK_N outputs in registers. Blocks share the
// k of one output: CLUSTER of them meet in shared memory, SPLIT_K such clusters in the workspace, in a fixed order.
#ifndef A_DTYPE
#define A_DTYPE 3
#endif
#ifndef X_DTYPE
#define X_DTYPE A_DTYPE
#endif
#ifndef Y_DTYPE
#define Y_DTYPE A_DTYPE
#endif
#ifndef TRANS_A
#define TRANS_A 0
#endif
#ifndef BLOCK_N
#define BLOCK_N 16
#endif
#ifndef BLOCK_K
#define BLOCK_K 1024
#endif
#ifndef THREADS
#define THREADS 256
#endif
#ifndef VEC
#define VEC 8
#endif
#ifndef SPLIT_K
#define SPLIT_K 1
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif
#ifndef ALIGN_A
#define ALIGN_A 16
#endif
#ifndef ALIGN_X
#define ALIGN_X 16
#endif

#include "common/cluster.cuh"
#include "common/epilogue.cuh"
#include "common/tile.cuh"

namespace carver {

using A = Element<A_DTYPE>;
using X = Element<X_DTYPE>;
using Y = Element<Y_DTYPE>;
using Total = SumOf<A::sum>;
static_assert(CLUSTER == 1 || CLUSTER == 2 || CLUSTER == 4 || CLUSTER == 8, "a cluster has 1, 2, 4 or 8 blocks");
static_assert(sizeof(A::sum) == sizeof(X::sum) && is_integer<A::sum>() == is_integer<X::sum>(), "A and X must be added up in one type");

using Block = Tile<TRANS_A ? BLOCK_K : BLOCK_N, TRANS_A ? BLOCK_N : BLOCK_K, THREADS, VEC>;
constexpr int kShared = TRANS_A ? Block::kColumnSharedValues : Block::kRowSharedValues;
constexpr int kSmemBytes = (kShared + (CLUSTER > 1 ? BLOCK_N : 0)) * static_cast<int>(sizeof(Total));
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

// Sums of a thread: one a row of its tile, or one a column.
struct RowSums {
    Total at[Block::kRowTrips];
};
struct ColumnSums {
    Total at[Block::kColumnTrips][VEC];
};

template <bool WHOLE>
__device__ __forceinline__ void add_rows(RowSums &sums, const A::type *a, const X::type *x, i64 leading, i64 rows, i64 k) {
    Vector<A::type, VEC> tile[Block::kRowTrips][Block::kColumnTrips];
    Block::template load<WHOLE, ALIGN_A>(tile, a, leading, rows, k, A::type{});
#pragma unroll
    for (int j = 0; j < Block::kColumnTrips; ++j) {
        const X::type *const from = x + Block::column(j);
        const int count = WHOLE ? VEC : static_cast<int>(least<i64>(VEC, k - Block::column(j)));
        const auto part = count == VEC ? load_aligned<VEC, ALIGN_X>(from) : load_first<VEC>(from, count, X::type{});
#pragma unroll
        for (int i = 0; i < Block::kRowTrips; ++i)
#pragma unroll
            for (int e = 0; e < VEC; ++e) sums.at[i].value += A::load(tile[i][j].at[e]) * X::load(part.at[e]);
    }
}

template <bool WHOLE>
__device__ __forceinline__ void add_columns(ColumnSums &sums, const A::type *a, const X::type *x, i64 leading, i64 k, i64 columns) {
    Vector<A::type, VEC> tile[Block::kRowTrips][Block::kColumnTrips];
    Block::template load<WHOLE, ALIGN_A>(tile, a, leading, k, columns, A::type{});
#pragma unroll
    for (int i = 0; i < Block::kRowTrips; ++i) {
        const X::type one = WHOLE || Block::row(i) < k ? x[Block::row(i)] : X::type{};
#pragma unroll
        for (int j = 0; j < Block::kColumnTrips; ++j)
#pragma unroll
            for (int e = 0; e < VEC; ++e) sums.at[j][e].value += A::load(tile[i][j].at[e]) * X::load(one);
    }
}

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void CARVER_CLUSTER(CLUSTER) __launch_bounds__(THREADS, 1)
carver_gemv(const carver::X::type *__restrict__ x, const carver::A::type *__restrict__ a, const carver::Y::type *__restrict__ bias,
            carver::Y::type *__restrict__ y, carver::A::sum *__restrict__ workspace, carver::i64 n, carver::i64 k, carver::i64 batches, carver::i64 lda) {
    using namespace carver;
    const unsigned tiles = static_cast<unsigned>(ceil_div(n, BLOCK_N));
    const unsigned cluster = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER, slice = cluster / tiles;
    const int split = static_cast<int>(slice % SPLIT_K);
    const i64 batch = slice / SPLIT_K, n0 = static_cast<i64>(cluster % tiles) * BLOCK_N;
    const Steps steps = steps_of<BLOCK_K, SPLIT_K * CLUSTER>(k, split * CLUSTER + rank);
    const i64 outputs = n - n0;
    i64 left = k - steps.first;

    x += batch * k + steps.first;
    a += batch * (TRANS_A ? k : n) * lda + (TRANS_A ? steps.first * lda + n0 : n0 * lda + steps.first);
    const i64 advance = TRANS_A ? BLOCK_K * lda : BLOCK_K;
    const bool inside = outputs >= BLOCK_N;
    const i64 whole = inside ? least(steps.count, left / BLOCK_K) : 0;
    const auto write = [&](int place, Total sum) {
        const i64 row = n0 + place;
        if (row >= n) return;
        if constexpr (SPLIT_K > 1)
            workspace[(split * batches + batch) * n + row] = sum.value;
        else
            y[batch * n + row] = finish<Y>(sum.value, bias, row);
    };
    Total *const shared = reinterpret_cast<Total *>(shared_memory), *const ours = shared + kShared;
    const auto leave = [&](int place, Total sum) {
        if constexpr (CLUSTER > 1)
            ours[place] = sum;
        else
            write(place, sum);
    };

    if constexpr (TRANS_A) {
        ColumnSums sums = {};
#pragma unroll 1
        for (i64 step = 0; step < whole; ++step, a += advance, x += BLOCK_K, left -= BLOCK_K) add_columns<true>(sums, a, x, lda, left, outputs);
#pragma unroll 1
        for (i64 step = whole; step < steps.count; ++step, a += advance, x += BLOCK_K, left -= BLOCK_K) add_columns<false>(sums, a, x, lda, left, outputs);
        Block::combine_columns(sums.at, shared);
        if (Block::group() == 0) {
#pragma unroll
            for (int j = 0; j < Block::kColumnTrips; ++j)
#pragma unroll
                for (int e = 0; e < VEC; ++e) leave(Block::column(j) + e, sums.at[j][e]);
        }
    } else {
        RowSums sums = {};
#pragma unroll 1
        for (i64 step = 0; step < whole; ++step, a += advance, x += BLOCK_K, left -= BLOCK_K) add_rows<true>(sums, a, x, lda, outputs, left);
#pragma unroll 1
        for (i64 step = whole; step < steps.count; ++step, a += advance, x += BLOCK_K, left -= BLOCK_K) add_rows<false>(sums, a, x, lda, outputs, left);
        Block::combine_rows(sums.at, shared);
        if (Block::lane() == 0) {
#pragma unroll
            for (int i = 0; i < Block::kRowTrips; ++i) leave(Block::row(i), sums.at[i]);
        }
    }
    if constexpr (CLUSTER > 1) join_cluster<CLUSTER, BLOCK_N, THREADS>(ours, write);
}

// Adds the SPLIT_K sums of each output, one output a thread.
extern "C" __global__ void __launch_bounds__(256)
carver_gemv_reduce(const carver::A::sum *__restrict__ workspace, const carver::Y::type *__restrict__ bias, carver::Y::type *__restrict__ y, carver::i64 n, carver::i64 b) {
    using namespace carver;
    const i64 index = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
    if (index >= b * n) return;
    A::sum sum = workspace[index];
#pragma unroll
    for (int split = 1; split < SPLIT_K; ++split) sum += workspace[split * b * n + index];
    y[index] = finish<Y>(sum, bias, index % n);
}
