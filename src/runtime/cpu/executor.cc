#include "runtime/cpu/executor.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cstring>

#include "base/error.h"
#include "runtime/cpu/attention/attention.h"
#include "runtime/cpu/conv.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/gemm_bf16.h"
#include "runtime/cpu/max_pool.h"
#include "runtime/cpu/sort_ids.h"
#include "runtime/cpu/top_k.h"

namespace monograph::runtime {
namespace {

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

}  // namespace

Executor::Executor(const ir::Program& program, std::vector<Kernel> kernels,
                   const SegmentBases& segments, const MeshContext* mesh)
    : program_(program),
      mesh_(mesh),
      kernels_(std::move(kernels)),
      bases_(segments),
      times_(program.steps.size()),
      tickets_(program.steps.size()) {
  check(kernels_.size() == program.kernels.size(), "{} kernels for a program of {}",
        kernels_.size(), program.kernels.size());
  make_segments(segments);
  for (size_t i = 0; i < program.steps.size(); ++i) steps_.push_back(bind(i));
}

void Executor::make_segments(const SegmentBases& segments) {
  for (size_t s = 0; s < segments.size(); ++s) {
    const int64_t num_bytes = program_.segment_bytes[s];
    if (bases_[s] != nullptr || num_bytes == 0) continue;
    if (comm::Communicator* communicator = communicator_for(static_cast<ir::Segment>(s))) {
      shared_.push_back(communicator->allocate(num_bytes));
      bases_[s] = static_cast<std::byte*>(shared_.back().get());
    } else {
      own_.emplace_back(num_bytes);
      bases_[s] = own_.back().data();
    }
  }
}

// Of the first collective that runs on the segment; null when none does.
comm::Communicator* Executor::communicator_for(ir::Segment segment) const {
  for (const ir::Step& step : program_.steps) {
    const auto* collective = std::get_if<ir::CollectiveStep>(&step.work);
    if (collective == nullptr) continue;
    if (collective->from.segment == segment || collective->to.segment == segment) {
      return &communicator_of(*collective, mesh_);
    }
  }
  return nullptr;
}

std::byte* Executor::address(const ir::Address& address) const {
  const auto segment = static_cast<size_t>(address.segment);
  check(address.offset >= 0 && address.offset < program_.segment_bytes[segment],
        "address {}+{} is outside the segment's {} bytes", ir::segment_name(address.segment),
        address.offset, program_.segment_bytes[segment]);
  return bases_[segment] + address.offset;
}

std::function<void()> Executor::bind(size_t index) {
  const auto bind_work = [this, index]<typename Work>(const Work& work) {
    if constexpr (std::is_same_v<Work, ir::CollectiveStep>) {
      return bind_collective(index);
    } else if constexpr (std::is_same_v<Work, ir::WaitStep>) {
      return bind_wait(index);
    } else {
      return bind(work);
    }
  };
  return std::visit(bind_work, program_.steps[index].work);
}

std::function<void()> Executor::bind_collective(size_t index) {
  const auto& step = std::get<ir::CollectiveStep>(program_.steps[index].work);
  comm::Communicator* const communicator = &communicator_of(step, mesh_);
  if (!lane_) lane_ = std::make_unique<CommunicationLane>();
  const auto work = [this, index, communicator, &step, from = address(step.from),
                     to = address(step.to)] {
    const auto start = std::chrono::steady_clock::now();
    run_collective(step, from, to, *communicator, program_.steps[index].name);
    if (is_measuring_) note_time(index, start);
  };
  return [this, index, work] { tickets_[index] = lane_->start(work); };
}

std::function<void()> Executor::bind_wait(size_t index) {
  const ir::Step& step = program_.steps[index];
  check(step.waits.size() == 1 && step.waits[0] < static_cast<int>(index),
        "step {} waits for no step before it", index);
  return [this, collective = step.waits[0]] { lane_->wait(tickets_[collective]); };
}

std::function<void()> Executor::bind(const ir::KernelStep& step) const {
  check(step.kernel >= 0 && step.kernel < static_cast<int>(kernels_.size()),
        "a step launches kernel {} of {}", step.kernel, kernels_.size());
  check(step.arguments.size() == program_.kernels[step.kernel].buffers.size(),
        "kernel {} is launched with {} arguments, it has {} buffers", step.kernel,
        step.arguments.size(), program_.kernels[step.kernel].buffers.size());
  std::vector<void*> arguments;
  for (const ir::Address& argument : step.arguments) arguments.push_back(address(argument));
  check(static_cast<int>(step.scalars.size()) >= program_.kernels[step.kernel].num_scalars(),
        "kernel {} is launched with {} scalars, its Loop takes {}", step.kernel,
        step.scalars.size(), program_.kernels[step.kernel].num_scalars());
  if (!step.scalars.empty()) arguments.push_back(const_cast<int64_t*>(step.scalars.data()));
  return [function = kernels_[step.kernel], arguments = std::move(arguments)] {
    function(arguments.data());
  };
}

std::function<void()> Executor::bind(const ir::GemmStep& step) const {
  if (step.dtype == ir::DType::kBF16 && is_bf16_fast()) {
    return [gemm = GemmBF16(step, address(step.a), address(step.b), address(step.c),
                            step.has_bias ? address(step.bias) : nullptr)] { gemm.run(); };
  }
  return [gemm = Gemm(step, address(step.a), address(step.b), address(step.c),
                      step.has_bias ? address(step.bias) : nullptr)] { gemm.run(); };
}

std::function<void()> Executor::bind(const ir::SortIdsStep& step) const {
  const std::byte* const ids = address(step.ids);
  auto* const order = reinterpret_cast<int32_t*>(address(step.order));
  auto* const offsets = reinterpret_cast<int32_t*>(address(step.offsets));
  const int64_t num_positions = step.num_positions, num_ids = step.num_ids;
  check(step.ids_dtype == ir::DType::kI64 || step.ids_dtype == ir::DType::kI32, "sort_ids of {}",
        ir::dtype_name(step.ids_dtype));
  const bool is_long = step.ids_dtype == ir::DType::kI64;
  return [=] {
    if (is_long) {
      sort_ids(reinterpret_cast<const int64_t*>(ids), num_positions, num_ids, order, offsets);
    } else {
      sort_ids(reinterpret_cast<const int32_t*>(ids), num_positions, num_ids, order, offsets);
    }
  };
}

std::function<void()> Executor::bind(const ir::TopKStep& step) const {
  const auto* const x = reinterpret_cast<const float*>(address(step.x));
  auto* const values = reinterpret_cast<float*>(address(step.values));
  auto* const indices = reinterpret_cast<int32_t*>(address(step.indices));
  return [=, rows = step.rows, length = step.length, k = step.k, top = TopK()]() mutable {
    for (int64_t row = 0; row < rows; ++row) {
      top.run({x + row * length, static_cast<size_t>(length)}, k, values + row * k,
              indices + row * k);
    }
  };
}

std::function<void()> Executor::bind(const ir::AttentionStep& step) const {
  const auto memory = [this](const ir::Address& at) { return address(at); };
  return [attention = Attention(step, memory)] { attention.run(); };
}

std::function<void()> Executor::bind(const ir::ConvStep& step) const {
  return
      [conv = Conv(step, address(step.x), address(step.weight), address(step.y))] { conv.run(); };
}

std::function<void()> Executor::bind(const ir::MaxPoolStep& step) const {
  std::byte* const grad_x = step.is_backward ? address(step.grad_x) : nullptr;
  return [step, x = address(step.x), y = address(step.y), grad_x] {
    run_max_pool(step, x, y, grad_x);
  };
}

void Executor::run() {
  if (!lane_) return run_steps();
  try {
    run_steps();
  } catch (...) {
    lane_->drain();
    throw;
  }
}

void Executor::run_steps() {
  if (!is_measuring_) {
    for (const std::function<void()>& step : steps_) step();
    return;
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    const auto start = std::chrono::steady_clock::now();
    steps_[s]();
    if (program_.steps[s].lane != ir::Lane::kCompute) continue;  // the lane takes its time itself
    note_time(s, start);
  }
}

void Executor::note_time(size_t step, std::chrono::steady_clock::time_point begin) {
  StepTime& time = times_[step];
  time.begin = begin;
  time.end = std::chrono::steady_clock::now();
  time.total_ns += std::chrono::nanoseconds(time.end - begin).count();
  ++time.num_runs;
}

ir::Literal Executor::read(const ir::ProgramTensor& tensor) const {
  ir::Literal value(tensor.type);
  if (tensor.type.num_bytes() > 0) {
    std::memcpy(value.data(), address(tensor.address), tensor.type.num_bytes());
  }
  return value;
}

void Executor::write(const ir::ProgramTensor& tensor, const ir::Literal& value,
                     std::string_view kind) {
  if (value.type() != tensor.type) {
    throw_user_error("{} '{}' is {}, but {} was given", kind, tensor.name, tensor.type.str(),
                     value.type().str());
  }
  if (tensor.type.num_bytes() > 0) {
    std::memcpy(address(tensor.address), value.data(), tensor.type.num_bytes());
  }
}

void Executor::set_input(std::string_view name, const ir::Literal& value) {
  write(find(program_.inputs, "input", name), value, "input");
}

ir::Literal Executor::output(std::string_view name) const {
  return read(find(program_.outputs, "output", name));
}

ir::Literal Executor::read_state(std::string_view name) const {
  return read(find(program_.states, "state", name));
}

void Executor::write_state(std::string_view name, const ir::Literal& value) {
  write(find(program_.states, "state", name), value, "state");
}

}  // namespace monograph::runtime
