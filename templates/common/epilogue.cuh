// Bias and activation, chosen by macros. matmul and gemv share it.
#pragma once

#include "common/carver.cuh"

#ifndef EPILOGUE_BIAS
#define EPILOGUE_BIAS 0
#endif
#ifndef EPILOGUE_ACTIVATION
#define EPILOGUE_ACTIVATION 0  // 1 relu, 2 gelu, 3 silu
#endif

namespace carver {

// The output element of a sum. The smooth activations are computed in float. `bias` is indexed by the output's last axis.
template <typename OUT, typename T> __device__ __forceinline__ typename OUT::type finish(T sum, const typename OUT::type *bias, i64 index) {
    if constexpr (EPILOGUE_BIAS) sum += static_cast<T>(OUT::load(bias[index]));
    if constexpr (EPILOGUE_ACTIVATION == 1) sum = most<T>(sum, 0);
    if constexpr (EPILOGUE_ACTIVATION == 2) return OUT::store(gelu(static_cast<float>(sum)));
    if constexpr (EPILOGUE_ACTIVATION == 3) return OUT::store(silu(static_cast<float>(sum)));
    return OUT::store(sum);
}

}  // namespace carver
