#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "device/cuda/stream.h"

namespace monograph::runtime {

struct CudnnPlan;  // cudnn_plan.h: the frontend's headers cost a minute in each file that sees them

// What all cuDNN work of an executor shares.
class Cudnn {
 public:
  // UserError when there is no cuDNN 9, or one that does not fit the GPU. `builds_all`: not only
  // the plan of its choice, for search().
  Cudnn(const device::cuda::ContextPtr& context, bool builds_all);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  // The plan of all steps of this signature: made by `describe`, which fills its graph, when first
  // asked for.
  using Describe = std::function<void(CudnnPlan&)>;
  std::shared_ptr<CudnnPlan> plan(const std::string& signature, const Describe& describe) const;
  std::string version() const;  // "9.19.0"

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

// A plan of cuDNN bound to the addresses of one step.
class CudnnStep {
 public:
  using Pointers = std::unordered_map<int64_t, void*>;  // by number in the plan's graph
  CudnnStep(std::shared_ptr<CudnnPlan> plan, Pointers pointers);

  // Why cuDNN cannot do it; empty: it can.
  const std::string& refusal() const;
  int64_t workspace_bytes() const;
  CUdeviceptr workspace() const { return workspace_; }  // 0: not set yet
  // May be shared: steps of one stream follow each other.
  void set_workspace(CUdeviceptr workspace) { workspace_ = workspace; }
  void set_pointer(int64_t number, CUdeviceptr address);
  void run(const device::cuda::Stream& stream) const;
  // Chooses the fastest plan by time, for all steps that share it; writes the results.
  void search(const device::cuda::Stream& stream) const;

 private:
  bool launch(const device::cuda::Stream& stream, int64_t index) const;

  std::shared_ptr<CudnnPlan> plan_;
  mutable Pointers pointers_;  // as cuDNN takes them
  CUdeviceptr workspace_ = 0;
};

}  // namespace monograph::runtime
