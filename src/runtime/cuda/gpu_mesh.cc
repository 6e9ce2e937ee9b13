#include "runtime/cuda/gpu_mesh.h"

#include "base/error.h"

namespace monograph::runtime {
namespace {

comm::World& world_of(const MeshContext& mesh) {
  check(mesh.world != nullptr, "{} has no world to make groups of GPUs in", mesh.mesh.str());
  return *mesh.world;
}

}  // namespace

GpuMesh::GpuMesh(const MeshContext& mesh, const device::cuda::ContextPtr& context)
    : GpuMesh(mesh, context, comm::make_nccl_world(world_of(mesh), context)) {}

GpuMesh::GpuMesh(const MeshContext& mesh, const device::cuda::ContextPtr& context,
                 std::unique_ptr<comm::GpuWorld> world)
    : mesh_(mesh),
      stream_(context, device::cuda::Stream::Priority::kHigh),
      world_(std::move(world)) {}

comm::GpuGroup& GpuMesh::along(std::string_view axis, int64_t size) {
  mesh_.along(axis, size);  // refuses what is not of the mesh
  comm::GpuGroup*& group = groups_[std::string(axis)];
  if (group == nullptr) group = &world_->split(mesh_.ranks_along(axis), mesh_.group_name(axis));
  return *group;
}

}  // namespace monograph::runtime
