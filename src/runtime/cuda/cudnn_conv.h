#pragma once

#include <memory>

#include "ir/program/program.h"
#include "runtime/cuda/cudnn.h"

namespace monograph::runtime {

// Where a convolution's tensors are; the weights are [out, height, width, in], as cuDNN wants them
// where channels are last.
struct ConvAddresses {
  CUdeviceptr x = 0, weight = 0, y = 0;
};

// A ConvStep by cuDNN, deterministic. f32 is computed in f32 unless `allows_tf32`.
std::shared_ptr<CudnnStep> make_cudnn_conv(const ir::ConvStep& step, const ConvAddresses& at,
                                           const Cudnn& cudnn, bool allows_tf32);

// Moves its weights.
void set_conv_weight(CudnnStep& step, CUdeviceptr weight);

}  // namespace monograph::runtime
