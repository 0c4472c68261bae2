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

// The output element of a sum. The bias is added in the wider of the two types, the smooth activations are computed in
// float, or in double where that is the wider. `bias` is indexed by the output's last axis.
template <typename OUT, typename T> __device__ __forceinline__ typename OUT::type finish(T sum, const typename OUT::type *bias, i64 index) {
    using Value = decltype(sum + typename OUT::sum());
    Value value = static_cast<Value>(sum);
    if constexpr (EPILOGUE_BIAS) value += static_cast<Value>(OUT::load(bias[index]));
    if constexpr (EPILOGUE_ACTIVATION == 1) value = most<Value>(value, 0);
    if constexpr (EPILOGUE_ACTIVATION == 2) return OUT::store(gelu(value));
    if constexpr (EPILOGUE_ACTIVATION == 3) return OUT::store(silu(value));
    return OUT::store(value);
}

}  // namespace carver
