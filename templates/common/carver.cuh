// What every kernel shares: element types, vectors of them, and a little arithmetic. No other header is needed, so the
// sources compile under nvcc and NVRTC alike.
#pragma once

#include "common/ptx.cuh"

// The values of the *_DTYPE macros.
#define CARVER_F64 0
#define CARVER_F32 1
#define CARVER_TF32 2
#define CARVER_F16 3
#define CARVER_BF16 4
#define CARVER_F8E4M3 5
#define CARVER_F8E5M2 6
#define CARVER_I8 7
#define CARVER_I32 8

namespace carver {

using i64 = long long;

template <typename A, typename B> __host__ __device__ constexpr A ceil_div(A a, B b) { return (a + b - 1) / b; }
__host__ __device__ constexpr bool power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }
template <typename T> __host__ __device__ constexpr T least(T a, T b) { return a < b ? a : b; }
template <typename T> __host__ __device__ constexpr T most(T a, T b) { return a < b ? b : a; }

// An 8-bit float is a half with bits cut off: e5m2 the low byte of the mantissa, e4m3 one bit of the exponent as well, so
// its bits read as a half are 2^8 too small.
__device__ __forceinline__ float e5m2_to_float(unsigned char x) { return half_to_float(static_cast<unsigned short>(x << 8)); }
__device__ __forceinline__ float e4m3_to_float(unsigned char x) {
    if ((x & 0x7f) == 0x7f) return __uint_as_float(0x7fc00000u);
    return 256.f * half_to_float(static_cast<unsigned short>((x & 0x80) << 8 | (x & 0x7f) << 7));
}

// Nearest 8-bit float, ties to even, saturating. Adding 2^(23 - MANTISSA) units of the last kept place, as a float of the
// right exponent, leaves the rounded mantissa in the low bits of the sum.
template <int MANTISSA, int BIAS, unsigned LARGEST> __device__ __forceinline__ unsigned char float_to_f8(float value) {
    const unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu, sign = bits >> 24 & 0x80u;
    if (magnitude > 0x7f800000u) return static_cast<unsigned char>(sign | 0x7f);
    unsigned result;
    if (magnitude < static_cast<unsigned>(128 - BIAS) << 23) {  // subnormal: fixed point
        const float shift = __uint_as_float(static_cast<unsigned>(127 + 23 + 1 - BIAS - MANTISSA) << 23);
        result = __float_as_uint(__uint_as_float(magnitude) + shift) - __float_as_uint(shift);
    } else {
        const unsigned odd = magnitude >> (23 - MANTISSA) & 1u;
        const unsigned rounded = magnitude + ((1u << (22 - MANTISSA)) - 1u) + odd;
        result = (rounded >> (23 - MANTISSA)) - (static_cast<unsigned>(127 - BIAS) << MANTISSA);
    }
    return static_cast<unsigned char>(sign | least(result, LARGEST));
}

// How an element is stored (`type`), in what it is added up (`sum`), and the way between the two.
template <int DTYPE> struct Element;
template <> struct Element<CARVER_F64> {
    using type = double;
    using sum = double;
    static __device__ __forceinline__ double load(double x) { return x; }
    static __device__ __forceinline__ double store(double x) { return x; }
};
template <> struct Element<CARVER_F32> {
    using type = float;
    using sum = float;
    static __device__ __forceinline__ float load(float x) { return x; }
    static __device__ __forceinline__ float store(float x) { return x; }
};
template <> struct Element<CARVER_TF32> : Element<CARVER_F32> {};
template <> struct Element<CARVER_F16> {
    using type = unsigned short;
    using sum = float;
    static __device__ __forceinline__ float load(type x) { return half_to_float(x); }
    static __device__ __forceinline__ type store(float x) { return float_to_half(x); }
};
template <> struct Element<CARVER_BF16> {
    using type = unsigned short;
    using sum = float;
    static __device__ __forceinline__ float load(type x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
    static __device__ __forceinline__ type store(float x) { return float_to_bfloat(x); }
};
template <> struct Element<CARVER_F8E4M3> {
    using type = unsigned char;
    using sum = float;
    static __device__ __forceinline__ float load(type x) { return e4m3_to_float(x); }
    static __device__ __forceinline__ type store(float x) { return float_to_f8<3, 7, 0x7e>(x); }
};
template <> struct Element<CARVER_F8E5M2> {
    using type = unsigned char;
    using sum = float;
    static __device__ __forceinline__ float load(type x) { return e5m2_to_float(x); }
    static __device__ __forceinline__ type store(float x) { return float_to_f8<2, 15, 0x7b>(x); }
};
template <> struct Element<CARVER_I8> {
    using type = signed char;
    using sum = int;
    static __device__ __forceinline__ int load(type x) { return x; }
    static __device__ __forceinline__ type store(int x) { return static_cast<type>(most(-128, least(127, x))); }
    static __device__ __forceinline__ type store(i64 x) { return static_cast<type>(most<i64>(-128, least<i64>(127, x))); }
    static __device__ __forceinline__ type store(float x) { return store(__float2int_rn(x)); }
    static __device__ __forceinline__ type store(double x) { return store(__double2int_rn(x)); }
};
template <> struct Element<CARVER_I32> {
    using type = int;
    using sum = int;
    static __device__ __forceinline__ int load(type x) { return x; }
    static __device__ __forceinline__ type store(int x) { return x; }
    static __device__ __forceinline__ type store(i64 x) { return static_cast<type>(most<i64>(-2147483648ll, least<i64>(2147483647, x))); }
    static __device__ __forceinline__ type store(float x) { return __float2int_rn(x); }
    static __device__ __forceinline__ type store(double x) { return __double2int_rn(x); }
};

template <typename T> __host__ __device__ constexpr bool is_integer() { return static_cast<T>(0.5) == T(0); }

// N elements that move in one instruction where their bytes are 16 or fewer, else in pieces of 16.
template <typename T, int N> struct alignas(least<int>(16, sizeof(T) * N)) Vector {
    T at[N];
};
template <int N, typename T> __device__ __forceinline__ Vector<T, N> load_vector(const T *pointer) {
    return *reinterpret_cast<const Vector<T, N> *>(pointer);
}
// To global memory.
template <int N, typename T> __device__ __forceinline__ void store_vector(T *pointer, const Vector<T, N> &value) {
    constexpr int kBytes = sizeof(value);
    if constexpr (kBytes == 4 || kBytes % 8 == 0) {
        constexpr int kWords = least(4, kBytes / 4);
        using Words = unsigned[kWords];
#pragma unroll
        for (int i = 0; i < kBytes; i += 4 * kWords)
            store_global(reinterpret_cast<char *>(pointer) + i, *reinterpret_cast<const Words *>(reinterpret_cast<const char *>(&value) + i));
    } else {
        *reinterpret_cast<Vector<T, N> *>(pointer) = value;
    }
}

// All elements of a vector, between memory's type and the one they are computed in.
template <int DTYPE, int N, typename REAL>
__device__ __forceinline__ void widen(const Vector<typename Element<DTYPE>::type, N> &from, REAL (&to)[N]) {
    if constexpr ((DTYPE == CARVER_F16 || DTYPE == CARVER_BF16) && N % 2 == 0 && sizeof(REAL) == 4) {
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            const unsigned pair = reinterpret_cast<const unsigned *>(from.at)[i / 2];
            if constexpr (DTYPE == CARVER_F16)
                halves_to_floats(pair, to[i], to[i + 1]);
            else
                to[i] = __uint_as_float(pair << 16), to[i + 1] = __uint_as_float(pair & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = static_cast<REAL>(Element<DTYPE>::load(from.at[i]));
    }
}
template <int DTYPE, int N, typename REAL>
__device__ __forceinline__ Vector<typename Element<DTYPE>::type, N> narrow(const REAL (&from)[N]) {
    Vector<typename Element<DTYPE>::type, N> to;
    if constexpr ((DTYPE == CARVER_F16 || DTYPE == CARVER_BF16) && N % 2 == 0 && sizeof(REAL) == 4) {
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            const float a = from[i], b = from[i + 1];
            const unsigned pair = DTYPE == CARVER_F16 ? floats_to_halves(a, b) : floats_to_bfloats(a, b);
            reinterpret_cast<unsigned *>(to.at)[i / 2] = pair;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) to.at[i] = Element<DTYPE>::store(from[i]);
    }
    return to;
}

// load_vector and store_vector for what nobody reads again soon: it leaves the caches first.
template <int N, typename T> __device__ __forceinline__ Vector<T, N> load_vector_once(const T *pointer) {
    Vector<T, N> value;
    if constexpr (sizeof(value) == 16)
        reinterpret_cast<uint4 &>(value) = __ldcs(reinterpret_cast<const uint4 *>(pointer));
    else
        value = load_vector<N>(pointer);
    return value;
}
template <int N, typename T> __device__ __forceinline__ void store_vector_once(T *pointer, const Vector<T, N> &value) {
    if constexpr (sizeof(value) == 16)
        __stcs(reinterpret_cast<uint4 *>(pointer), reinterpret_cast<const uint4 &>(value));
    else
        store_vector<N>(pointer, value);
}

// The first `count` of N elements, the others `fill`. Narrow ones shift into words one after the other: a tile some of whose
// elements are set by themselves keeps every element in a register of its own.
template <int N, typename T> __device__ __forceinline__ Vector<T, N> load_first(const T *pointer, int count, T fill) {
    Vector<T, N> out;
    if constexpr (sizeof(T) < 4 && sizeof(out) % 4 == 0) {
        constexpr int kBits = 8 * sizeof(T), kWords = sizeof(out) / 4;
        constexpr unsigned kMask = (1u << kBits) - 1;
        unsigned(&word)[kWords] = reinterpret_cast<unsigned(&)[kWords]>(out);
        for (unsigned &w : word) w = (static_cast<unsigned>(fill) & kMask) * (~0u / kMask);
#pragma unroll 1
        for (int i = count - 1; i >= 0; --i) {
#pragma unroll
            for (int w = kWords - 1; w > 0; --w) word[w] = word[w] << kBits | word[w - 1] >> (32 - kBits);
            word[0] = word[0] << kBits | (static_cast<unsigned>(pointer[i]) & kMask);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) out.at[i] = i < count ? pointer[i] : fill;
    }
    return out;
}

// N elements from a pointer that is a multiple of ALIGN bytes. ONCE: nobody reads them again soon.
template <int N, int ALIGN, bool ONCE = false, typename T>
__device__ __forceinline__ Vector<T, N> load_aligned(const T *pointer) {
    constexpr int kPiece = least<int>(N, most<int>(1, ALIGN / sizeof(T)));
    Vector<T, N> out;
#pragma unroll
    for (int i = 0; i < N; i += kPiece) {
        const auto piece = ONCE ? load_vector_once<kPiece>(pointer + i) : load_vector<kPiece>(pointer + i);
#pragma unroll
        for (int e = 0; e < kPiece; ++e) out.at[i + e] = piece.at[e];
    }
    return out;
}
template <int N, int ALIGN, bool ONCE = false, typename T>
__device__ __forceinline__ void store_aligned(T *pointer, const Vector<T, N> &value) {
    constexpr int kPiece = least<int>(N, most<int>(1, ALIGN / sizeof(T)));
#pragma unroll
    for (int i = 0; i < N; i += kPiece) {
        Vector<T, kPiece> piece;
#pragma unroll
        for (int e = 0; e < kPiece; ++e) piece.at[e] = value.at[i + e];
        if constexpr (ONCE)
            store_vector_once<kPiece>(pointer + i, piece);
        else
            store_vector<kPiece>(pointer + i, piece);
    }
}

// Of a double in double, of anything else in float.
template <typename T> using Activated = decltype(T() * 1.f);

template <typename T> __device__ __forceinline__ Activated<T> relu(T x) {
    const Activated<T> value = static_cast<Activated<T>>(x);
    return value < 0 ? 0 : value;  // NaN stays
}
template <typename T> __device__ __forceinline__ Activated<T> gelu(T x) {
    const Activated<T> value = static_cast<Activated<T>>(x);
    if constexpr (sizeof(value) == sizeof(double))
        return 0.5 * value * (1. + erf(value * 0.70710678118654752440));
    else
        return 0.5f * value * (1.f + erff(value * 0.70710678f));
}
template <typename T> __device__ __forceinline__ Activated<T> silu(T x) {
    const Activated<T> value = static_cast<Activated<T>>(x);
    if constexpr (sizeof(value) == sizeof(double))
        return value / (1. + exp(-value));
    else
        return value / (1.f + __expf(-value));
}

}  // namespace carver
