#pragma once

#include <functional>
#include <vector>

#include "device/cuda/stream.h"
#include "ir/literal.h"
#include "ir/program/program.h"

namespace monograph::runtime {

class BoundSteps;

// Copies the outputs of each step to pinned memory behind the step, so that reading those of one
// step does not wait for later ones.
class OutputRing {
 public:
  static constexpr int64_t kSlots = 4;
  using Locate = std::function<CUdeviceptr(const ir::Address&)>;
  // `flags`: of errors, i64 each, copied with the outputs; 0: none.
  OutputRing(const device::cuda::ContextPtr& context, const std::vector<ir::ProgramTensor>& outputs,
             const Locate& locate, CUdeviceptr flags, int64_t num_flags);

  // After step number `step` was given to `compute`.
  void download(const device::cuda::Stream& compute, int64_t step);
  // Waits for step `step`, one of the last kSlots.
  ir::Literal read(size_t output, int64_t step) const;
  // UserError when a flag was raised in the step.
  void check_errors(int64_t step, const BoundSteps& steps) const;

 private:
  struct Output {
    ir::TensorType type;
    int64_t offset = 0;  // in a slot
    CUdeviceptr address = 0;
  };
  struct Slot {
    device::cuda::PinnedMemory host;
    device::cuda::Event is_done;
  };
  std::vector<Output> outputs_;
  CUdeviceptr flags_;
  int64_t num_flags_, flags_offset_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace monograph::runtime
