#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/program/kernel_image.h"
#include "runtime/cuda/collectives.h"
#include "runtime/cuda/conv.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/sort_ids.h"

namespace monograph::runtime {

// The steps of a Program with addresses, loaded kernels and library plans: each only launches.
class BoundSteps {
 public:
  struct Options {
    bool allows_tf32 = false;
    int num_candidates = 1;
    CudaCollectives* collectives = nullptr;  // of this program; outlives the steps
  };
  using Locate = std::function<CUdeviceptr(const ir::Address&)>;
  BoundSteps(const ir::Program& program, const std::vector<ir::KernelImage>& kernels,
             const device::cuda::ContextPtr& context, const Locate& locate, const Options& options);
  ~BoundSteps();

  size_t size() const { return steps_.size(); }
  void run(size_t step, const device::cuda::Stream& stream) const { steps_[step](stream); }

  // Chooses the algorithms of products and attention by time, once for all alike. Writes their
  // results.
  void search(const device::cuda::Stream& stream, int num_candidates);

  // One a sort: the least position with an id out of range, or -1.
  CUdeviceptr error_flags() const { return flags_.address(); }
  int64_t num_error_flags() const { return static_cast<int64_t>(sorts_.size()); }
  void check_flags(const std::vector<int64_t>& flags) const;  // UserError names the position

  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  using Launch = std::function<void(const device::cuda::Stream&)>;
  Launch bind(const ir::KernelStep& step, const std::string& name);
  Launch bind(const ir::GemmStep& step, const std::string& name);
  Launch bind(const ir::SortIdsStep& step, const std::string& name);
  Launch bind(const ir::TopKStep& step, const std::string& name);
  Launch bind(const ir::AttentionStep& step, const std::string& name);
  Launch bind(const ir::ConvStep& step, const std::string& name);
  Launch bind(const ir::MaxPoolStep& step, const std::string& name);
  Launch bind(const ir::CollectiveStep& step, const std::string& name);
  Launch bind(const ir::WaitStep& step, const std::string& name);
  const Cudnn& cudnn();
  void share_workspace();
  void load(const ir::Program& program, const std::vector<ir::KernelImage>& kernels);
  void allocate_flags(const ir::Program& program);

  struct LoadedLaunch {
    CUfunction function = nullptr;
    device::cuda::LaunchShape shape;
  };
  const ir::Program& program_;
  device::cuda::ContextPtr context_;
  Locate locate_;
  Options options_;
  std::map<const std::string*, std::unique_ptr<device::cuda::Module>> modules_;
  std::vector<std::vector<LoadedLaunch>> kernels_;
  BuiltinKernels builtin_;
  std::unique_ptr<CudaGemmShared> gemm_shared_;
  std::vector<std::shared_ptr<CudaGemm>> gemms_;
  std::unique_ptr<Cudnn> cudnn_;
  std::vector<std::shared_ptr<CudnnStep>> attentions_;
  std::vector<std::shared_ptr<CudaConv>> convs_;
  device::cuda::DeviceMemory workspace_, flags_;
  std::vector<ir::SortIdsStep> sorts_;
  std::vector<Launch> steps_;
  std::vector<std::string> remarks_;
};

}  // namespace monograph::runtime
