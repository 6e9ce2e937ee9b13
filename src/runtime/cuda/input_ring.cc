#include "runtime/cuda/input_ring.h"

#include <cstring>

namespace monograph::runtime {
namespace {

constexpr int64_t kAlignment = 256;

}  // namespace

InputRing::InputRing(const device::cuda::ContextPtr& context,
                     const std::vector<ir::ProgramTensor>& inputs, const Locate& locate)
    : copies_(context) {
  int64_t num_bytes = 0;
  for (const ir::ProgramTensor& input : inputs) {
    const int64_t size = input.type.num_bytes();
    inputs_.push_back({num_bytes, size, size > 0 ? locate(input.address) : 0, false});
    num_bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (int i = 0; i < kSlots; ++i) {
    slots_.push_back({{context, num_bytes},
                      {context, num_bytes},
                      device::cuda::Event(context),
                      device::cuda::Event(context)});
  }
}

InputRing::~InputRing() {
  try {
    copies_.synchronize();
  } catch (const std::exception&) {
    // Whoever waits for a result gets the error; there is none to tell here.
  }
}

void InputRing::set(size_t input, const ir::Literal& value) {
  Slot& slot = slots_[current_];
  if (!is_open_) slot.is_uploaded.synchronize();  // of two steps ago: its memory is free again
  is_open_ = true;
  std::memcpy(slot.host.data() + inputs_[input].offset, value.data(), inputs_[input].num_bytes);
  inputs_[input].is_set = true;
}

void InputRing::upload(const device::cuda::Stream& compute) {
  if (!is_open_) return;
  Slot& slot = slots_[current_];
  copies_.wait(slot.is_read);
  for (const Input& input : inputs_) {
    if (!input.is_set) continue;
    copies_.copy_to_device(slot.staged.address() + input.offset, slot.host.data() + input.offset,
                           input.num_bytes);
  }
  copies_.record(slot.is_uploaded);
  compute.wait(slot.is_uploaded);
  for (Input& input : inputs_) {
    if (!input.is_set) continue;
    compute.copy(input.address, slot.staged.address() + input.offset, input.num_bytes);
    input.is_set = false;
  }
  compute.record(slot.is_read);
  current_ = (current_ + 1) % kSlots;
  is_open_ = false;
}

}  // namespace monograph::runtime
