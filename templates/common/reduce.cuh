// What the reductions share: the macros, and the values that threads combine.
#pragma once

#include "common/tile.cuh"

// The values of REDUCE_OP.
#define CARVER_SUM 0
#define CARVER_MAX 1
#define CARVER_MEAN 2
#define CARVER_SOFTMAX 3
#define CARVER_LAYER_NORM 4
#define CARVER_RMS_NORM 5

#ifndef AXIS
#define AXIS 1  // the one that is reduced: 1 along rows, 0 down columns
#endif
#ifndef BLOCK_R
#define BLOCK_R (AXIS == 1 ? 4 : 32)
#endif
#ifndef BLOCK_C
#define BLOCK_C (AXIS == 1 ? 1024 : 256)
#endif
#ifndef THREADS
#define THREADS 256
#endif
#ifndef VEC
#define VEC 8
#endif
#ifndef ROW_LANES
#define ROW_LANES 1024  // that share a row at most
#endif
#ifndef X_DTYPE
#define X_DTYPE 3
#endif
#ifndef Y_DTYPE
#define Y_DTYPE X_DTYPE
#endif
#ifndef ALIGN_X
#define ALIGN_X 16
#endif
#ifndef ALIGN_Y
#define ALIGN_Y 16
#endif
#ifndef EPSILON
#define EPSILON 1e-5
#endif

namespace carver {

using X = Element<X_DTYPE>;
using Y = Element<Y_DTYPE>;
using Block = Tile<BLOCK_R, BLOCK_C, THREADS, VEC, ROW_LANES>;

template <bool DOUBLE> struct Wide { using type = float; };
template <> struct Wide<true> { using type = double; };

template <typename T> __device__ __forceinline__ T lowest() {
    if constexpr (is_integer<T>())
        return static_cast<T>(-2147483647 - 1);
    else
        return static_cast<T>(-__uint_as_float(0x7f800000u));
}

// The greater, and NaN where one is NaN.
template <typename T> struct MaxOf {
    T value;
    static __device__ __forceinline__ MaxOf none() { return {lowest<T>()}; }
    static __device__ __forceinline__ MaxOf join(MaxOf a, MaxOf b) { return a.value > b.value || a.value != a.value ? a : b; }
    __device__ __forceinline__ MaxOf across(int bit) const { return {__shfl_xor_sync(0xffffffffu, value, bit)}; }
};

// In what elements are joined. A sum of int32 takes 64 bits, one of int8 wraps beyond 2^24 elements.
template <bool IS_MAX, bool IS_INT32> struct JoinOf { using type = SumOf<X::sum>; };
template <> struct JoinOf<false, true> { using type = SumOf<i64>; };
template <bool IS_INT32> struct JoinOf<true, IS_INT32> { using type = MaxOf<X::sum>; };
template <bool MEAN, typename JOIN> __device__ __forceinline__ Y::type finish(JOIN join, i64 count) {
    using Real = typename Wide<sizeof(join.value) == 8>::type;
    if constexpr (MEAN) return Y::store(static_cast<Real>(join.value) / static_cast<Real>(count));
    return Y::store(join.value);
}

__device__ __forceinline__ float exponential(float x) { return power_of_two(1.44269504f * x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float quotient(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }
// Of a NaN and a number the number.
__device__ __forceinline__ float greater(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double greater(double a, double b) { return fmax(a, b); }
__device__ __forceinline__ float inverse_root(float x) { return rsqrtf(x); }
__device__ __forceinline__ double inverse_root(double x) { return 1. / sqrt(x); }

// The statistics of a normalisation: `of` a thread's elements, of which `count` exist, those that are `there`; others are 0.
// After the last join, an element x of which `of` has made `part` is normalised by (x - offset()) * factor(part), and one that
// `of` has not seen by normalised(x).

// The greatest element, and the sum of exp(x - greatest). `of` leaves these exponentials in place of the elements. A NaN is
// no greatest; it comes through in the sum.
template <typename T> struct Exponentials {
    T greatest, sum;
    static __device__ __forceinline__ Exponentials none() { return {lowest<T>(), T(0)}; }
    __device__ __forceinline__ T scaled_to(T other) const { return sum == T(0) ? T(0) : sum * exponential(greatest - other); }
    static __device__ __forceinline__ Exponentials join(Exponentials a, Exponentials b) {
        const T all = greater(a.greatest, b.greatest);
        return {all, a.scaled_to(all) + b.scaled_to(all)};
    }
    __device__ __forceinline__ Exponentials across(int bit) const {
        return {__shfl_xor_sync(0xffffffffu, greatest, bit), __shfl_xor_sync(0xffffffffu, sum, bit)};
    }
    template <int N, typename THERE> static __device__ __forceinline__ Exponentials of(T (&x)[N], int, THERE there) {
        Exponentials all = none();
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (there(i)) all.greatest = greater(all.greatest, x[i]);
        const T shift = all.greatest == lowest<T>() ? T(0) : all.greatest;  // -inf - -inf is no number
#pragma unroll
        for (int i = 0; i < N; ++i) {
            x[i] = exponential(x[i] - shift);
            if (there(i)) all.sum += x[i];
        }
        return all;
    }
    __device__ __forceinline__ T offset() const { return T(0); }
    __device__ __forceinline__ T factor(Exponentials part) const { return quotient(exponential(part.greatest - greatest), sum); }
    __device__ __forceinline__ T normalised(T x) const { return exponential(x - greatest) * quotient(T(1), sum); }
};

// One exponential a thread instead of two a join.
template <int FIRST, int LIMIT, typename T>
__device__ __forceinline__ Exponentials<T> join_lanes(Exponentials<T> value) {
    T greatest = value.greatest;
#pragma unroll
    for (int bit = FIRST; bit < LIMIT; bit *= 2) greatest = greater(greatest, __shfl_xor_sync(0xffffffffu, greatest, bit));
    value = {greatest, value.scaled_to(greatest)};
#pragma unroll
    for (int bit = FIRST; bit < LIMIT; bit *= 2) value.sum += __shfl_xor_sync(0xffffffffu, value.sum, bit);
    return value;
}

// Number of elements, their mean, and the sum of squared distances from it, which no cancellation spoils.
// Source: Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979).
template <typename T> struct Moments {
    T count, mean, squares;
    static __device__ __forceinline__ Moments none() { return {}; }
    static __device__ __forceinline__ Moments join(Moments a, Moments b) {
        const T count = a.count + b.count, share = count > T(0) ? quotient(b.count, count) : T(0), apart = b.mean - a.mean;
        return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
    }
    __device__ __forceinline__ Moments across(int bit) const {
        return {__shfl_xor_sync(0xffffffffu, count, bit), __shfl_xor_sync(0xffffffffu, mean, bit), __shfl_xor_sync(0xffffffffu, squares, bit)};
    }
    template <int N, typename THERE> static __device__ __forceinline__ Moments of(T (&x)[N], int count, THERE there) {
        Moments all = {static_cast<T>(count), T(0), T(0)};
#pragma unroll
        for (int i = 0; i < N; ++i) all.mean += x[i];
        all.mean = count > 0 ? quotient(all.mean, all.count) : T(0);
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (there(i)) all.squares += (x[i] - all.mean) * (x[i] - all.mean);
        return all;
    }
    __device__ __forceinline__ T offset() const { return mean; }
    __device__ __forceinline__ T factor(Moments) const { return inverse_root(quotient(squares, count) + static_cast<T>(EPSILON)); }
    __device__ __forceinline__ T normalised(T x) const { return (x - mean) * factor(*this); }
};

// Each thread's squares move to the mean of all, so that the joins are sums.
template <int FIRST, int LIMIT, typename T>
__device__ __forceinline__ Moments<T> join_lanes(Moments<T> value) {
    T count = value.count, total = value.count * value.mean;
#pragma unroll
    for (int bit = FIRST; bit < LIMIT; bit *= 2) {
        count += __shfl_xor_sync(0xffffffffu, count, bit);
        total += __shfl_xor_sync(0xffffffffu, total, bit);
    }
    const T mean = count > T(0) ? quotient(total, count) : T(0), apart = value.mean - mean;
    T squares = value.squares + value.count * apart * apart;
#pragma unroll
    for (int bit = FIRST; bit < LIMIT; bit *= 2) squares += __shfl_xor_sync(0xffffffffu, squares, bit);
    return {count, mean, squares};
}

template <typename T> struct Squares {
    T count, sum;
    static __device__ __forceinline__ Squares none() { return {}; }
    static __device__ __forceinline__ Squares join(Squares a, Squares b) { return {a.count + b.count, a.sum + b.sum}; }
    __device__ __forceinline__ Squares across(int bit) const {
        return {__shfl_xor_sync(0xffffffffu, count, bit), __shfl_xor_sync(0xffffffffu, sum, bit)};
    }
    template <int N, typename THERE> static __device__ __forceinline__ Squares of(T (&x)[N], int count, THERE) {
        Squares all = {static_cast<T>(count), T(0)};
#pragma unroll
        for (int i = 0; i < N; ++i) all.sum += x[i] * x[i];
        return all;
    }
    __device__ __forceinline__ T offset() const { return T(0); }
    __device__ __forceinline__ T factor(Squares) const { return inverse_root(quotient(sum, count) + static_cast<T>(EPSILON)); }
    __device__ __forceinline__ T normalised(T x) const { return x * factor(*this); }
};

template <typename T, int OP> struct StatisticsOf { using type = Exponentials<T>; };
template <typename T> struct StatisticsOf<T, CARVER_LAYER_NORM> { using type = Moments<T>; };
template <typename T> struct StatisticsOf<T, CARVER_RMS_NORM> { using type = Squares<T>; };

}  // namespace carver
