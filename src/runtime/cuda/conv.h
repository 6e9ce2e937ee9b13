#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/cuda/builtin_kernels.h"
#include "runtime/cuda/cudnn_conv.h"

namespace monograph::runtime {

// A ConvStep by cuDNN, or by simple kernels of our own where it refuses. The Program has weights as
// [height, width, in, out], cuDNN wants [out, height, width, in]: they are turned at each run,
// which is little beside the images.
class CudaConv {
 public:
  using Locate = std::function<CUdeviceptr(const ir::Address&)>;
  CudaConv(const ir::ConvStep& step, const Locate& locate, const BuiltinKernels& kernels,
           const Cudnn& cudnn, bool allows_tf32);

  // Why it is not done by cuDNN; empty: it is.
  const std::string& refusal() const { return library_->refusal(); }
  int64_t workspace_bytes() const;
  void set_workspace(CUdeviceptr workspace);  // shared, as CudnnStep's
  void run(const device::cuda::Stream& stream) const;
  void search(const device::cuda::Stream& stream) const;

 private:
  int64_t turned_bytes() const;  // of the weights as cuDNN has them
  void turn(const device::cuda::Stream& stream, CUdeviceptr from, CUdeviceptr to, int64_t rows,
            int64_t columns) const;
  void run_own(const device::cuda::Stream& stream) const;

  const ir::ConvStep step_;
  const ConvAddresses at_;
  const BuiltinKernels::Images* const kernels_;
  const std::shared_ptr<CudnnStep> library_;
  CUdeviceptr turned_ = 0;
};

// A convolution by one pixel, without stride and padding, is a product of matrices.
bool is_product(const ir::ConvStep& step);
ir::GemmStep product_of(const ir::ConvStep& step);

// A MaxPoolStep, by a kernel of our own.
class CudaMaxPool {
 public:
  CudaMaxPool(const ir::MaxPoolStep& step, const CudaConv::Locate& locate,
              const BuiltinKernels& kernels);
  void run(const device::cuda::Stream& stream) const;

 private:
  const ir::MaxPoolStep step_;
  CUfunction function_ = nullptr;
  int64_t channels_ = 1;  // of a thread
  CUdeviceptr x_, y_, grad_x_;
};

}  // namespace monograph::runtime
