#pragma once

#include <functional>
#include <vector>

#include "device/cuda/stream.h"
#include "ir/literal.h"
#include "ir/program/program.h"

namespace monograph::runtime {

// Brings inputs to the GPU on a stream of their own, while the step before still runs: host ->
// pinned memory -> one of two slots on the GPU -> where the Program reads them.
class InputRing {
 public:
  using Locate = std::function<CUdeviceptr(const ir::Address&)>;
  InputRing(const device::cuda::ContextPtr& context, const std::vector<ir::ProgramTensor>& inputs,
            const Locate& locate);
  ~InputRing();

  // Copies the value; used by the steps from the next upload on.
  void set(size_t input, const ir::Literal& value);
  // Before a step: what was set since the last upload. Work given to `compute` afterwards sees it.
  void upload(const device::cuda::Stream& compute);

 private:
  static constexpr int kSlots = 2;
  struct Slot {
    device::cuda::PinnedMemory host;
    device::cuda::DeviceMemory staged;
    device::cuda::Event is_uploaded, is_read;
  };
  struct Input {
    int64_t offset = 0, num_bytes = 0;  // in a slot
    CUdeviceptr address = 0;
    bool is_set = false;  // since the last upload
  };

  device::cuda::Stream copies_;
  std::vector<Input> inputs_;
  std::vector<Slot> slots_;
  int current_ = 0;
  bool is_open_ = false;  // the current slot's pinned memory may be written
};

}  // namespace monograph::runtime
