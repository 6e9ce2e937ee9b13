#include "frontend/session/cuda/states.h"

#include <algorithm>

#include "base/error.h"
#include "frontend/trace/initial_values.h"

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

bool CudaStates::write_initial(const std::string& name, const ir::TensorType& type,
                               const trace::Initializer& initializer, int64_t seed) {
  constexpr int64_t kElements = int64_t{4} << 20;  // of a piece
  const bool makes_pieces =
      type.dtype == ir::DType::kF32 && initializer.kind != trace::Initializer::Kind::kFunction;
  if (!initializer.is_zero() && !makes_pieces) return false;
  context_->synchronize();
  const CUdeviceptr to = address(layout_.entries.at(name));
  if (initializer.is_zero()) {
    copies_.zero(to, type.num_bytes());
    copies_.synchronize();
    return true;
  }
  while (stagings_.size() < 2) {
    stagings_.push_back(
        {device::cuda::PinnedMemory(context_, kElements * 4), device::cuda::Event(context_)});
  }
  for (int64_t first = 0; first < type.num_elements(); first += kElements) {
    Staging& staging = stagings_[first / kElements % 2];
    staging.copied.synchronize();
    const int64_t count = std::min(kElements, type.num_elements() - first);
    trace::fill_initial(
        initializer, name, seed, first,
        {reinterpret_cast<float*>(staging.memory.data()), static_cast<size_t>(count)});
    copies_.copy_to_device(to + first * 4, staging.memory.data(), count * 4);
    copies_.record(staging.copied);
  }
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
