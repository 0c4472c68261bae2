// Y[r,c] = EXPRESSION of x0, x1, .. element by element; without one, their sum.
//
// A block computes BLOCK consecutive elements of Y, a thread vectors of VEC of them, all of whose inputs it asks for before
// it uses the first. An input that lacks an axis (X1_R = 0 where it has one value a column, X1_C = 0 where one a row) is
// repeated along it. The expression may use relu(x), gelu(x), silu(x) and whatever CUDA has for the device.
#ifndef INPUTS
#define INPUTS 1
#endif
#ifndef BLOCK
#define BLOCK 4096
#endif
#ifndef THREADS
#define THREADS 256
#endif
#ifndef VEC
#define VEC 8
#endif
#ifndef X0_DTYPE
#define X0_DTYPE 3
#endif
#ifndef Y_DTYPE
#define Y_DTYPE X0_DTYPE
#endif
#ifndef X0_R
#define X0_R 1
#endif
#ifndef X0_C
#define X0_C 1
#endif

#include "common/carver.cuh"

// EACH(f) is f(0) f(1) .. over the inputs.
#define EACH_1(f) f(0)
#define EACH_2(f) EACH_1(f) f(1)
#define EACH_3(f) EACH_2(f) f(2)
#define EACH_4(f) EACH_3(f) f(3)
#define EACH_5(f) EACH_4(f) f(4)
#define EACH_6(f) EACH_5(f) f(5)
#define EACH_7(f) EACH_6(f) f(6)
#define EACH_8(f) EACH_7(f) f(7)
#define EACH_OF_(n, f) EACH_##n(f)
#define EACH_OF(n, f) EACH_OF_(n, f)
#define EACH(f) EACH_OF(INPUTS, f)

#ifndef EXPRESSION
#define PLUS(i) +x##i
#define EXPRESSION (EACH(PLUS))
#endif

namespace carver {

using Y = Element<Y_DTYPE>;

constexpr int kTrips = BLOCK / (THREADS * VEC);
static_assert(BLOCK % (THREADS * VEC) == 0, "a block is whole vectors for each thread");
static_assert((VEC & (VEC - 1)) == 0 && THREADS <= 1024, "vectors of a power of two, at most 1024 threads");

#ifndef SMEM_BYTES
#define SMEM_BYTES 0
#endif
static_assert(SMEM_BYTES == 0, "the declaration's smem_bytes is what the kernel uses");

template <bool VALUE> struct Yes { static constexpr bool value = VALUE; };

// The row of an element of Y and its place there, by a multiplication instead of a division for each vector.
struct Rows {
    i64 c, first;      // first: the row of the block's first element
    unsigned inverse;  // 2^32 / c, or a little less; 0 where a block is shorter than a row by far

    __device__ __forceinline__ Rows(i64 start, i64 c)
        : c(c), first((start | c) >> 32 ? start / c : static_cast<unsigned>(start) / static_cast<unsigned>(c)),
          inverse(c >> 31 ? 0 : 0xffffffffu / static_cast<unsigned>(c)) {}
    __device__ __forceinline__ void find(i64 element, i64 &row, i64 &column) const {
        column = element - first * c;
        const unsigned rows = __umulhi(static_cast<unsigned>(column), inverse);  // at most one too few
        row = first + rows;
        column -= rows * c;
        if (column >= c) ++row, column -= c;
    }
};

// One input: this thread's vectors of it. An element is named by its place in Y.
template <int DTYPE, bool HAS_ROW, bool HAS_COLUMN> struct Input {
    using E = Element<DTYPE>;
    const typename E::type *data;
    Vector<typename E::type, VEC> read[kTrips];

    static __device__ __forceinline__ i64 place(i64 element, const Rows &rows) {
        if constexpr (HAS_ROW && HAS_COLUMN) return element;
        if constexpr (!HAS_ROW && !HAS_COLUMN) return 0;
        i64 row, column;
        rows.find(element, row, column);
        return HAS_ROW ? row : column;
    }
    // A vector of Y lies in one row: what it needs is one vector, or one element, of the input.
    __device__ __forceinline__ void load(int trip, i64 element, const Rows &rows) {
        if constexpr (HAS_COLUMN) {
            read[trip] = load_vector<VEC>(data + place(element, rows));
        } else {
            const typename E::type one = data[place(element, rows)];
#pragma unroll
            for (int e = 0; e < VEC; ++e) read[trip].at[e] = one;
        }
    }
    __device__ __forceinline__ typename E::sum value(int trip, int e) const { return E::load(read[trip].at[e]); }
    __device__ __forceinline__ typename E::sum single(i64 element, const Rows &rows) const { return E::load(data[place(element, rows)]); }
};

}  // namespace carver

#define PARAMETER(i) const carver::Element<X##i##_DTYPE>::type *__restrict__ p##i,

extern "C" __global__ void __launch_bounds__(THREADS, 1)
carver_elementwise(EACH(PARAMETER) carver::Y::type *__restrict__ y, carver::i64 r, carver::i64 c) {
    using namespace carver;
    const i64 total = r * c, start = static_cast<i64>(blockIdx.x) * BLOCK;
    const Rows rows(start, c);
#define DECLARE(i)                                     \
    Input<X##i##_DTYPE, X##i##_R, X##i##_C> input##i; \
    input##i.data = p##i;
    EACH(DECLARE)
    // Vectors need whole blocks, rows of whole vectors unless all inputs are full, which makes one long row, and arrays that
    // start on a multiple of 16 bytes, as allocations do and views may not.
#define FULL(i) &&X##i##_R &&X##i##_C
    const bool rows_of_vectors = (true EACH(FULL)) || c % VEC == 0;
    unsigned long long addresses = reinterpret_cast<unsigned long long>(y);
#define ADDRESS(i) addresses |= reinterpret_cast<unsigned long long>(p##i);
    EACH(ADDRESS)
    const i64 own = start + static_cast<int>(threadIdx.x) * VEC;
    // WHOLE: every vector of the block is inside, and all are asked for at once. The last block of a ragged tensor takes
    // vectors as long as there are any, a few at a time, which needs no more registers.
    const auto by_vectors = [&](auto whole) {
        constexpr bool WHOLE = decltype(whole)::value;
        constexpr int kAtOnce = WHOLE ? kTrips : least(kTrips, most(1, 16 / VEC));
#pragma unroll 1
        for (int done = 0; done < kTrips; done += kAtOnce) {
#pragma unroll
            for (int trip = 0; trip < kAtOnce; ++trip) {
                const i64 element = own + (done + trip) * THREADS * VEC;
#define LOAD(i) input##i.load(trip, element, rows);
                if (WHOLE || element + VEC <= total) { EACH(LOAD) }
            }
#pragma unroll
            for (int trip = 0; trip < kAtOnce; ++trip) {
                const i64 element = own + (done + trip) * THREADS * VEC;
                if (!WHOLE && element + VEC > total) break;
                Vector<Y::type, VEC> out;
#pragma unroll
                for (int e = 0; e < VEC; ++e) {
#define VALUE(i) const auto x##i = input##i.value(trip, e);
                    EACH(VALUE)
                    out.at[e] = Y::store(EXPRESSION);
                }
                store_vector<VEC>(y + element, out);
            }
        }
    };
    const auto by_elements = [&](i64 first, i64 end) {
#pragma unroll 4
        for (i64 element = first + static_cast<int>(threadIdx.x); element < end; element += THREADS) {
#define SINGLE(i) const auto x##i = input##i.single(element, rows);
            EACH(SINGLE)
            y[element] = Y::store(EXPRESSION);
        }
    };
    if (!rows_of_vectors || addresses % 16 != 0) {
        by_elements(start, least<i64>(total, start + BLOCK));
    } else if (start + BLOCK <= total) {
        by_vectors(Yes<true>());
    } else {
        by_vectors(Yes<false>());
        by_elements(total / VEC * VEC, total);
    }
}
