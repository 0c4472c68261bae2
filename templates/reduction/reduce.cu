// Y = sum, maximum or mean (REDUCE_OP 0, 1, 2) of X[r,c] along rows (AXIS = 1, Y[r]), or of X[b,r,c] down columns (AXIS = 0,
// Y[b,c]).
//
// A block walks BLOCK_R x BLOCK_C tiles along the reduced axis; every thread joins what it reads in registers, and the threads
// of one output meet once, at the end. Blocks share an output where there are few of them: CLUSTER of them meet in shared
// memory, and SPLIT such clusters leave partial results in the workspace, which a second launch joins in a fixed order.
#ifndef REDUCE_OP
#define REDUCE_OP 0
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif

#include "common/cluster.cuh"
#include "common/reduce.cuh"

namespace carver {

static_assert(CLUSTER == 1 || CLUSTER == 2 || CLUSTER == 4 || CLUSTER == 8, "a cluster has 1, 2, 4 or 8 blocks");
static_assert(REDUCE_OP == CARVER_SUM || REDUCE_OP == CARVER_MAX || REDUCE_OP == CARVER_MEAN, "sum, maximum or mean");

using Join = JoinOf<REDUCE_OP == CARVER_MAX, X_DTYPE == CARVER_I32>::type;
using Sum = decltype(Join::value);

constexpr int kOutputs = AXIS == 1 ? BLOCK_R : BLOCK_C, kStep = AXIS == 1 ? BLOCK_C : BLOCK_R;
constexpr int kShared = AXIS == 1 ? Block::kRowSharedValues : Block::kColumnSharedValues;
constexpr int kSmemBytes = (kShared + (CLUSTER > 1 ? kOutputs : 0)) * static_cast<int>(sizeof(Join));
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

// What a thread has joined so far: an output a row of its tile (AXIS = 1), or one a column.
struct Sums {
    Join row[Block::kRowTrips], column[Block::kColumnTrips][VEC];
};

template <bool WHOLE> __device__ __forceinline__ void read_tile(Sums &sums, const X::type *x, i64 leading, i64 rows, i64 columns) {
    Vector<X::type, VEC> tile[Block::kRowTrips][Block::kColumnTrips];
    Block::load<WHOLE, ALIGN_X, true>(tile, x, leading, rows, columns, X::store(static_cast<X::sum>(Join::none().value)));
#pragma unroll
    for (int i = 0; i < Block::kRowTrips; ++i)
#pragma unroll
        for (int j = 0; j < Block::kColumnTrips; ++j) {
            Sum piece[VEC];
            widen<X_DTYPE>(tile[i][j], piece);
#pragma unroll
            for (int e = 0; e < VEC; ++e) {
                Join &sum = AXIS == 1 ? sums.row[i] : sums.column[j][e];
                sum = Join::join(sum, Join{piece[e]});
            }
        }
}

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void CARVER_CLUSTER(CLUSTER) __launch_bounds__(THREADS, 1)
carver_reduce(const carver::X::type *__restrict__ x, carver::Y::type *__restrict__ y, carver::Sum *__restrict__ workspace, carver::i64 b, carver::i64 r, carver::i64 c) {
    using namespace carver;
    const i64 outputs = AXIS == 1 ? r : c, extent = AXIS == 1 ? c : r;
    const unsigned tiles = static_cast<unsigned>(ceil_div(outputs, kOutputs));
    const unsigned cluster = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    const int split = static_cast<int>(cluster / tiles % SPLIT);
    const i64 batch = AXIS == 1 ? 0 : cluster / (tiles * SPLIT);
    const i64 first = static_cast<i64>(cluster % tiles) * kOutputs, here = outputs - first;
    const Steps steps = steps_of<kStep, SPLIT * CLUSTER>(extent, split * CLUSTER + rank);
    x += AXIS == 1 ? first * c + steps.first : (batch * r + steps.first) * c + first;
    y += batch * outputs;

    Sums sums;
    for (Join &sum : sums.row) sum = Join::none();
    for (auto &columns : sums.column)
        for (Join &sum : columns) sum = Join::none();

    i64 left = extent - steps.first;
    const i64 whole = here >= kOutputs ? least(steps.count, left / kStep) : 0;
    const i64 advance = AXIS == 1 ? kStep : kStep * c;
#pragma unroll 1
    for (i64 step = 0; step < whole; ++step, x += advance, left -= kStep) read_tile<true>(sums, x, c, 0, 0);
#pragma unroll 1
    for (i64 step = whole; step < steps.count; ++step, x += advance, left -= kStep)
        read_tile<false>(sums, x, c, AXIS == 1 ? here : left, AXIS == 1 ? left : here);

    const auto write = [&](int place, Join sum) {
        if (place >= here) return;
        if constexpr (SPLIT > 1)
            workspace[(split * b + batch) * outputs + first + place] = sum.value;
        else
            y[first + place] = finish<REDUCE_OP == CARVER_MEAN>(sum, extent);
    };
    Join *const shared = reinterpret_cast<Join *>(shared_memory), *const ours = shared + kShared;
    const auto leave = [&](int place, Join sum) {
        if constexpr (CLUSTER > 1)
            ours[place] = sum;
        else
            write(place, sum);
    };
    if constexpr (AXIS == 1) {
        Block::combine_rows(sums.row, shared);
        if (Block::lane() == 0) {
#pragma unroll
            for (int i = 0; i < Block::kRowTrips; ++i) leave(Block::row(i), sums.row[i]);
        }
    } else {
        Block::combine_columns(sums.column, shared);
        if (Block::group() == 0) {
#pragma unroll
            for (int j = 0; j < Block::kColumnTrips; ++j)
#pragma unroll
                for (int e = 0; e < VEC; ++e) leave(Block::column(j) + e, sums.column[j][e]);
        }
    }
    if constexpr (CLUSTER > 1)
        join_cluster<CLUSTER, kOutputs, THREADS>(ours, write);
}

// Joins the SPLIT partial results of each output, one output a thread.
extern "C" __global__ void __launch_bounds__(256)
carver_reduce_join(const carver::Sum *__restrict__ workspace, carver::Y::type *__restrict__ y, carver::i64 outputs, carver::i64 extent) {
    using namespace carver;
    const i64 index = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
    if (index >= outputs) return;
    Join sum = {workspace[index]};
#pragma unroll
    for (int split = 1; split < SPLIT; ++split) sum = Join::join(sum, Join{workspace[split * outputs + index]});
    y[index] = finish<REDUCE_OP == CARVER_MEAN>(sum, extent);
}
