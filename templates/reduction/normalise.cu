// Y[r,c] = softmax, layer norm or RMS norm (REDUCE_OP 3, 4, 5) of X[r,c] along rows (AXIS = 1) or down columns (AXIS = 0).
//
// A block owns BLOCK_R rows (BLOCK_C columns) and walks them twice in BLOCK_R x BLOCK_C tiles: forwards to join the statistics,
// which one reading is enough for, and backwards to write the result. The tile where it turns is still in registers, so data
// that fits one tile is read once.
#ifndef REDUCE_OP
#define REDUCE_OP 3
#endif

#include "common/reduce.cuh"

namespace carver {

template <typename T, int OP> struct StatisticsOf { using type = Exponentials<T>; };
template <typename T> struct StatisticsOf<T, CARVER_LAYER_NORM> { using type = Moments<T>; };
template <typename T> struct StatisticsOf<T, CARVER_RMS_NORM> { using type = Squares<T>; };
static_assert(REDUCE_OP >= CARVER_SOFTMAX && REDUCE_OP <= CARVER_RMS_NORM, "softmax, layer norm or RMS norm");

using Real = Wide<X_DTYPE == CARVER_F64>::type;
using Statistics = StatisticsOf<Real, REDUCE_OP>::type;

constexpr int kSmemBytes = (AXIS == 1 ? Block::kRowSharedValues : Block::kColumnSharedValues) * static_cast<int>(sizeof(Statistics));
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

using Values = Vector<X::type, VEC>[Block::kRowTrips][Block::kColumnTrips];

// A block loads, then computes, then stores: others have to fill the gaps. Where a thread's part of a tile is small, the
// compiler may take no more registers than let 1024 threads (512) stay on an SM, in no more than the 16 blocks that every
// device takes. 8-bit elements count double, since several at a time become floats.
constexpr int kHeld = Block::kRowTrips * Block::kColumnTrips * most(4, VEC * most(2, static_cast<int>(sizeof(X::type))) / 4);
constexpr int kJoined = (AXIS == 1 ? Block::kColumnTrips * VEC : Block::kRowTrips) * static_cast<int>(sizeof(Real)) / 4;
constexpr int kOutputsHere = AXIS == 1 ? Block::kRowTrips : Block::kColumnTrips * VEC;
constexpr int kKept = kOutputsHere * static_cast<int>(sizeof(Statistics)) / 4;
constexpr int kBusy = kHeld + kJoined + 2 * kKept;
constexpr int kResident = most(1, least(16, (kBusy <= 36 ? 1024 : kBusy <= 52 ? 512 : 0) / THREADS));

// What a thread has joined so far: of each row of its tile (AXIS = 1), or of each column.
struct All {
    Statistics row[Block::kRowTrips], column[Block::kColumnTrips][VEC];
};

template <bool WHOLE> __device__ __forceinline__ void join_tile(All &all, const Values &tile, i64 rows, i64 columns) {
    if constexpr (AXIS == 1) {
        int count = 0;  // elements of a row that this thread has: the first ones in the order of its vectors
#pragma unroll
        for (int j = 0; j < Block::kColumnTrips; ++j) count += static_cast<int>(most<i64>(0, least<i64>(VEC, columns - Block::column(j))));
#pragma unroll
        for (int i = 0; i < Block::kRowTrips; ++i) {
            Real x[Block::kColumnTrips * VEC];
#pragma unroll
            for (int j = 0; j < Block::kColumnTrips; ++j) {
                Real piece[VEC];
                widen<X_DTYPE>(tile[i][j], piece);
#pragma unroll
                for (int e = 0; e < VEC; ++e) x[j * VEC + e] = piece[e];
            }
            all.row[i] = Statistics::join(all.row[i], Statistics::of(x, WHOLE ? Block::kColumnTrips * VEC : count));
        }
    } else {
        int count = 0;
#pragma unroll
        for (int i = 0; i < Block::kRowTrips; ++i) count += Block::row(i) < rows;
#pragma unroll
        for (int j = 0; j < Block::kColumnTrips; ++j)
#pragma unroll
            for (int e = 0; e < VEC; ++e) {
                Real x[Block::kRowTrips];
#pragma unroll
                for (int i = 0; i < Block::kRowTrips; ++i) x[i] = static_cast<Real>(X::load(tile[i][j].at[e]));
                all.column[j][e] = Statistics::join(all.column[j][e], Statistics::of(x, WHOLE ? Block::kRowTrips : count));
            }
    }
}

// offset and factor: those of the rows, or of the columns.
template <bool WHOLE, int N>
__device__ __forceinline__ void write_tile(Y::type *y, const Values &tile, const Real (&offset)[N], const Real (&factor)[N], i64 leading, i64 rows, i64 columns) {
#pragma unroll
    for (int i = 0; i < Block::kRowTrips; ++i)
#pragma unroll
        for (int j = 0; j < Block::kColumnTrips; ++j) {
            Real piece[VEC];
            widen<X_DTYPE>(tile[i][j], piece);
#pragma unroll
            for (int e = 0; e < VEC; ++e) {
                const int which = AXIS == 1 ? i : j * VEC + e;
                piece[e] = Statistics::curve(piece[e] - offset[which]) * factor[which];
            }
            const Vector<Y::type, VEC> out = narrow<Y_DTYPE>(piece);
            Y::type *to = y + Block::row(i) * leading + Block::column(j);
            if (WHOLE || (Block::row(i) < rows && Block::column(j) + VEC <= columns)) {
                store_aligned<VEC, ALIGN_Y, true>(to, out);
            } else {
#pragma unroll
                for (int e = 0; e < VEC; ++e)
                    if (Block::row(i) < rows && Block::column(j) + e < columns) to[e] = out.at[e];
            }
        }
}

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(THREADS, carver::kResident)
carver_normalise(const carver::X::type *__restrict__ x, carver::Y::type *__restrict__ y, carver::i64 r, carver::i64 c) {
    using namespace carver;
    constexpr int kOutputs = AXIS == 1 ? BLOCK_R : BLOCK_C, kStep = AXIS == 1 ? BLOCK_C : BLOCK_R;
    const i64 outputs = AXIS == 1 ? r : c, extent = AXIS == 1 ? c : r;
    const i64 first = static_cast<i64>(blockIdx.x) * kOutputs, here = outputs - first;
    const i64 start = AXIS == 1 ? first * c : first, advance = AXIS == 1 ? kStep : kStep * c;
    const i64 steps = ceil_div(extent, kStep), whole = here >= kOutputs ? extent / kStep : 0;
    const auto rows = [&](i64 step) { return AXIS == 1 ? here : extent - step * kStep; };
    const auto columns = [&](i64 step) { return AXIS == 1 ? extent - step * kStep : here; };

    All all;
    for (Statistics &s : all.row) s = Statistics::none();
    for (auto &line : all.column)
        for (Statistics &s : line) s = Statistics::none();

    Values tile;
    const auto load = [&](i64 step) {
        if (step < whole)
            Block::load<true, ALIGN_X>(tile, x + start + step * advance, c, 0, 0, X::type{});
        else
            Block::load<false, ALIGN_X>(tile, x + start + step * advance, c, rows(step), columns(step), X::type{});
    };
#pragma unroll 1
    for (i64 step = 0; step < steps; ++step) {
        load(step);
        if (step < whole)
            join_tile<true>(all, tile, 0, 0);
        else
            join_tile<false>(all, tile, rows(step), columns(step));
    }

    constexpr int kMine = AXIS == 1 ? Block::kRowTrips : Block::kColumnTrips * VEC;
    Real offset[kMine], factor[kMine];
    Statistics *const shared = reinterpret_cast<Statistics *>(shared_memory);
    if constexpr (AXIS == 1)
        Block::combine_rows(all.row, shared);
    else
        Block::combine_columns(all.column, shared);
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
        const Statistics &s = AXIS == 1 ? all.row[i] : all.column[i / VEC][i % VEC];
        offset[i] = s.offset();
        factor[i] = s.factor();
    }
#pragma unroll 1
    for (i64 step = steps - 1; step >= 0; --step) {
        if (step < steps - 1) load(step);
        Y::type *const to = y + start + step * advance;
        if (step < whole)
            write_tile<true>(to, tile, offset, factor, c, 0, 0);
        else
            write_tile<false>(to, tile, offset, factor, c, rows(step), columns(step));
    }
}
