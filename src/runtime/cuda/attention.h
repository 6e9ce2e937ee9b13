#pragma once

#include <functional>

#include "runtime/cuda/builtin_kernels.h"

namespace monograph::runtime {

// An AttentionStep by our own kernels: any dtype, width up to 256; simple rather than fast.
class CudaAttention {
 public:
  using Locate = std::function<CUdeviceptr(const ir::Address&)>;
  // UserError when the width is above 256.
  CudaAttention(const ir::AttentionStep& step, const Locate& locate, const BuiltinKernels& kernels);

  void run(const device::cuda::Stream& stream) const;

 private:
  struct Tensor {  // as in the kernels
    CUdeviceptr data = 0;
    int64_t batch = 0, head = 0, position = 0;
  };
  struct Arguments {
    Tensor q, k, v, output, logsumexp, grad_output = {}, grad_q = {}, grad_k = {}, grad_v = {};
    int num_batches = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, width = 0, causal = 0;
    double scale = 1;
  };
  void launch(const device::cuda::Stream& stream, CUfunction function, int64_t num_rows) const;

  Arguments arguments_ = {};
  bool is_backward_;
  BuiltinKernels::Attention kernels_ = {};
};

}  // namespace monograph::runtime
