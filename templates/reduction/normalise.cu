// Y[r,c] = softmax, layer norm or RMS norm (REDUCE_OP 3, 4, 5) of X[r,c] along rows (AXIS = 1) or down columns (AXIS = 0).
//
// A block owns BLOCK_R rows (BLOCK_C columns) and walks them twice in BLOCK_R x BLOCK_C tiles: forwards to join the statistics,
// which one reading is enough for, and backwards to write the result. The tile where it turns is still in registers, so data
// that fits one tile is read once. The elements of a tile widen into registers of their own, and those that it was read into
// take the next tile while this one is worked on.
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

constexpr int kOutputsHere = AXIS == 1 ? Block::kRowTrips : Block::kColumnTrips * VEC;
constexpr int kPerOutput = AXIS == 1 ? Block::kColumnTrips * VEC : Block::kRowTrips;

// Warps hide each other's waits, so the compiler may take no more registers than there is to keep: a tile on its way, one at
// work, statistics, a third of that or 18 for the rest, and 16 more for the functions of doubles. 8-bit elements count four
// times, since several at a time become floats. An SM's four schedulers have 512 registers a lane; every device takes 16 blocks.
constexpr int kWords = static_cast<int>(sizeof(Real)) / 4, kBytes = static_cast<int>(sizeof(X::type));
constexpr int kLoaded = Block::kRowTrips * Block::kColumnTrips * most(4, VEC * (kBytes == 1 ? 4 : kBytes) / 4);
constexpr int kBusy = kLoaded + kOutputsHere * (kPerOutput * kWords + 3 * static_cast<int>(sizeof(Statistics)) / 4);
constexpr int kRegisters = 8 * ceil_div(kBusy + most(18, kBusy / 3) + 16 * (kWords - 1), 8);
constexpr int kResident = most(1, least(16, 512 / kRegisters * 4 / Block::kWarps));

// A thread's elements by the output that they belong to: a row (AXIS = 1) or a column.
using Elements = Real[kOutputsHere][kPerOutput];
__device__ __forceinline__ Real &element(Elements &x, int i, int j, int e) { return AXIS == 1 ? x[i][j * VEC + e] : x[j * VEC + e][i]; }

// WHOLE: rows and columns, of which the tile has the first ones, are not asked for.
template <bool WHOLE> __device__ __forceinline__ void measure(Statistics (&part)[kOutputsHere], Elements &x, int rows, int columns) {
    int count = WHOLE ? kPerOutput : 0;
    if constexpr (!WHOLE && AXIS == 1) {
#pragma unroll
        for (int j = 0; j < Block::kColumnTrips; ++j) count += most(0, Block::inside(0, j, BLOCK_R, columns));
    } else if constexpr (!WHOLE) {
#pragma unroll
        for (int i = 0; i < Block::kRowTrips; ++i) count += Block::row(i) < rows;
    }
#pragma unroll
    for (int i = 0; i < kOutputsHere; ++i) part[i] = Statistics::of(x[i], count);
}

template <typename V, int N> __device__ __forceinline__ void combine(V (&all)[N], V *shared) {
    if constexpr (AXIS == 1)
        Block::combine_rows(all, shared);
    else
        Block::combine_columns(reinterpret_cast<V(&)[N / VEC][VEC]>(all), shared);
}

template <bool WHOLE> __device__ __forceinline__ void write_tile(Y::type *y, Elements &x, i64 leading, int rows, int columns) {
    Y::type *first = Block::mine(y, leading);
#pragma unroll
    for (int i = 0; i < Block::kRowTrips; ++i, first += Block::kGroups * leading)
#pragma unroll
        for (int j = 0; j < Block::kColumnTrips; ++j) {
            Real piece[VEC];
#pragma unroll
            for (int e = 0; e < VEC; ++e) piece[e] = element(x, i, j, e);
            const Vector<Y::type, VEC> out = narrow<Y_DTYPE>(piece);
            Y::type *const to = first + j * Block::kNextColumn;
            const int count = WHOLE ? VEC : Block::inside(i, j, rows, columns);
            if (count == VEC) store_aligned<VEC, ALIGN_Y, true>(to, out);
            if (!WHOLE && columns % VEC != 0) {
#pragma unroll
                for (int e = 0; e < VEC; ++e)
                    if (e < count && count < VEC) to[e] = out.at[e];
            }
        }
}

// A tile: its first element, and how many rows and columns of it exist.
struct Place {
    i64 origin;
    int rows, columns;
    __device__ __forceinline__ bool whole() const { return rows == BLOCK_R && columns == BLOCK_C; }
};

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(THREADS, carver::kResident)
carver_normalise(const carver::X::type *__restrict__ x, carver::Y::type *__restrict__ y, carver::i64 r, carver::i64 c) {
    using namespace carver;
    const int turn = static_cast<int>((AXIS == 1 ? ceil_div(c, BLOCK_C) : ceil_div(r, BLOCK_R)) - 1);
    // The tiles in the order of their visits, 0 .. 2 turn.
    const auto place = [&](int visit) {
        const i64 step = visit <= turn ? visit : 2 * turn - visit;
        const i64 row = (AXIS == 1 ? blockIdx.x : step) * BLOCK_R, column = (AXIS == 1 ? step : blockIdx.x) * BLOCK_C;
        const auto here = [](i64 left, i64 all) { return static_cast<int>(least(left, all)); };
        return Place{row * c + column, here(r - row, BLOCK_R), here(c - column, BLOCK_C)};
    };
    Values tile;
    // The second test is always true. With it ptxas keeps the two kinds of loads apart and takes up to 40 registers fewer.
    const auto load = [&](Place at) {
        if (at.whole())
            Block::load<true, ALIGN_X>(tile, x + at.origin, c, 0, 0, X::type{});
        else if (at.rows > 0 && at.columns > 0)
            Block::load<false, ALIGN_X>(tile, x + at.origin, c, at.rows, at.columns, X::type{});
    };
    load(place(0));
    Statistics all[kOutputsHere];
#pragma unroll 1
    for (int visit = 0; visit <= 2 * turn; ++visit) {
        Elements mine;
#pragma unroll
        for (int i = 0; i < Block::kRowTrips; ++i)
#pragma unroll
            for (int j = 0; j < Block::kColumnTrips; ++j) {
                Real piece[VEC];
                widen<X_DTYPE>(tile[i][j], piece);
#pragma unroll
                for (int e = 0; e < VEC; ++e) element(mine, i, j, e) = piece[e];
            }
        if (visit < 2 * turn) load(place(visit + 1));
        const Place at = place(visit);
        Statistics part[kOutputsHere];
        if (at.whole())
            measure<true>(part, mine, 0, 0);
        else
            measure<false>(part, mine, at.rows, at.columns);
        if (visit == 0) {
#pragma unroll
            for (int i = 0; i < kOutputsHere; ++i) all[i] = part[i];
        } else if (visit <= turn) {
#pragma unroll
            for (int i = 0; i < kOutputsHere; ++i) all[i] = Statistics::join(all[i], part[i]);
        }
        if (visit < turn) continue;
        if (visit == turn) combine(all, reinterpret_cast<Statistics *>(shared_memory));
#pragma unroll
        for (int i = 0; i < kOutputsHere; ++i) {
            const Real offset = all[i].offset(), factor = all[i].factor(part[i]);
#pragma unroll
            for (Real &value : mine[i]) value = (value - offset) * factor;
        }
        if (at.whole())
            write_tile<true>(y + at.origin, mine, c, 0, 0);
        else
            write_tile<false>(y + at.origin, mine, c, at.rows, at.columns);
    }
}
