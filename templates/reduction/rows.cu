// Y = any reduction (REDUCE_OP) of X[r,c] along rows that start anywhere and are short: Y[r], or Y[r,c] of a normalisation.
//
// A block's BLOCK_R rows are one run of memory. It moves in whole vectors of 16 bytes through shared memory, wherever its rows
// begin. There LANES threads share a row, VEC neighbouring elements each in turn, and keep theirs in registers.
#ifndef REDUCE_OP
#define REDUCE_OP 3
#endif
#ifndef BLOCK_R
#define BLOCK_R 32
#endif
#ifndef BLOCK_C
#define BLOCK_C 80  // the least multiple of LANES x VEC that holds a row
#endif
#ifndef THREADS
#define THREADS 64
#endif
#ifndef VEC
#define VEC 1
#endif
#ifndef LANES
#define LANES 4
#endif
#define ROW_LANES LANES

#include "common/reduce.cuh"
#include "common/run.cuh"

namespace carver {

constexpr bool kNormalises = REDUCE_OP >= CARVER_SOFTMAX;
static_assert(AXIS == 1 && Block::kLanes == ROW_LANES && ROW_LANES <= 32, "a row's threads are in one warp");
static_assert(VEC * sizeof(X::type) <= most<int>(ALIGN_X, sizeof(X::type)), "a row is whole vectors of a thread");
static_assert(!kNormalises || sizeof(X::type) == sizeof(Y::type), "results take the places of the elements that they are made of");

using Rows = Run<X::type, BLOCK_R * BLOCK_C, THREADS>;
constexpr int kWide = Rows::kWide, kSmemBytes = Rows::kBytes;
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

__device__ __forceinline__ void write_run(Y::type *__restrict__ y, const Y::type *shared, Rows run) {
    if (Rows::place_of(y) == run.past) {
        run.each_vector([&](int element) { store_vector_once<kWide>(y + element, load_vector<kWide>(shared + run.past + element)); });
        run.each_end([&](int element) { y[element] = shared[run.past + element]; });
    } else {
#pragma unroll 1
        for (int i = threadIdx.x; i < run.count; i += THREADS) y[i] = shared[run.past + i];
    }
}

// A thread's vectors of a row of shared memory, whose first one is at `from`. Only the last may be beyond the row, as zeros.
template <typename T, typename REAL> __device__ __forceinline__ void read_row(REAL (&to)[Block::kColumnTrips][VEC], const T *from, bool last) {
#pragma unroll
    for (int j = 0; j < Block::kColumnTrips; ++j) {
        Vector<T, VEC> piece = {};
        if (last || j < Block::kColumnTrips - 1) piece = load_vector<VEC>(from + j * Block::kNextColumn);
        widen<X_DTYPE>(piece, to[j]);
    }
}

// Y in the place of X, of a row that exists or of what lies there.
__device__ __forceinline__ void normalise_row(X::type *row, bool last) {
    using Real = Wide<X_DTYPE == CARVER_F64>::type;
    using Statistics = StatisticsOf<Real, REDUCE_OP>::type;
    constexpr int kElements = Block::kColumnTrips * VEC;
    Real x[Block::kColumnTrips][VEC];
    read_row(x, row, last);
    Real(&all)[kElements] = reinterpret_cast<Real(&)[kElements]>(x);
    const Statistics part = Statistics::of(all, last ? kElements : kElements - VEC, [last](int k) { return last || k < kElements - VEC; });
    const Statistics joined = join_lanes<1, Block::kLanes>(part);
    const Real offset = joined.offset(), factor = joined.factor(part);
#pragma unroll
    for (Real &value : all) value = (value - offset) * factor;
    Y::type *const to = reinterpret_cast<Y::type *>(row);
#pragma unroll
    for (int j = 0; j < Block::kColumnTrips; ++j)
        if (last || j < Block::kColumnTrips - 1)
            *reinterpret_cast<Vector<Y::type, VEC> *>(to + j * Block::kNextColumn) = narrow<Y_DTYPE>(x[j]);
}

__device__ __forceinline__ Y::type join_row(const X::type *row, bool last, int columns) {
    using Join = JoinOf<REDUCE_OP == CARVER_MAX, X_DTYPE == CARVER_I32>::type;
    decltype(Join::value) x[Block::kColumnTrips][VEC];
    read_row(x, row, last);
    Join all = Join::none();
#pragma unroll
    for (int j = 0; j < Block::kColumnTrips; ++j)
#pragma unroll
        for (int e = 0; e < VEC; ++e)
            if (last || j < Block::kColumnTrips - 1) all = Join::join(all, Join{x[j][e]});
    return finish<REDUCE_OP == CARVER_MEAN>(join_lanes<1, Block::kLanes>(all), columns);
}

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(THREADS)
carver_rows(const carver::X::type *__restrict__ x, carver::Y::type *__restrict__ y, carver::i64 r, carver::i64 c) {
    using namespace carver;
    const i64 first = static_cast<i64>(blockIdx.x) * BLOCK_R;
    const int rows = static_cast<int>(least<i64>(r - first, BLOCK_R)), columns = static_cast<int>(c);
    x += first * c;
    X::type *const shared = reinterpret_cast<X::type *>(shared_memory);
    const Rows run(x, rows * columns);
    run.read(shared, x);
    __syncthreads();

    const bool last = Block::column(Block::kColumnTrips - 1) < columns;
#pragma unroll 1
    for (int i = 0; i < Block::kRowTrips; ++i) {
        const int row = Block::row(i);
        X::type *const mine = shared + run.past + row * columns + Block::lane() * VEC;
        if constexpr (kNormalises) {
            normalise_row(mine, last);
        } else {
            const Y::type result = join_row(mine, last, columns);
            if (row < rows && Block::lane() == 0) y[first + row] = result;
        }
    }
    if constexpr (kNormalises) {
        __syncthreads();
        write_run(y + first * c, reinterpret_cast<const Y::type *>(shared), run);
    }
}
