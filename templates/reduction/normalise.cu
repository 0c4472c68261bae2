// Y[r,c] = softmax, layer norm or RMS norm (REDUCE_OP 3, 4, 5) of X[r,c] along rows (AXIS = 1) or down columns (AXIS = 0).
//
// A block owns BLOCK_R rows (BLOCK_C columns) and walks them twice in BLOCK_R x BLOCK_C tiles: forwards to join the statistics,
// which one reading is enough for, and backwards to write the result. The tile where it turns is still in registers, so data
// that fits one tile is read once. The elements of a tile widen into registers of their own, and those that it was read into
// take the next tile while this one is worked on.
//
// A row that need not start on a multiple of VEC elements is moved in vectors between the first and the last such multiple.
// The elements before and behind them, its ends, belong to the first tile and stay in registers, one a lane.
#ifndef REDUCE_OP
#define REDUCE_OP 3
#endif

#include "common/reduce.cuh"

namespace carver {

static_assert(REDUCE_OP >= CARVER_SOFTMAX && REDUCE_OP <= CARVER_RMS_NORM, "softmax, layer norm or RMS norm");

using Real = Wide<X_DTYPE == CARVER_F64>::type;
using Statistics = StatisticsOf<Real, REDUCE_OP>::type;

constexpr int kSmemBytes = (AXIS == 1 ? Block::kRowSharedValues : Block::kColumnSharedValues) * static_cast<int>(sizeof(Statistics));
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

using Values = Vector<X::type, VEC>[Block::kRowTrips][Block::kColumnTrips];

constexpr bool kHasEnds = AXIS == 1 && VEC * sizeof(X::type) > ALIGN_X;
constexpr int kEnds = kHasEnds ? ceil_div(2 * (VEC - 1), Block::kLanes) : 0;  // of a row, for each thread
constexpr int kOutputsHere = AXIS == 1 ? Block::kRowTrips : Block::kColumnTrips * VEC;
constexpr int kPerOutput = AXIS == 1 ? Block::kColumnTrips * VEC + kEnds : Block::kRowTrips;

// Warps hide each other's waits, so the compiler may take no more registers than there is to keep: a tile on its way, one at
// work, statistics, a third of that or 18 for the rest, and 16 more for the functions of doubles. 8-bit elements count four
// times, since several at a time become floats. An SM's four schedulers have 512 registers a lane; every device takes 16 blocks,
// of no more threads than its SMs have: a bound that is beyond these is ignored.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
constexpr int kThreadsOfSm = 1024;
#elif defined(__CUDA_ARCH__) && ((__CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900) || __CUDA_ARCH__ >= 1100)
constexpr int kThreadsOfSm = 1536;
#else
constexpr int kThreadsOfSm = 2048;
#endif
constexpr int kWords = static_cast<int>(sizeof(Real)) / 4, kBytes = static_cast<int>(sizeof(X::type));
constexpr int kLoaded = Block::kRowTrips * (Block::kColumnTrips * most(4, VEC * (kBytes == 1 ? 4 : kBytes) / 4) + kEnds);
constexpr int kBusy = kLoaded + kOutputsHere * (kPerOutput * kWords + 3 * static_cast<int>(sizeof(Statistics)) / 4);
constexpr int kRegisters = 8 * ceil_div(kBusy + most(18, kBusy / 3) + 16 * (kWords - 1), 8);
constexpr int kResident = most(1, least(least(16, kThreadsOfSm / THREADS), 512 / kRegisters * 4 / Block::kWarps));

// A thread's elements by the output that they belong to: a row (AXIS = 1), whose ends come last, or a column.
using Elements = Real[kOutputsHere][kPerOutput];
__device__ __forceinline__ Real &element(Elements &x, int i, int j, int e) { return AXIS == 1 ? x[i][j * VEC + e] : x[j * VEC + e][i]; }

// Where the vectors of a row are: after `head` elements, `body` elements in all.
struct Row {
    int head;
    i64 body;
    __device__ __forceinline__ Row(const X::type *first, i64 c) : head(0), body(c) {
        if constexpr (kHasEnds) {
            const int past = static_cast<int>(reinterpret_cast<unsigned long long>(first) / sizeof(X::type) % VEC);
            head = static_cast<int>(least<i64>(c, past == 0 ? 0 : VEC - past));
            body = (c - head) / VEC * VEC;
        }
    }
    // The place in the row of an end of this thread; c or more: there is none.
    __device__ __forceinline__ i64 end(int trip) const {
        const int number = Block::lane() + trip * Block::kLanes;
        return number < head ? number : body + number;
    }
};

// A tile: its first element, and how many rows and columns of it exist.
struct Place {
    i64 row, column;
    int rows, columns;
    __device__ __forceinline__ bool whole() const { return !kHasEnds && rows == BLOCK_R && columns == BLOCK_C; }
};

// What exists of each of a thread's rows in a tile: elements of its vectors from the tile's first column on, and ends.
struct Lengths {
    int body[Block::kRowTrips];
    bool end[Block::kRowTrips][most(1, kEnds)];
    __device__ __forceinline__ Lengths(const X::type *x, i64 c, Place at) {
#pragma unroll
        for (int i = 0; i < Block::kRowTrips; ++i) {
            body[i] = at.columns;
            if constexpr (kHasEnds) {
                const Row row(x + (at.row + Block::row(i)) * c, c);
                body[i] = Block::row(i) < at.rows ? static_cast<int>(least<i64>(row.body - at.column, BLOCK_C)) : 0;
#pragma unroll
                for (int t = 0; t < kEnds; ++t) end[i][t] = at.column == 0 && Block::row(i) < at.rows && row.end(t) < c;
            }
        }
    }
};

// WHOLE: all of the tile exists.
template <bool WHOLE> __device__ __forceinline__ void measure(Statistics (&part)[kOutputsHere], Elements &x, Place at, const Lengths &lengths) {
#pragma unroll
    for (int i = 0; i < kOutputsHere; ++i) {
        const auto there = [&](int k) {
            if constexpr (WHOLE) return true;
            if constexpr (AXIS == 0) return Block::row(k) < at.rows;
            if (k >= Block::kColumnTrips * VEC) return lengths.end[i][k - Block::kColumnTrips * VEC];
            return Block::column(k / VEC) < lengths.body[i];
        };
        int count = WHOLE ? kPerOutput : 0;
#pragma unroll
        for (int k = 0; !WHOLE && k < kPerOutput; k += AXIS == 1 && k < Block::kColumnTrips * VEC ? VEC : 1)
            count += there(k) ? AXIS == 1 && k < Block::kColumnTrips * VEC ? VEC : 1 : 0;
        part[i] = Statistics::of(x[i], count, there);
    }
}

template <typename V, int N> __device__ __forceinline__ void combine(V (&all)[N], V *shared) {
    if constexpr (AXIS == 1)
        Block::combine_rows(all, shared);
    else
        Block::combine_columns(reinterpret_cast<V(&)[N / VEC][VEC]>(all), shared);
}

template <bool WHOLE> __device__ __forceinline__ void write_tile(Y::type *y, const X::type *x, Elements &values, i64 c, Place at, const Lengths &lengths) {
    Y::type *first = y + (at.row + Block::group()) * c + at.column + Block::lane() * VEC;
    // Vectors of Y start where those of X do, unless the arrays lie differently.
    const bool alike = !kHasEnds || (reinterpret_cast<unsigned long long>(y) / sizeof(Y::type) - reinterpret_cast<unsigned long long>(x) / sizeof(X::type)) % VEC == 0;
#pragma unroll
    for (int i = 0; i < Block::kRowTrips; ++i, first += Block::kGroups * c) {
        const Row row(x + (at.row + Block::row(i)) * c, c);
#pragma unroll
        for (int j = 0; j < Block::kColumnTrips; ++j) {
            Real piece[VEC];
#pragma unroll
            for (int e = 0; e < VEC; ++e) piece[e] = element(values, i, j, e);
            const Vector<Y::type, VEC> out = narrow<Y_DTYPE>(piece);
            Y::type *const to = first + row.head + j * Block::kNextColumn;
            const int count = WHOLE ? VEC : kHasEnds ? lengths.body[i] - Block::column(j) : Block::inside(i, j, at.rows, at.columns);
            if (count >= VEC) {
                if (alike) {
                    store_aligned<VEC, kHasEnds ? 16 : ALIGN_Y, true>(to, out);
                } else {
#pragma unroll
                    for (int e = 0; e < VEC; ++e) to[e] = out.at[e];
                }
            }
            if (!WHOLE && AXIS == 0 && at.columns % VEC != 0) {
#pragma unroll
                for (int e = 0; e < VEC; ++e)
                    if (e < count && count < VEC) to[e] = out.at[e];
            }
        }
#pragma unroll
        for (int t = 0; t < kEnds; ++t)
            if (lengths.end[i][t]) y[(at.row + Block::row(i)) * c + row.end(t)] = Y::store(values[i][Block::kColumnTrips * VEC + t]);
    }
}

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(THREADS, carver::kResident)
carver_normalise(const carver::X::type *__restrict__ x, carver::Y::type *__restrict__ y, carver::i64 r, carver::i64 c) {
    using namespace carver;
    const i64 vectors = kHasEnds ? most<i64>(1, c / VEC * VEC) : c;  // columns of a row that vectors may hold
    const int turn = static_cast<int>((AXIS == 1 ? ceil_div(vectors, BLOCK_C) : ceil_div(r, BLOCK_R)) - 1);
    // The tiles in the order of their visits, 0 .. 2 turn.
    const auto place = [&](int visit) {
        const i64 step = visit <= turn ? visit : 2 * turn - visit;
        const i64 row = (AXIS == 1 ? blockIdx.x : step) * BLOCK_R, column = (AXIS == 1 ? step : blockIdx.x) * BLOCK_C;
        const auto here = [](i64 left, i64 all) { return static_cast<int>(least(left, all)); };
        return Place{row, column, here(r - row, BLOCK_R), here(c - column, BLOCK_C)};
    };
    Values tile;
    X::type ends[Block::kRowTrips][most(1, kEnds)];
    // The last test is always true. With it ptxas keeps the two kinds of loads apart and takes up to 40 registers fewer.
    const auto load = [&](Place at) {
        if constexpr (kHasEnds) {
            const Lengths lengths(x, c, at);
#pragma unroll
            for (int i = 0; i < Block::kRowTrips; ++i) {
                const X::type *const first = x + (at.row + Block::row(i)) * c;
                const X::type *const from = first + Row(first, c).head + at.column + Block::lane() * VEC;
#pragma unroll
                for (int j = 0; j < Block::kColumnTrips; ++j) {
                    tile[i][j] = {};
                    if (Block::column(j) < lengths.body[i]) tile[i][j] = load_vector<VEC>(from + j * Block::kNextColumn);
                }
            }
        } else if (at.whole()) {
            Block::load<true, ALIGN_X>(tile, x + at.row * c + at.column, c, 0, 0, X::type{});
        } else if (at.rows > 0 && at.columns > 0) {
            Block::load<false, ALIGN_X>(tile, x + at.row * c + at.column, c, at.rows, at.columns, X::type{});
        }
    };
    load(place(0));
    if constexpr (kHasEnds) {
        const Place at = place(0);
        const Lengths lengths(x, c, at);
#pragma unroll
        for (int i = 0; i < Block::kRowTrips; ++i) {
            const X::type *const first = x + (at.row + Block::row(i)) * c;
#pragma unroll
            for (int t = 0; t < kEnds; ++t) ends[i][t] = lengths.end[i][t] ? first[Row(first, c).end(t)] : X::type{};
        }
    }
    Statistics all[kOutputsHere];
#pragma unroll 1
    for (int visit = 0; visit <= 2 * turn; ++visit) {
        const Place at = place(visit);
        const Lengths lengths(x, c, at);
        Elements mine;
#pragma unroll
        for (int i = 0; i < Block::kRowTrips; ++i) {
#pragma unroll
            for (int j = 0; j < Block::kColumnTrips; ++j) {
                Real piece[VEC];
                widen<X_DTYPE>(tile[i][j], piece);
#pragma unroll
                for (int e = 0; e < VEC; ++e) element(mine, i, j, e) = piece[e];
            }
#pragma unroll
            for (int t = 0; t < kEnds; ++t) mine[i][Block::kColumnTrips * VEC + t] = lengths.end[i][t] ? static_cast<Real>(X::load(ends[i][t])) : Real(0);
        }
        if (visit < 2 * turn) load(place(visit + 1));
        Statistics part[kOutputsHere];
        if (at.whole())
            measure<true>(part, mine, at, lengths);
        else
            measure<false>(part, mine, at, lengths);
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
            write_tile<true>(y, x, mine, c, at, lengths);
        else
            write_tile<false>(y, x, mine, c, at, lengths);
    }
}
