#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/literal.h"
#include "ir/program/program.h"
#include "runtime/cpu/aligned_memory.h"

namespace monograph::runtime {

// A loaded kernel; `arguments`: the addresses of its Loop's buffers, in order.
using KernelFunction = void (*)(void* const* arguments);

// Where each segment of a Program lies; null: the executor makes that segment itself.
using SegmentBases = std::array<std::byte*, ir::kNumSegments>;

struct StepTime {
  int64_t num_runs = 0;
  int64_t total_ns = 0;
};

// A Program bound to memory and kernels. All addresses are resolved once; run() only calls.
class Executor {
 public:
  // `kernels`: one for each of program.kernels. Given segments are at least program.segment_bytes
  // large, 64-byte aligned, and may be shared with other executors (weights of a training and an
  // evaluation Program); own ones are zeroed. The program, the kernels and given segments must
  // outlive the executor.
  Executor(const ir::Program& program, std::vector<KernelFunction> kernels,
           const SegmentBases& segments = {});

  // The whole step. UserError when an id is out of range; the states are then half updated.
  void run();

  // UserError when there is no such tensor, or the literal is not of its type.
  void set_input(std::string_view name, const ir::Literal& value);
  ir::Literal output(std::string_view name) const;
  ir::Literal read_state(std::string_view name) const;
  void write_state(std::string_view name, const ir::Literal& value);

  std::byte* segment(ir::Segment segment) const { return bases_[static_cast<size_t>(segment)]; }

  // From now on, run() adds up the time of each step (two clock reads a step).
  void measure_steps(bool on) { is_measuring_ = on; }
  const std::vector<StepTime>& step_times() const { return times_; }  // in order of program.steps

 private:
  std::byte* address(const ir::Address& address) const;
  std::function<void()> bind(const ir::Step& step) const;
  std::function<void()> bind(const ir::KernelStep& step) const;
  std::function<void()> bind(const ir::GemmStep& step) const;
  std::function<void()> bind(const ir::SortIdsStep& step) const;
  std::function<void()> bind(const ir::AttentionStep& step) const;
  ir::Literal read(const ir::ProgramTensor& tensor) const;
  void write(const ir::ProgramTensor& tensor, const ir::Literal& value, std::string_view kind);

  const ir::Program& program_;
  std::vector<KernelFunction> kernels_;
  std::vector<AlignedMemory> own_;
  SegmentBases bases_;
  std::vector<std::function<void()>> steps_;
  std::vector<StepTime> times_;
  bool is_measuring_ = false;
};

}  // namespace monograph::runtime
