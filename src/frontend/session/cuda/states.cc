#include "frontend/session/cuda/states.h"

#include "base/error.h"

namespace monograph::session {

CudaStates::CudaStates(device::cuda::ContextPtr context)
    : context_(std::move(context)), copies_(context_) {}

void CudaStates::fit_layout() {
  for (size_t s = 0; s < memory_.size(); ++s) {
    const int64_t needed = layout_.segment_bytes[s], held = memory_[s].num_bytes();
    if (needed <= held) continue;
    context_->synchronize();  // steps that still use the old memory
    device::cuda::DeviceMemory larger(context_, needed);
    copies_.zero(larger.address(), needed);
    copies_.copy(larger.address(), memory_[s].address(), held);
    copies_.synchronize();
    memory_[s] = std::move(larger);
    bases_[s] = memory_[s].data();
    ++num_moves_;
  }
}

runtime::GpuMesh* CudaStates::gpu_mesh(const Mesh& mesh) {
  if (mesh == nullptr) return nullptr;
  if (gpu_mesh_ == nullptr) {
    mesh_ = mesh;
    gpu_mesh_ = std::make_unique<runtime::GpuMesh>(*mesh, context_);
  }
  check(mesh_ == mesh, "a session has one mesh");
  return gpu_mesh_.get();
}

CUdeviceptr CudaStates::address(const passes::StateLayout::Entry& entry) const {
  const auto segment = static_cast<size_t>(entry.address.segment);
  check(entry.address.offset + entry.type.num_bytes() <= memory_[segment].num_bytes(),
        "a state at {}+{} is outside its memory", ir::segment_name(entry.address.segment),
        entry.address.offset);
  return memory_[segment].address() + entry.address.offset;
}

// The GPU may still be at steps given before: they come first.
void CudaStates::write(const std::string& name, const ir::Literal& value) {
  const passes::StateLayout::Entry& entry = layout_.entries.at(name);
  check(entry.type == value.type(), "state '{}' is {}, written with {}", name, entry.type.str(),
        value.type().str());
  context_->synchronize();
  copies_.copy_to_device(address(entry), value.data(), value.type().num_bytes());
  copies_.synchronize();
}

bool CudaStates::write_zeros(const std::string& name, const ir::TensorType& type) {
  context_->synchronize();
  copies_.zero(address(layout_.entries.at(name)), type.num_bytes());
  copies_.synchronize();
  return true;
}

ir::Literal CudaStates::read(const std::string& name) const {
  const passes::StateLayout::Entry& entry = layout_.entries.at(name);
  ir::Literal value(entry.type);
  context_->synchronize();
  copies_.copy_to_host(value.data(), address(entry), entry.type.num_bytes());
  copies_.synchronize();
  return value;
}

}  // namespace monograph::session
