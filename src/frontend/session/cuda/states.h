#pragma once

#include <vector>

#include "device/cuda/stream.h"
#include "frontend/session/executable.h"
#include "frontend/session/state_storage.h"
#include "runtime/cuda/gpu_mesh.h"

namespace monograph::session {

// The segments of weights, moments and buffers on the GPU, laid out by the compiler.
class CudaStates : public StateStorage {
 public:
  explicit CudaStates(device::cuda::ContextPtr context);

  std::string device() const override { return "cuda"; }
  const device::cuda::ContextPtr& context() const { return context_; }
  // As in CpuStates.
  passes::StateLayout& layout() { return layout_; }
  void fit_layout();
  const runtime::SegmentBases& bases() const { return bases_; }
  int64_t num_moves() const { return num_moves_; }
  // What collectives run on; made when first asked for. Null for one rank.
  runtime::GpuMesh* gpu_mesh(const Mesh& mesh);

  void write(const std::string& name, const ir::Literal& value) override;
  bool write_initial(const std::string& name, const ir::TensorType& type,
                     const trace::Initializer& initializer, int64_t seed) override;
  ir::Literal read(const std::string& name) const override;

 private:
  CUdeviceptr address(const passes::StateLayout::Entry& entry) const;

  device::cuda::ContextPtr context_;
  device::cuda::Stream copies_;
  struct Staging {  // what is made here while the other is copied
    device::cuda::PinnedMemory memory;
    device::cuda::Event copied;
  };
  std::vector<Staging> stagings_;
  passes::StateLayout layout_;
  std::array<device::cuda::DeviceMemory, ir::kNumSegments> memory_;
  runtime::SegmentBases bases_ = {};
  int64_t num_moves_ = 0;
  Mesh mesh_;  // of the next
  std::unique_ptr<runtime::GpuMesh> gpu_mesh_;
};

}  // namespace monograph::session
