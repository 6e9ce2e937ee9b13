#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "comm/nccl/gpu_world.h"
#include "runtime/mesh_context.h"

namespace monograph::runtime {

// The groups of this rank's GPU along the axes of a mesh, and the stream that their collectives run
// on: one for all axes, so that every rank has them in one order. The executors of a session share
// it; it must outlive them.
class GpuMesh {
 public:
  // Over NCCL. Collective. The mesh and its world must outlive it. UserError as make_nccl_world.
  GpuMesh(const MeshContext& mesh, const device::cuda::ContextPtr& context);
  GpuMesh(const MeshContext& mesh, const device::cuda::ContextPtr& context,
          std::unique_ptr<comm::GpuWorld> world);

  // Collective when the axis is asked for first. UserError as MeshContext::along.
  comm::GpuGroup& along(std::string_view axis, int64_t size);
  const device::cuda::Stream& stream() const { return stream_; }
  void check() const { world_->check(); }  // CommError once a collective failed

 private:
  const MeshContext& mesh_;
  const device::cuda::Stream stream_;
  const std::unique_ptr<comm::GpuWorld> world_;
  std::map<std::string, comm::GpuGroup*, std::less<>> groups_;
};

}  // namespace monograph::runtime
