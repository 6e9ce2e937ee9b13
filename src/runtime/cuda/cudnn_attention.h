#pragma once

#include <memory>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/cudnn.h"

namespace monograph::runtime {

// An AttentionStep by cuDNN's fused graph, deterministic unless the step says otherwise; it takes
// bf16 only.
std::shared_ptr<CudnnStep> make_cudnn_attention(const ir::AttentionStep& step,
                                                const CudaAttention::Locate& locate,
                                                const Cudnn& cudnn);

}  // namespace monograph::runtime
