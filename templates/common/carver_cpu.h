/* Element types, vectors and epilogues shared by the CPU kernels.
 *
 * Element types are integers so that the preprocessor can choose: F64=0 F32=1 TF32=2 F16=3 BF16=4 F8E4M3=5
 * F8E5M2=6 I8=7 I32=8. The narrow floats are stored as bits and computed in float: compilers differ in which of
 * them they know, and the branch-free conversions below vectorise everywhere. */
#ifndef CARVER_CPU_H
#define CARVER_CPU_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define CARVER_F64 0
#define CARVER_F32 1
#define CARVER_TF32 2
#define CARVER_F16 3
#define CARVER_BF16 4
#define CARVER_F8E4M3 5
#define CARVER_F8E5M2 6
#define CARVER_I8 7
#define CARVER_I32 8

#define CARVER_IS_INTEGER(dtype) ((dtype) == CARVER_I8 || (dtype) == CARVER_I32)

#define CARVER_CAT_(a, b) a##b
#define CARVER_CAT(a, b) CARVER_CAT_(a, b)

typedef double carver_type_0;
typedef float carver_type_1;
typedef float carver_type_2;
typedef uint16_t carver_type_3;
typedef uint16_t carver_type_4;
typedef uint8_t carver_type_5;
typedef uint8_t carver_type_6;
typedef int8_t carver_type_7;
typedef int32_t carver_type_8;

/* CARVER_TYPE(A_DTYPE) is how one element is stored, CARVER_LOAD its value, CARVER_STORE its rounding. */
#define CARVER_TYPE(dtype) CARVER_CAT(carver_type_, dtype)
#define CARVER_LOAD(dtype, bits) CARVER_CAT(carver_load_, dtype)(bits)
#define CARVER_STORE(dtype, value) CARVER_CAT(carver_store_, dtype)(value)

#if defined(__AVX512F__)
#define CARVER_SIMD_BYTES 64
#elif defined(__AVX__)
#define CARVER_SIMD_BYTES 32
#else
#define CARVER_SIMD_BYTES 16
#endif

#ifdef __clang__
#define CARVER_UNROLL _Pragma("unroll")
#else
#define CARVER_UNROLL _Pragma("GCC unroll 64")
#endif

/* Holds a vector in a register: left alone, GCC reads one that few instructions share from memory for each of them. */
#if defined(__x86_64__)
#define CARVER_KEEP(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define CARVER_KEEP(x) __asm__("" : "+w"(x))
#else
#define CARVER_KEEP(x) (void)(x)
#endif

static inline float carver_as_float(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint32_t carver_as_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static inline double carver_load_0(double x) { return x; }
static inline float carver_load_1(float x) { return x; }
static inline float carver_load_2(float x) { return x; }
static inline int32_t carver_load_7(int8_t x) { return x; }
static inline int32_t carver_load_8(int32_t x) { return x; }

/* Shifting into place leaves an exponent that is 112 too small; a multiplication repairs it, subnormals too. Compilers
 * vectorise this, and not the one-element conversion instructions of x86. */
static inline float carver_load_3(uint16_t h) {
    float magnitude = carver_as_float((uint32_t)(h & 0x7fff) << 13) * 0x1p112f;
    uint32_t special = magnitude >= 65536.0f ? 0x7f800000u : 0;
    return carver_as_float(carver_as_bits(magnitude) | special | (uint32_t)(h & 0x8000) << 16);
}

static inline float carver_load_4(uint16_t h) { return carver_as_float((uint32_t)h << 16); }

static inline float carver_load_5(uint8_t h) {
    float magnitude = carver_as_float((uint32_t)(h & 0x7f) << 20) * 0x1p120f;
    if ((h & 0x7f) == 0x7f) magnitude = NAN;
    return h & 0x80 ? -magnitude : magnitude;
}

static inline float carver_load_6(uint8_t h) { return carver_load_3((uint16_t)(h << 8)); }

static inline double carver_store_0(double x) { return x; }
static inline float carver_store_1(double x) { return (float)x; }
static inline float carver_store_2(double x) { return (float)x; }

/* Below 2^-14 adding 0.5 leaves the rounded multiple of 2^-24 in the low bits; above, the carry of the rounding moves
 * into the exponent by itself. */
static inline uint16_t carver_store_3(float x) {
    uint32_t bits = carver_as_bits(x), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    uint32_t normal = (bits + 0xc8000fffu + (bits >> 13 & 1)) >> 13;
    uint32_t subnormal = carver_as_bits(carver_as_float(bits) + 0.5f) - 0x3f000000u;
    uint32_t special = bits > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t result = bits < 0x38800000u ? subnormal : normal;
    return (uint16_t)(sign | (bits >= 0x47800000u ? special : result));
}

static inline uint16_t carver_store_4(float x) {
    uint32_t bits = carver_as_bits(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? (bits >> 16 | 0x40) : rounded);
}

/* Like carver_store_3: of a subnormal, adding a power of two leaves the rounded multiple of the smallest one in the low
 * bits; of a normal number, half a unit is added (less a bit where that keeps a tie even) and the rest cut off. What is
 * beyond `largest` becomes that, as in the GPU's conversion. */
static inline uint8_t carver_store_8bit(float x, int mantissa, int bias, float largest) {
    const int cut = 23 - mantissa;
    uint32_t bits = carver_as_bits(x), magnitude = bits & 0x7fffffff, most = carver_as_bits(largest);
    uint32_t nan = magnitude > 0x7f800000u ? 0x7f : 0;
    magnitude = magnitude < most ? magnitude : most;
    uint32_t unit = (uint32_t)(128 - bias + cut) << 23; /* a float whose last place is the smallest subnormal */
    uint32_t subnormal = carver_as_bits(carver_as_float(magnitude) + carver_as_float(unit)) - unit;
    uint32_t rounded = magnitude + (1u << (cut - 1)) - 1 + (magnitude >> cut & 1);
    uint32_t normal = (rounded >> cut) - ((uint32_t)(127 - bias) << mantissa);
    return (uint8_t)((bits >> 24 & 0x80) | (magnitude < (uint32_t)(128 - bias) << 23 ? subnormal : normal) | nan);
}

static inline uint8_t carver_store_5(float x) { return carver_store_8bit(x, 3, 7, 448.0f); }
static inline uint8_t carver_store_6(float x) { return carver_store_8bit(x, 2, 15, 57344.0f); }

static inline int8_t carver_store_7(double x) {
    x = rint(x);
    return (int8_t)(x < -128 ? -128 : x > 127 ? 127 : x);
}

static inline int32_t carver_store_8(double x) {
    x = rint(x);
    return (int32_t)(x < -2147483648.0 ? -2147483648.0 : x > 2147483647.0 ? 2147483647.0 : x);
}

/* e^x to 2 units in the last place, without branches so that loops over it vectorise: 2^n times a polynomial on
 * [-ln 2 / 2, ln 2 / 2], the reduction in two parts (Cody and Waite, 1980). */
static inline float carver_expf(float x) {
    float n = rintf(x * 1.44269504f);
    n = n < -126.0f ? -126.0f : n > 127.0f ? 127.0f : n;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    float scaled = p * carver_as_float((uint32_t)((int32_t)n + 127) << 23);
    scaled = x < -87.0f ? 0.0f : scaled;
    return x > 88.0f ? INFINITY : x != x ? x : scaled;
}

/* The error function to 6e-7, without branches. Source: Abramowitz and Stegun, Handbook of Mathematical Functions,
 * formula 7.1.26. */
static inline float carver_erff(float x) {
    float magnitude = fabsf(x), t = 1.0f / (1.0f + 0.3275911f * magnitude);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float value = 1.0f - p * t * carver_expf(-magnitude * magnitude);
    return x < 0 ? -value : value;
}

/* Activations by code: 0 none, 1 relu, 2 gelu (by the error function), 3 silu. */
static inline float carver_activatef(int activation, float x) {
    switch (activation) {
    case 1: return x < 0 ? 0 : x;
    case 2: return 0.5f * x * (1.0f + carver_erff(x * 0.70710678f));
    case 3: return x / (1.0f + carver_expf(-x));
    default: return x;
    }
}

static inline double carver_activate(int activation, double x) {
    switch (activation) {
    case 1: return x < 0 ? 0 : x;
    case 2: return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case 3: return x / (1 + exp(-x));
    default: return x;
    }
}

static inline int64_t carver_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t carver_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
