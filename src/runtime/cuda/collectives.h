#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ir/program/program.h"
#include "runtime/cuda/gpu_mesh.h"

namespace monograph::runtime {

// The collectives of a Program, on a stream beside the computation: each begins when the
// computation has come to it, and its wait holds the computation until it is done.
class CudaCollectives {
 public:
  using Locate = std::function<CUdeviceptr(const ir::Address&)>;
  // UserError when the program has collectives and there is no mesh (null), or not their axis.
  CudaCollectives(const ir::Program& program, const device::cuda::ContextPtr& context,
                  const Locate& locate, GpuMesh* mesh);

  // `step`: a CollectiveStep; for wait(), the one waited for.
  void start(size_t step, const device::cuda::Stream& compute);
  void wait(size_t step, const device::cuda::Stream& compute);
  // Before the steps are given to the GPU, one by one or as a graph.
  void expect();

  // After a wait for the GPU: CommError when a collective failed.
  void check() const;
  // After the driver gave an error: a rank that dies takes memory away that this GPU writes to.
  // Gives the job time to say so, and throws CommError if it does.
  void check_after_error() const;

  // From now on start() takes times; ms(step): of one that is done.
  void measure(bool on);
  std::optional<double> ms(size_t step) const;  // nothing for steps that are no collectives

 private:
  struct Bound {
    comm::GpuGroup* group;
    comm::Call call;
    CUdeviceptr from, to;
    device::cuda::Event is_due, is_done;
    std::optional<device::cuda::Event> began, ended;  // with time
  };

  device::cuda::ContextPtr context_;
  GpuMesh* mesh_;
  std::map<size_t, Bound> bound_;  // by step
  std::map<comm::GpuGroup*, std::shared_ptr<std::vector<comm::Call>>> calls_;
  bool is_measuring_ = false;
};

}  // namespace monograph::runtime
