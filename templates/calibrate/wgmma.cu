// Clocks that a block of two warp groups takes for four wgmma of 64 x 256 a group and round, operands in shared memory.
// sm_90a. KIND as in carver.cuh: 2 tf32, 3 float16, 4 bfloat16, 5 and 6 float8, 7 int8.
#ifndef KIND
#define KIND 3
#endif

#include "common/carver.cuh"
#include "common/wgmma.cuh"

namespace carver {

constexpr int kGroups = 2, kColumns = 256, kRowBytes = 128, kStepBytes = 32;
constexpr int kABytes = 64 * kRowBytes, kBBytes = kColumns * kRowBytes;

template <int DTYPE> struct Instruction;
#define CARVER_INSTRUCTION(DTYPE, SUM, CALL)                                                                           \
    template <> struct Instruction<DTYPE> {                                                                            \
        using sum = SUM;                                                                                               \
        static __device__ __forceinline__ void run(SUM(&d)[kColumns / 2], unsigned long long a, unsigned long long b) { \
            CALL<kColumns, false, false>(d, a, b);                                                                     \
        }                                                                                                              \
    };
CARVER_INSTRUCTION(CARVER_TF32, float, wgmma_tf32)
CARVER_INSTRUCTION(CARVER_F16, float, wgmma_f16)
CARVER_INSTRUCTION(CARVER_BF16, float, wgmma_bf16)
CARVER_INSTRUCTION(CARVER_F8E4M3, float, wgmma_e4m3_e4m3)
CARVER_INSTRUCTION(CARVER_F8E5M2, float, wgmma_e5m2_e5m2)
CARVER_INSTRUCTION(CARVER_I8, int, wgmma_i8)
#undef CARVER_INSTRUCTION

}  // namespace carver

extern __shared__ __align__(1024) unsigned char shared_memory[];

extern "C" __global__ void __launch_bounds__(128 * carver::kGroups, 1) carver_wgmma(int *clocks, float *out, carver::i64 rounds) {
    using namespace carver;
    unsigned *words = reinterpret_cast<unsigned *>(shared_memory);
    for (int i = threadIdx.x; i < (kGroups * kABytes + kBBytes) / 4; i += blockDim.x)
        words[i] = 0x3c003c00u | (i * 2654435761u >> 7) & 0x03ff03ffu;
    show_to_matrix_unit();
    __syncthreads();
    const unsigned shared = shared_address(shared_memory);
    const int group = static_cast<int>(threadIdx.x) / 128;
    const Descriptor a(shared + group * kABytes, kRowBytes, 0, 8 * kRowBytes);
    const Descriptor b(shared + kGroups * kABytes, kRowBytes, 0, 8 * kRowBytes);
    Instruction<KIND>::sum sums[kColumns / 2] = {};
    __syncthreads();
    const long long began = clock64();
#pragma unroll 1
    for (int round = 0; round < static_cast<int>(rounds); ++round) {
        wgmma_begin();
#pragma unroll
        for (int step = 0; step < kRowBytes / kStepBytes; ++step)
            Instruction<KIND>::run(sums, a.at(step * kStepBytes), b.at(step * kStepBytes));
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    wgmma_done(sums);  // else ptxas takes the instructions one by one
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = static_cast<int>(clock64() - began);
    float total = 0;
    for (int i = 0; i < kColumns / 2; ++i) total += static_cast<float>(sums[i]);
    if (total == 12345.f) *out = total;
}
