#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/literal.h"
#include "ir/program/program.h"
#include "runtime/communication_lane.h"
#include "runtime/cpu/aligned_memory.h"
#include "runtime/mesh_context.h"

namespace monograph::runtime {

// A loaded kernel; `arguments`: the addresses of its Loop's buffers, in order, then that of the
// launch's scalars (int64_t), if it takes any.
using KernelFunction = void (*)(void* const* arguments);

// Anything that does what a loaded kernel does.
using Kernel = std::function<void(void* const* arguments)>;
inline std::vector<Kernel> as_kernels(const std::vector<KernelFunction>& functions) {
  return {functions.begin(), functions.end()};
}

// Where each segment of a Program lies; null: the executor makes that segment itself.
using SegmentBases = std::array<std::byte*, ir::kNumSegments>;

struct StepTime {
  int64_t num_runs = 0;
  int64_t total_ns = 0;
  std::chrono::steady_clock::time_point begin = {}, end = {};  // of the last run
};

// A Program bound to memory and kernels. All addresses are resolved once; run() only calls.
class Executor {
 public:
  // `kernels`: one for each of program.kernels. Given segments are at least program.segment_bytes
  // large, 64-byte aligned, and may be shared with other executors (weights of a training and an
  // evaluation Program); own ones are zeroed. The program, the kernels, given segments and the mesh
  // must outlive the executor. UserError when the program has collectives that the mesh (null: one
  // rank) has no group for; all ranks must make their executors in the same order.
  Executor(const ir::Program& program, std::vector<Kernel> kernels,
           const SegmentBases& segments = {}, const MeshContext* mesh = nullptr);

  // The whole step. UserError when an id is out of range, CommError when a collective fails; the
  // states are then half updated.
  void run();

  // UserError when there is no such tensor, or the literal is not of its type.
  void set_input(std::string_view name, const ir::Literal& value);
  ir::Literal output(std::string_view name) const;
  ir::Literal read_state(std::string_view name) const;
  void write_state(std::string_view name, const ir::Literal& value);

  std::byte* segment(ir::Segment segment) const { return bases_[static_cast<size_t>(segment)]; }

  // From now on, run() adds up the time of each step (two clock reads a step): of a collective,
  // from its begin to its end on the lane; of a wait, how long the computation stood still.
  void measure_steps(bool on) { is_measuring_ = on; }
  const std::vector<StepTime>& step_times() const { return times_; }  // in order of program.steps

 private:
  std::byte* address(const ir::Address& address) const;
  void make_segments(const SegmentBases& segments);
  comm::Communicator* communicator_for(ir::Segment segment) const;
  std::function<void()> bind(size_t index);
  std::function<void()> bind_collective(size_t index);
  std::function<void()> bind_wait(size_t index);
  void run_steps();
  void note_time(size_t step, std::chrono::steady_clock::time_point begin);
  std::function<void()> bind(const ir::KernelStep& step) const;
  std::function<void()> bind(const ir::GemmStep& step) const;
  std::function<void()> bind(const ir::SortIdsStep& step) const;
  std::function<void()> bind(const ir::TopKStep& step) const;
  std::function<void()> bind(const ir::AttentionStep& step) const;
  std::function<void()> bind(const ir::ConvStep& step) const;
  std::function<void()> bind(const ir::MaxPoolStep& step) const;
  ir::Literal read(const ir::ProgramTensor& tensor) const;
  void write(const ir::ProgramTensor& tensor, const ir::Literal& value, std::string_view kind);

  const ir::Program& program_;
  const MeshContext* mesh_;
  std::vector<Kernel> kernels_;
  std::vector<AlignedMemory> own_;
  std::vector<std::shared_ptr<void>> shared_;  // own memory that collectives run on
  SegmentBases bases_;
  std::vector<std::function<void()>> steps_;
  std::vector<StepTime> times_;
  bool is_measuring_ = false;
  std::vector<int64_t> tickets_;             // by step: of a collective that was started
  std::unique_ptr<CommunicationLane> lane_;  // where there are collectives; ends first
};

}  // namespace monograph::runtime
