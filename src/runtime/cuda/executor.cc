#include "runtime/cuda/executor.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "runtime/cuda/bound_steps.h"

namespace monograph::runtime {
namespace {

using device::cuda::DeviceMemory;
using device::cuda::Event;

constexpr int64_t kAlignment = 512;

int64_t aligned(int64_t num_bytes) {
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

const ir::ProgramTensor& find(const std::vector<ir::ProgramTensor>& tensors, std::string_view kind,
                              std::string_view name) {
  std::vector<std::string> names;
  for (const ir::ProgramTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
    names.push_back(tensor.name);
  }
  throw_user_error("the program has no {} '{}': it has {}", kind, name,
                   names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

void check_type(const ir::ProgramTensor& tensor, const ir::Literal& value, std::string_view kind) {
  if (value.type() == tensor.type) return;
  throw_user_error("{} '{}' is {}, but {} was given", kind, tensor.name, tensor.type.str(),
                   value.type().str());
}

}  // namespace

std::string out_of_memory_text(const ir::Program& program, int64_t wanted_bytes, int64_t free_bytes,
                               int64_t total_bytes) {
  const auto mb = [](int64_t num_bytes) { return static_cast<double>(num_bytes) / 1e6; };
  std::vector<std::string> parts;
  for (int s = 0; s < ir::kNumSegments; ++s) {
    if (program.segment_bytes[s] == 0) continue;
    parts.push_back(fmt::format("{} {:.1f}", ir::segment_name(static_cast<ir::Segment>(s)),
                                mb(program.segment_bytes[s])));
  }
  const int64_t scratch = program.segment_bytes[static_cast<int>(ir::Segment::kScratch)];
  const int64_t left = scratch - (wanted_bytes - free_bytes);  // for activations
  const std::string batch =
      left > 0 ? fmt::format(
                     "a --batch of at most {} % of this one would fit (this plan needs "
                     "{:.1f} MB in activations)",
                     100 * left / scratch, mb(scratch))
               : "no --batch would fit: use a smaller model";
  return fmt::format(
      "the step does not fit the GPU: its plan peaks at {:.1f} MB ({}), {:.1f} MB of that are "
      "still "
      "to be had, and {:.1f} of {:.1f} MB are free: {}, or use --precision bf16, or end programs "
      "that "
      "hold the GPU's memory",
      mb(program.peak_bytes), fmt::join(parts, ", "), mb(wanted_bytes), mb(free_bytes),
      mb(total_bytes), batch);
}

CudaExecutor::CudaExecutor(const ir::Program& program, const std::vector<ir::KernelImage>& kernels,
                           device::cuda::ContextPtr context, const CudaExecutorOptions& options,
                           const SegmentBases& segments, GpuMesh* mesh)
    : program_(program),
      context_(std::move(context)),
      options_(options),
      bases_(segments),
      compute_(context_),
      times_(program.steps.size()) {
  allocate(program);
  const auto locate = [this](const ir::Address& at) { return address(at); };
  inputs_ = std::make_unique<InputRing>(context_, program.inputs, locate);
  collectives_ = std::make_unique<CudaCollectives>(program, context_, locate, mesh);
  steps_ = std::make_unique<BoundSteps>(
      program, kernels, context_, locate,
      BoundSteps::Options{options.allows_tf32, options.num_candidates, collectives_.get()});
  outputs_ = std::make_unique<OutputRing>(context_, program.outputs, locate, steps_->error_flags(),
                                          steps_->num_error_flags());
  if (options.num_candidates > 1) steps_->search(compute_, options.num_candidates);
  compute_.synchronize();
}

CudaExecutor::~CudaExecutor() {
  try {
    compute_.synchronize();  // nothing may use what goes now
  } catch (const std::exception&) {
    // Whoever waits for a result gets the error; there is none to tell here.
  }
}

void CudaExecutor::allocate(const ir::Program& program) {
  int64_t wanted = 0;
  for (size_t s = 0; s < bases_.size(); ++s) {
    if (bases_[s] == nullptr) wanted += aligned(program.segment_bytes[s]);
  }
  const device::cuda::MemoryInfo memory = context_->memory();
  if (wanted > memory.free_bytes) {
    throw_user_error("{}",
                     out_of_memory_text(program, wanted, memory.free_bytes, memory.total_bytes));
  }
  arena_ = DeviceMemory(context_, wanted);
  compute_.zero(arena_.address(), wanted);
  std::byte* next = arena_.data();
  for (size_t s = 0; s < bases_.size(); ++s) {
    if (bases_[s] != nullptr || program.segment_bytes[s] == 0) continue;
    bases_[s] = next;
    next += aligned(program.segment_bytes[s]);
  }
}

CUdeviceptr CudaExecutor::address(const ir::Address& address) const {
  const auto segment = static_cast<size_t>(address.segment);
  check(address.offset >= 0 && address.offset < program_.segment_bytes[segment],
        "address {}+{} is outside the segment's {} bytes", ir::segment_name(address.segment),
        address.offset, program_.segment_bytes[segment]);
  return reinterpret_cast<CUdeviceptr>(bases_[segment] + address.offset);
}

// Does what waits for the GPU, and tells a failed collective from what else may be.
template <typename Work>
auto CudaExecutor::wait_for_gpu(const Work& work) const {
  const auto checked = [&] {
    try {
      return work();
    } catch (const UserError&) {
      collectives_->check_after_error();
      throw;
    }
  };
  auto result = checked();
  collectives_->check();
  return result;
}

void CudaExecutor::measure_steps(bool on) {
  is_measuring_ = on;
  collectives_->measure(on);
}

int64_t CudaExecutor::run() {
  collectives_->check();
  inputs_->upload(compute_);
  if (!is_measuring_ && graph_ == nullptr && options_.replays && num_runs_ > 0 &&
      record_failure_.empty()) {
    record();
  }
  collectives_->expect();
  if (is_measuring_) {
    run_measured();
  } else if (graph_ != nullptr) {
    graph_->launch(compute_);
  } else {
    run_steps();
  }
  outputs_->download(compute_, num_runs_);
  return num_runs_++;
}

void CudaExecutor::run_steps() {
  for (size_t s = 0; s < steps_->size(); ++s) steps_->run(s, compute_);
}

void CudaExecutor::run_measured() {
  while (marks_.size() <= steps_->size()) marks_.emplace_back(context_, true);
  compute_.record(marks_[0]);
  for (size_t s = 0; s < steps_->size(); ++s) {
    steps_->run(s, compute_);
    compute_.record(marks_[s + 1]);
  }
  compute_.synchronize();
  collectives_->check();
  for (size_t s = 0; s < steps_->size(); ++s) {
    const double ms = collectives_->ms(s).value_or(marks_[s + 1].ms_since(marks_[s]));
    times_[s].total_ns += static_cast<int64_t>(ms * 1e6);
    ++times_[s].num_runs;
  }
}

void CudaExecutor::record() {
  try {
    graph_ = std::make_unique<device::cuda::Graph>(compute_, [this] { run_steps(); });
  } catch (const UserError& error) {
    record_failure_ = error.what();
  }
}

std::string CudaExecutor::why_not_replayed() const {
  if (!options_.replays) return "the mode asks for single launches";
  if (is_measuring_) return "each step is measured alone";
  if (!record_failure_.empty()) return "the step cannot be recorded: " + record_failure_;
  if (graph_ == nullptr) {
    return "the first step runs unrecorded, so that libraries load their code";
  }
  return {};
}

const std::vector<std::string>& CudaExecutor::remarks() const {
  return steps_->remarks();
}

void CudaExecutor::synchronize() {
  wait_for_gpu([&] {
    compute_.synchronize();
    if (num_runs_ > 0) outputs_->check_errors(num_runs_ - 1, *steps_);
    return true;
  });
}

void CudaExecutor::set_input(std::string_view name, const ir::Literal& value) {
  const ir::ProgramTensor& tensor = find(program_.inputs, "input", name);
  check_type(tensor, value, "input");
  inputs_->set(&tensor - program_.inputs.data(), value);
}

ir::Literal CudaExecutor::output(std::string_view name) const {
  return output(name, num_runs_ - 1);
}

ir::Literal CudaExecutor::output(std::string_view name, int64_t step) const {
  const ir::ProgramTensor& tensor = find(program_.outputs, "output", name);
  if (step < 0) return ir::Literal(tensor.type);  // as the memory is before the first step
  check(step < num_runs_ && step >= num_runs_ - OutputRing::kSlots,
        "the outputs of step {} are asked for after {} steps", step, num_runs_);
  return wait_for_gpu([&] {
    outputs_->check_errors(step, *steps_);
    return outputs_->read(&tensor - program_.outputs.data(), step);
  });
}

ir::Literal CudaExecutor::read_state(std::string_view name) const {
  const ir::ProgramTensor& tensor = find(program_.states, "state", name);
  ir::Literal value(tensor.type);
  if (tensor.type.num_bytes() > 0) {
    wait_for_gpu([&] {
      compute_.copy_to_host(value.data(), address(tensor.address), tensor.type.num_bytes());
      compute_.synchronize();
      return true;
    });
  }
  return value;
}

void CudaExecutor::write_state(std::string_view name, const ir::Literal& value) {
  const ir::ProgramTensor& tensor = find(program_.states, "state", name);
  check_type(tensor, value, "state");
  if (tensor.type.num_bytes() == 0) return;
  compute_.copy_to_device(address(tensor.address), value.data(), tensor.type.num_bytes());
  compute_.synchronize();
}

}  // namespace monograph::runtime
