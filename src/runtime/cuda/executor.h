#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/literal.h"
#include "ir/program/kernel_image.h"
#include "ir/program/program.h"
#include "runtime/cpu/executor.h"
#include "runtime/cuda/collectives.h"
#include "runtime/cuda/input_ring.h"
#include "runtime/cuda/output_ring.h"

namespace monograph::runtime {

class BoundSteps;

struct CudaExecutorOptions {
  bool allows_tf32 = false;  // f32 products with operands rounded to 10 bits of mantissa
  bool replays = true;       // the whole step as one CUDA graph, once its conditions hold
  int num_candidates = 1;    // algorithms of a product that are timed; 1: the library's choice
};

// Why a Program whose executor still wants `wanted_bytes` does not fit, and what would.
std::string out_of_memory_text(const ir::Program& program, int64_t wanted_bytes, int64_t free_bytes,
                               int64_t total_bytes);

// A Program bound to a GPU's memory, kernels and libraries; the counterpart of Executor. Work is
// given to the GPU in order and done there while the host goes on; reading an output or a state
// waits.
class CudaExecutor {
 public:
  // `kernels`: one for each of program.kernels. `segments`: addresses on the GPU, as for Executor.
  // What the executor makes itself lies in one allocation. UserError when the GPU's memory does not
  // hold it: names the plan's peak, what is free, and what would fit; and when the program has
  // collectives that the mesh (null: one rank) has no group for. All ranks must make their
  // executors in the same order; the mesh must outlive it.
  CudaExecutor(const ir::Program& program, const std::vector<ir::KernelImage>& kernels,
               device::cuda::ContextPtr context, const CudaExecutorOptions& options = {},
               const SegmentBases& segments = {}, GpuMesh* mesh = nullptr);
  ~CudaExecutor();

  // Gives one step to the GPU, with the inputs set last. Returns its number, for output(). This
  // and all that wait for the GPU throw CommError when a collective failed; the states are then of
  // no use.
  int64_t run();
  // Waits for all steps given. UserError when an id of one was out of range.
  void synchronize();

  // UserError when there is no such tensor, or the literal is not of its type.
  void set_input(std::string_view name, const ir::Literal& value);
  // Of the last step, or of a step among the last OutputRing::kSlots. Waits for that step alone.
  ir::Literal output(std::string_view name) const;
  ir::Literal output(std::string_view name, int64_t step) const;
  ir::Literal read_state(std::string_view name) const;
  void write_state(std::string_view name, const ir::Literal& value);

  std::byte* segment(ir::Segment segment) const { return bases_[static_cast<size_t>(segment)]; }

  // From now on, run() adds up the time of each step on the GPU and waits for it. Not replayed.
  // Of a collective: on its own stream; of a wait: how long the computation stood still.
  void measure_steps(bool on);
  const std::vector<StepTime>& step_times() const { return times_; }

  bool is_replayed() const { return graph_ != nullptr; }
  // The condition for replay that does not hold: "the first step runs unrecorded: ...". Empty when
  // replayed.
  std::string why_not_replayed() const;
  // How each attention and product is done, for reports: "h.0.attn: own kernels: cuDNN ...".
  const std::vector<std::string>& remarks() const;

 private:
  CUdeviceptr address(const ir::Address& address) const;
  void allocate(const ir::Program& program);
  void run_steps();
  void run_measured();
  void record();
  template <typename Work>
  auto wait_for_gpu(const Work& work) const;

  const ir::Program& program_;
  device::cuda::ContextPtr context_;
  CudaExecutorOptions options_;
  SegmentBases bases_;
  device::cuda::DeviceMemory arena_;
  device::cuda::Stream compute_;
  std::unique_ptr<CudaCollectives> collectives_;
  std::unique_ptr<BoundSteps> steps_;
  std::unique_ptr<InputRing> inputs_;
  std::unique_ptr<OutputRing> outputs_;
  std::unique_ptr<device::cuda::Graph> graph_;
  std::string record_failure_;
  std::vector<device::cuda::Event> marks_;
  std::vector<StepTime> times_;
  bool is_measuring_ = false;
  int64_t num_runs_ = 0;
};

}  // namespace monograph::runtime
