#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/module.h"
#include "ir/program/program.h"

namespace monograph::runtime {

// The few kernels that we wrote by hand, compiled by NVRTC for the context's GPU when first needed.
class BuiltinKernels {
 public:
  explicit BuiltinKernels(device::cuda::ContextPtr context) : context_(std::move(context)) {}

  // Fills biases and sorts ids.
  struct Steps {
    CUfunction fill_f32, fill_bf16, fill_f64, fill_bf16_f32,
        fill_f32_bf16;  // from the bias's dtype
    // Of a stable radix sort of ids, 8 bits a pass.
    CUfunction sort_read_i64, sort_read_i32, sort_count, sort_scan, sort_scatter, sort_offsets;
  };
  const Steps& steps() const;

  // One warp a row.
  struct Attention {
    CUfunction forward, grad_q, grad_kv;
  };
  const Attention& attention(ir::DType dtype, int64_t width) const;

  // Convolutions that cuDNN has no plan for, weights turned for those that it has, max pools.
  struct Images {
    CUfunction turn, conv, conv_backward_data, conv_backward_weight;
    CUfunction max_pool, max_pool_backward;            // a channel a thread
    CUfunction max_pool_wide, max_pool_backward_wide;  // channels of 16 bytes
  };
  const Images& images(ir::DType dtype) const;

  // c[batch, i, j] = bias[j], or bias[i] with bias_along_rows.
  void fill_bias(const device::cuda::Stream& stream, const ir::GemmStep& step, CUdeviceptr bias,
                 CUdeviceptr c) const;

 private:
  const device::cuda::Module& load(const std::string& source) const;

  device::cuda::ContextPtr context_;
  mutable std::vector<std::unique_ptr<device::cuda::Module>> modules_;
  mutable std::optional<Steps> steps_;
  mutable std::map<std::pair<ir::DType, int64_t>, Attention> attention_;
  mutable std::map<ir::DType, Images> images_;
};

// Their CUDA C++.
std::string kernel_types_source();
std::string step_kernels_source();
std::string attention_kernels_source(ir::DType dtype, int64_t width);
std::string image_kernels_source(ir::DType dtype);

}  // namespace monograph::runtime
