// What stands for CUDA where a kernel runs on a CPU: its keywords, and the functions of templates/common/ptx.cuh that own
// reductions use. emulate.cpp has the threads.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __device__
#define __host__
#define __global__
#define __shared__
#define __restrict__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes)

struct Index {
    unsigned x;
};
extern Index threadIdx, blockIdx;

namespace emulated {
void sync_block();
void exchange(void *value, int bytes, int bit);  // with the lane whose number differs by one bit
void arrive();
void wait();
void pause();  // lets others run first
int rank();
const unsigned char *shared_of(int rank, const void *mine);
void copy_later(void *to, const void *from, int bytes);
void finish_copies();
void fault(const char *what);

template <typename TO, typename FROM> TO bits(FROM from) {
    static_assert(sizeof(TO) == sizeof(FROM), "the same bits");
    TO to;
    memcpy(&to, &from, sizeof(to));
    return to;
}
// A pointer, which a vector of so many bytes may be moved through.
template <typename T> T *aligned(T *pointer, int bytes) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % bytes) fault("a vector begins between two multiples of its size");
    return pointer;
}
}  // namespace emulated

struct uint4 {
    unsigned x, y, z, w;
};
inline uint4 __ldcs(const uint4 *from) { return *emulated::aligned(from, 16); }
inline void __stcs(uint4 *to, uint4 value) { *emulated::aligned(to, 16) = value; }
inline void __syncthreads() { emulated::sync_block(); }
template <typename T> T __shfl_xor_sync(unsigned, T value, int bit) {
    emulated::exchange(&value, sizeof(value), bit);
    return value;
}
inline float __uint_as_float(unsigned x) { return emulated::bits<float>(x); }
inline unsigned __float_as_uint(float x) { return emulated::bits<unsigned>(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
inline int __double2int_rn(double x) { return static_cast<int>(rint(x)); }

namespace carver {

constexpr bool kAsyncCopy = true;
inline unsigned char *shared_address(void *pointer) { return static_cast<unsigned char *>(pointer); }
template <int BYTES> void copy_async(unsigned char *shared, const void *global) {
    emulated::copy_later(emulated::aligned(shared, BYTES), emulated::aligned(global, BYTES), BYTES);
}
inline void copy_async_commit() {}
template <int PENDING> void copy_async_wait() { emulated::finish_copies(); }

template <int N> void store_global(void *global, const unsigned (&words)[N]) { memcpy(emulated::aligned(global, sizeof(words)), words, sizeof(words)); }
inline float half_to_float(unsigned short x) { return static_cast<float>(emulated::bits<_Float16>(x)); }
inline unsigned short float_to_half(float x) { return emulated::bits<unsigned short>(static_cast<_Float16>(x)); }
inline unsigned short float_to_bfloat(float x) {
    const unsigned bits = __float_as_uint(x);
    return std::isnan(x) ? 0x7fff : static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline void halves_to_floats(unsigned pair, float &first, float &second) { first = half_to_float(pair & 0xffff), second = half_to_float(pair >> 16); }
inline unsigned floats_to_halves(float first, float second) { return float_to_half(first) | static_cast<unsigned>(float_to_half(second)) << 16; }
inline unsigned floats_to_bfloats(float first, float second) { return float_to_bfloat(first) | static_cast<unsigned>(float_to_bfloat(second)) << 16; }
inline float power_of_two(float x) { return exp2f(x); }

}  // namespace carver
