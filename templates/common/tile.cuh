// A tile of a matrix read by all threads of a block, and the ways to combine what they read.
#pragma once

#include "common/carver.cuh"

namespace carver {

// Joins the values of lanes whose numbers differ by FIRST, 2 FIRST, .. up to LIMIT / 2; each of them gets the result.
template <int FIRST, int LIMIT, typename V> __device__ __forceinline__ V join_lanes(V value) {
#pragma unroll
    for (int bit = FIRST; bit < LIMIT; bit *= 2) value = V::join(value, value.across(bit));
    return value;
}

// ROWS x COLUMNS elements, COLUMNS contiguous in memory, in vectors of WIDTH, TEAM threads. kLanes of them, at most ACROSS, stand along a
// row, kGroups such lines read rows at the same time; each thread has kRowTrips x kColumnTrips vectors.
template <int ROWS, int COLUMNS, int TEAM, int WIDTH, int ACROSS = TEAM> struct Tile {
    static constexpr int kLanes = least(least(TEAM, ACROSS), COLUMNS / WIDTH), kGroups = TEAM / kLanes;
    static constexpr int kRowTrips = ROWS / kGroups, kColumnTrips = COLUMNS / (WIDTH * kLanes);
    static constexpr int kWarps = TEAM / 32;
    static_assert(TEAM % 32 == 0 && TEAM <= 1024, "whole warps, at most 1024 threads");
    static_assert(power_of_two(WIDTH) && power_of_two(TEAM) && power_of_two(ROWS) && power_of_two(kLanes), "powers of two");
    static_assert(COLUMNS % (WIDTH * kLanes) == 0, "all lanes of a row have as many vectors");
    static_assert(kRowTrips >= 1 && kColumnTrips >= 1, "every thread has a vector of the tile");

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
    static __device__ __forceinline__ int group() { return static_cast<int>(threadIdx.x) / kLanes; }
    static __device__ __forceinline__ int row(int trip) { return group() + trip * kGroups; }
    static __device__ __forceinline__ int column(int trip) { return (lane() + trip * kLanes) * WIDTH; }

    // This thread's first vector of the tile at `origin`, and how far apart the others are.
    template <typename T> static __device__ __forceinline__ T *mine(T *origin, i64 leading) { return origin + group() * leading + lane() * WIDTH; }
    static constexpr int kNextColumn = kLanes * WIDTH;
    // How many elements of a vector are among the first `rows` x `columns` of the tile; none: zero or less.
    static __device__ __forceinline__ int inside(int i, int j, int rows, int columns) { return row(i) < rows ? least(WIDTH, columns - column(j)) : 0; }

    // This thread's vectors of the tile at `origin`. Elements outside the first `rows` x `columns` become `fill`. WHOLE: the
    // tile is inside. Else loads are predicated, and only a tile whose last column is inside a vector has branches.
    template <bool WHOLE, int ALIGN, bool ONCE = false, typename T>
    static __device__ __forceinline__ void load(Vector<T, WIDTH> (&out)[kRowTrips][kColumnTrips], const T *origin, i64 leading, i64 rows, i64 columns, T fill) {
        const int here = static_cast<int>(least<i64>(rows, ROWS)), across = static_cast<int>(least<i64>(columns, COLUMNS));
        const auto each = [&](auto take) {
            const T *from = mine(origin, leading);
#pragma unroll
            for (int i = 0; i < kRowTrips; ++i, from += kGroups * leading)
#pragma unroll
                for (int j = 0; j < kColumnTrips; ++j) take(out[i][j], from + j * kNextColumn, WHOLE ? WIDTH : inside(i, j, here, across));
        };
        each([fill](Vector<T, WIDTH> &vector, const T *from, int count) {
            if (!WHOLE)
                for (T &value : vector.at) value = fill;
            if (count == WIDTH) vector = load_aligned<WIDTH, ALIGN, ONCE>(from);
        });
        if (!WHOLE && across % WIDTH != 0)
            each([fill](Vector<T, WIDTH> &vector, const T *from, int count) {
                if (count > 0 && count < WIDTH) vector = load_first<WIDTH>(from, count, fill);
            });
    }

    // Combines value[i] of all threads along each row; every thread of the row gets the result. Nobody may be reading
    // the kRowSharedValues elements of `shared` any more.
    static constexpr int kPerRow = kLanes / 32;  // warps
    static constexpr int kRowSharedValues = kPerRow > 1 ? kWarps * kRowTrips : 0;
    template <typename V> static __device__ __forceinline__ void combine_rows(V (&value)[kRowTrips], V *shared) {
#pragma unroll
        for (int i = 0; i < kRowTrips; ++i) value[i] = join_lanes<1, least(kLanes, 32)>(value[i]);
        if constexpr (kPerRow > 1) {
            const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
            if (lane == 0) {
#pragma unroll
                for (int i = 0; i < kRowTrips; ++i) shared[warp * kRowTrips + i] = value[i];
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < kRowTrips; ++i)
                value[i] = join_lanes<1, kPerRow>(shared[(group() * kPerRow + lane % kPerRow) * kRowTrips + i]);
        }
    }

    // Combines value[j][e] of all threads down each column; every thread of the column gets the result. Nobody may be
    // reading the kColumnSharedValues elements of `shared` any more.
    static constexpr int kParts = least(kGroups, kWarps);  // results of a column, once each warp has joined its own
    static constexpr int kColumnSharedValues = kParts > 1 ? kParts * COLUMNS : 0;
    template <typename V>
    static __device__ __forceinline__ void combine_columns(V (&value)[kColumnTrips][WIDTH], V *shared) {
        static_assert(power_of_two(COLUMNS), "threads share the columns evenly");
        if constexpr (kLanes < 32) {
#pragma unroll
            for (int j = 0; j < kColumnTrips; ++j)
#pragma unroll
                for (int e = 0; e < WIDTH; ++e) value[j][e] = join_lanes<kLanes, 32>(value[j][e]);
        }
        if constexpr (kParts > 1) {
            const int thread = threadIdx.x;
            if (kLanes >= 32 || thread % 32 < kLanes) {
                const int part = kLanes >= 32 ? group() : thread / 32;
#pragma unroll
                for (int j = 0; j < kColumnTrips; ++j)
#pragma unroll
                    for (int e = 0; e < WIDTH; ++e) shared[part * COLUMNS + column(j) + e] = value[j][e];
            }
            __syncthreads();
            constexpr int kShare = least(most(1, TEAM / COLUMNS), kParts);  // neighbours that join one column
            constexpr int kAtOnce = least(COLUMNS, TEAM / kShare);
#pragma unroll 1
            for (int first = 0; first < COLUMNS; first += kAtOnce) {
                const int c = first + thread / kShare % kAtOnce, part = thread % kShare;
                V sum = shared[part * COLUMNS + c];
#pragma unroll 4
                for (int p = part + kShare; p < kParts; p += kShare) sum = V::join(sum, shared[p * COLUMNS + c]);
                sum = join_lanes<1, kShare>(sum);
                if (part == 0 && thread < kAtOnce * kShare) shared[c] = sum;
            }
            __syncthreads();
#pragma unroll
            for (int j = 0; j < kColumnTrips; ++j)
#pragma unroll
                for (int e = 0; e < WIDTH; ++e) value[j][e] = shared[column(j) + e];
        }
    }
};

// What is combined. `across` is the value of the thread whose number in the warp differs by one bit.
template <typename T> struct SumOf {
    T value;
    static __device__ __forceinline__ SumOf none() { return {T(0)}; }
    static __device__ __forceinline__ SumOf join(SumOf a, SumOf b) { return {a.value + b.value}; }
    __device__ __forceinline__ SumOf across(int bit) const { return {__shfl_xor_sync(0xffffffffu, value, bit)}; }
};

// The trips of one block along a dimension of `extent` elements cut into steps of STEP and shared by PARTS blocks.
struct Steps {
    i64 first;  // element
    i64 count;
};
template <int STEP, int PARTS> __device__ __forceinline__ Steps steps_of(i64 extent, int part) {
    const i64 all = ceil_div(extent, STEP), each = ceil_div(all, PARTS);
    return {part * each * STEP, most<i64>(0, least(each, all - part * each))};
}

}  // namespace carver
