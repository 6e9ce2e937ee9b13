#pragma once

#include <memory>
#include <string>

#include "runtime/cuda/attention.h"

namespace monograph::runtime {

// What all cuDNN work of an executor shares.
class Cudnn {
 public:
  // UserError when there is no cuDNN 9, or one that does not fit the GPU. `builds_all`: not only
  // the plan of its choice, for search().
  Cudnn(const device::cuda::ContextPtr& context, bool builds_all);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  struct Plan;
  // The one of steps of these sizes and strides, built when first asked for.
  std::shared_ptr<Plan> plan(const ir::AttentionStep& step) const;
  std::string version() const;  // "9.19.0"

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

// An AttentionStep by cuDNN's fused graph, deterministic in the backward.
class CudnnAttention {
 public:
  // Null, and `refusal` says why, when cuDNN has no plan for the step (it takes bf16 and f16 only).
  static std::unique_ptr<CudnnAttention> create(const ir::AttentionStep& step,
                                                const CudaAttention::Locate& locate,
                                                const Cudnn& cudnn, std::string* refusal);
  ~CudnnAttention();

  void run(const device::cuda::Stream& stream) const;
  int64_t workspace_bytes() const;
  CUdeviceptr workspace() const;  // 0: not set yet
  // May be shared: steps of one stream follow each other.
  void set_workspace(CUdeviceptr workspace);
  // Chooses the fastest plan by time, for all steps that share it; writes the results.
  void search(const device::cuda::Stream& stream);

 private:
  struct Binding;
  explicit CudnnAttention(std::unique_ptr<Binding> bound);
  bool launch(const device::cuda::Stream& stream, int64_t index) const;
  std::unique_ptr<Binding> bound_;
};

}  // namespace monograph::runtime
