#include "runtime/cuda/output_ring.h"

#include <cstring>

#include "base/error.h"
#include "runtime/cuda/bound_steps.h"

namespace monograph::runtime {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

OutputRing::OutputRing(const device::cuda::ContextPtr& context,
                       const std::vector<ir::ProgramTensor>& outputs, const Locate& locate,
                       CUdeviceptr flags, int64_t num_flags)
    : flags_(flags), num_flags_(num_flags) {
  int64_t num_bytes = 0;
  for (const ir::ProgramTensor& output : outputs) {
    const int64_t size = output.type.num_bytes();
    outputs_.push_back({output.type, num_bytes, size > 0 ? locate(output.address) : 0});
    num_bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  flags_offset_ = num_bytes;
  num_bytes += num_flags_ * static_cast<int64_t>(sizeof(int64_t));
  for (int64_t i = 0; i < kSlots; ++i) {
    slots_.push_back({{context, num_bytes}, device::cuda::Event(context)});
  }
}

void OutputRing::download(const device::cuda::Stream& compute, int64_t step) {
  const Slot& slot = slots_[step % kSlots];
  for (const Output& output : outputs_) {
    compute.copy_to_host(slot.host.data() + output.offset, output.address, output.type.num_bytes());
  }
  compute.copy_to_host(slot.host.data() + flags_offset_, flags_,
                       num_flags_ * static_cast<int64_t>(sizeof(int64_t)));
  compute.record(slot.is_done);
}

ir::Literal OutputRing::read(size_t output, int64_t step) const {
  const Slot& slot = slots_[step % kSlots];
  slot.is_done.synchronize();
  ir::Literal value(outputs_[output].type);
  if (value.type().num_bytes() > 0) {
    std::memcpy(value.data(), slot.host.data() + outputs_[output].offset, value.type().num_bytes());
  }
  return value;
}

void OutputRing::check_errors(int64_t step, const BoundSteps& steps) const {
  if (num_flags_ == 0) return;
  const Slot& slot = slots_[step % kSlots];
  slot.is_done.synchronize();
  std::vector<int64_t> flags(num_flags_);
  std::memcpy(flags.data(), slot.host.data() + flags_offset_, num_flags_ * sizeof(int64_t));
  steps.check_flags(flags);
}

}  // namespace monograph::runtime
