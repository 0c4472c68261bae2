// Y[r,c] = softmax, layer norm or RMS norm (REDUCE_OP 3, 4, 5) of X[r,c] along long rows that start anywhere.
//
// CLUSTER blocks hold a row in their shared memory, BLOCK_C elements each, where they read it twice: for the statistics, which
// they join, and for the result. So memory is read once, and the blocks of an SM load, compute and store at different times.
#ifndef REDUCE_OP
#define REDUCE_OP 3
#endif
#ifndef BLOCK_C
#define BLOCK_C 8192  // a share of a row, in whole pieces of 128 bytes
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif

#include "common/cluster.cuh"
#include "common/reduce.cuh"
#include "common/run.cuh"

namespace carver {

static_assert(AXIS == 1 && REDUCE_OP >= CARVER_SOFTMAX && REDUCE_OP <= CARVER_RMS_NORM, "softmax, layer norm or RMS norm along rows");
static_assert(CLUSTER == 1 || CLUSTER == 2 || CLUSTER == 4 || CLUSTER == 8, "a cluster has 1, 2, 4 or 8 blocks");

using Real = Wide<X_DTYPE == CARVER_F64>::type;
using Statistics = StatisticsOf<Real, REDUCE_OP>::type;
using Share = Run<X::type, BLOCK_C, THREADS>;
constexpr int kWide = Share::kWide, kAtOnce = most<int>(1, 64 / sizeof(Real) / kWide), kElements = kAtOnce * kWide;  // of a thread
static_assert(BLOCK_C % (8 * kWide) == 0, "a share is whole pieces of 128 bytes");
using Line = Tile<1, THREADS * kWide, THREADS, kWide>;

constexpr int kSmemBytes = Share::kBytes + 16 * ceil_div((Line::kRowSharedValues + 1) * static_cast<int>(sizeof(Statistics)), 16);
#ifndef SMEM_BYTES
#define SMEM_BYTES kSmemBytes
#endif
static_assert(SMEM_BYTES == kSmemBytes, "the declaration's smem_bytes is what the kernel uses");

// Calls take(first, x) for this thread's elements of a share, kAtOnce vectors at a time, from vector `first` on and THREADS apart.
template <typename TAKE> __device__ __forceinline__ void each_turn(const X::type *shared, int vectors, TAKE take) {
#pragma unroll 1
    for (int first = threadIdx.x; first < vectors; first += THREADS * kAtOnce) {
        Real x[kAtOnce][kWide];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
            const int vector = first + j * THREADS;
            Vector<X::type, kWide> piece = {};
            if (vector < vectors) piece = load_vector<kWide>(shared + vector * kWide);
            widen<X_DTYPE>(piece, x[j]);
        }
        take(first, x);
    }
}

// Of this thread's elements, where `inside` tells which are of the share.
template <typename INSIDE> __device__ __forceinline__ Statistics measure(const X::type *shared, int vectors, INSIDE inside) {
    Statistics all = Statistics::none();
    each_turn(shared, vectors, [&](int first, Real(&x)[kAtOnce][kWide]) {
        Real(&flat)[kElements] = reinterpret_cast<Real(&)[kElements]>(x);
        const auto place = [&](int k) { return (first + k / kWide * THREADS) * kWide + k % kWide; };
        if (inside(place(0)) && inside(place(kElements - 1))) {
            all = Statistics::join(all, Statistics::of(flat, kElements, [](int) { return true; }));
        } else {
            int count = 0;
#pragma unroll
            for (int k = 0; k < kElements; ++k) {
                count += inside(place(k));
                flat[k] = inside(place(k)) ? flat[k] : Real(0);
            }
            all = Statistics::join(all, Statistics::of(flat, count, [&](int k) { return inside(place(k)); }));
        }
    });
    return all;
}

// Joins the statistics of a block's threads, and those of the blocks of a cluster. Once more each block must wait, before it leaves.
__device__ __forceinline__ Statistics join_row(Statistics mine, Statistics *shared) {
    Statistics all[1] = {mine};
    Line::combine_rows(all, shared);
    if constexpr (CLUSTER > 1) {
        Statistics *const ours = shared + Line::kRowSharedValues;
        if (threadIdx.x == 0) *ours = all[0];
        cluster_sync();
        all[0] = join_lanes<1, CLUSTER>(load_cluster(ours, static_cast<int>(threadIdx.x) % CLUSTER));
        cluster_arrive();
    }
    return all[0];
}

}  // namespace carver

extern __shared__ __align__(128) unsigned char shared_memory[];

extern "C" __global__ void CARVER_CLUSTER(CLUSTER) __launch_bounds__(THREADS)
carver_held(const carver::X::type *__restrict__ x, carver::Y::type *__restrict__ y, carver::i64, carver::i64 c) {
    using namespace carver;
    const i64 begin = static_cast<i64>(blockIdx.x % CLUSTER) * BLOCK_C, first = static_cast<i64>(blockIdx.x / CLUSTER) * c + begin;
    x += first;
    y += first;
    X::type *const shared = reinterpret_cast<X::type *>(shared_memory);
    const Share share(x, static_cast<int>(most<i64>(0, least<i64>(c - begin, BLOCK_C))));
    share.read(shared, x);
    __syncthreads();

    const int vectors = ceil_div(share.past + share.count, kWide);
    const auto inside = [&](int place) { return place >= share.past && place < share.past + share.count; };
    const Statistics all = join_row(measure(shared, vectors, inside), reinterpret_cast<Statistics *>(shared_memory + Share::kBytes));
    const bool alike = Share::place_of(y) == share.past;
    y -= share.past;
    each_turn(shared, vectors, [&](int turn, Real(&values)[kAtOnce][kWide]) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
#pragma unroll
            for (Real &value : values[j]) value = all.normalised(value);
            const Vector<Y::type, kWide> out = narrow<Y_DTYPE>(values[j]);
            const int place = (turn + j * THREADS) * kWide;
            if (alike && inside(place) && inside(place + kWide - 1)) {
                store_aligned<kWide, 16, true>(y + place, out);
            } else {
#pragma unroll
                for (int e = 0; e < kWide; ++e)
                    if (inside(place + e)) y[place + e] = out.at[e];
            }
        }
    });
    if constexpr (CLUSTER > 1) cluster_wait();  // nobody leaves while others read
}
