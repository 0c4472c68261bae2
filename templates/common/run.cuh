// A run of neighbouring elements that starts anywhere in memory, copied to shared memory in vectors of 16 bytes.
#pragma once

#include "common/carver.cuh"

namespace carver {

// A run of `count` elements, at most MOST, for TEAM threads: `head` elements, so many whole vectors, and the rest. In shared
// memory it begins `past` elements after a vector too.
template <typename T, int MOST, int TEAM> struct Run {
    static constexpr int kWide = 16 / sizeof(T);
    static constexpr int kVectors = ceil_div(MOST, kWide) + 1, kMoves = ceil_div(kVectors - 1, TEAM);  // of a run, of a thread
    static constexpr int kBytes = 16 * kVectors;

    int past, count, head, vectors;
    __device__ __forceinline__ Run(const T *first, int n) : past(place_of(first)), count(n) {
        head = least(n, past == 0 ? 0 : kWide - past);
        vectors = (n - head) / kWide;
    }
    template <typename U> static __device__ __forceinline__ int place_of(const U *first) {
        return static_cast<int>(reinterpret_cast<unsigned long long>(first) / sizeof(U) % kWide);
    }
    // Calls take(element) for each vector of this thread.
    template <typename TAKE> __device__ __forceinline__ void each_vector(TAKE take) const {
#pragma unroll 8
        for (int move = 0; move < kMoves; ++move) {
            const int vector = static_cast<int>(threadIdx.x) + move * TEAM;
            if (vector < vectors) take(head + vector * kWide);
        }
    }
    // Calls take(element) for those outside of vectors, one a thread.
    template <typename TAKE> __device__ __forceinline__ void each_end(TAKE take) const {
        const int thread = threadIdx.x, element = thread < head ? thread : thread + vectors * kWide;
        if (element < count && thread < 2 * kWide) take(element);
    }
    // Copies what begins at `from`. Threads must still meet.
    __device__ __forceinline__ void read(T *shared, const T *__restrict__ from) const {
        each_vector([&](int element) {
            T *const to = shared + past + element;
            if constexpr (kAsyncCopy)
                copy_async<16>(shared_address(to), from + element);
            else
                *reinterpret_cast<Vector<T, kWide> *>(to) = load_vector<kWide>(from + element);
        });
        each_end([&](int element) { shared[past + element] = from[element]; });
        copy_async_commit();
        copy_async_wait<0>();
    }
};

}  // namespace carver
