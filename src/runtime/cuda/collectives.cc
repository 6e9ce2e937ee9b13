#include "runtime/cuda/collectives.h"

#include <thread>

#include "base/error.h"

namespace monograph::runtime {

CudaCollectives::CudaCollectives(const ir::Program& program,
                                 const device::cuda::ContextPtr& context, const Locate& locate,
                                 GpuMesh* mesh)
    : context_(context), mesh_(mesh) {
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const auto* const step = std::get_if<ir::CollectiveStep>(&program.steps[s].work);
    if (step == nullptr) continue;
    if (mesh_ == nullptr) communicator_of(*step, nullptr);  // throws
    if (step->kind == ir::CollectiveStep::Kind::kAllToAll || step->is_transfer()) {
      throw_user_error("{} over axis '{}' on a GPU: it runs on backend cpu only",
                       kind_name(step->kind), step->axis);
    }
    comm::GpuGroup& group = mesh_->along(step->axis, step->size);
    const comm::Call call = call_of(*step, program.steps[s].name);
    bound_.emplace(
        s, Bound{&group, call, locate(step->from), locate(step->to), device::cuda::Event(context),
                 device::cuda::Event(context), std::nullopt, std::nullopt});
    auto& calls = calls_[&group];
    if (calls == nullptr) calls = std::make_shared<std::vector<comm::Call>>();
    calls->push_back(call);
  }
}

void CudaCollectives::start(size_t step, const device::cuda::Stream& compute) {
  Bound& bound = bound_.at(step);
  const device::cuda::Stream& stream = mesh_->stream();
  compute.record(bound.is_due);
  stream.wait(bound.is_due);
  if (is_measuring_) stream.record(*bound.began);
  bound.group->enqueue(bound.call, bound.from, bound.to, stream);
  if (is_measuring_) stream.record(*bound.ended);
  stream.record(bound.is_done);
}

void CudaCollectives::wait(size_t step, const device::cuda::Stream& compute) {
  compute.wait(bound_.at(step).is_done);
}

void CudaCollectives::expect() {
  for (const auto& [group, calls] : calls_) group->expect(calls);
}

void CudaCollectives::check() const {
  if (!bound_.empty()) mesh_->check();
}

void CudaCollectives::check_after_error() const {
  constexpr int kTries = 200;
  for (int i = 0; i < kTries && !bound_.empty(); ++i) {
    mesh_->check();
    std::this_thread::sleep_for(comm::Milliseconds(10));
  }
}

void CudaCollectives::measure(bool on) {
  is_measuring_ = on;
  for (auto& [step, bound] : bound_) {
    if (!on || bound.began) continue;
    bound.began.emplace(context_, true);
    bound.ended.emplace(context_, true);
  }
}

std::optional<double> CudaCollectives::ms(size_t step) const {
  const auto found = bound_.find(step);
  if (found == bound_.end()) return std::nullopt;
  return found->second.ended->ms_since(*found->second.began);
}

}  // namespace monograph::runtime
