#include "ir/program/program.h"

#include <fmt/ranges.h>

#include <array>

namespace monograph::ir {
namespace {

constexpr std::array<std::string_view, kNumSegments> kSegmentNames = {
    "input", "weights", "moments", "buffers", "gradients", "output", "scratch"};

std::string text(const Address& address) {
  return fmt::format("{}+{}", segment_name(address.segment), address.offset);
}

std::string text(const KernelStep& step) {
  std::string arguments;
  for (const Address& argument : step.arguments) {
    arguments += arguments.empty() ? text(argument) : ", " + text(argument);
  }
  std::string result = fmt::format("kernel {} ({})", step.kernel, arguments);
  if (!step.scalars.empty()) result += fmt::format(" scalars [{}]", fmt::join(step.scalars, ","));
  return result;
}

std::string matrix_text(const Address& address, int64_t leading, bool transposed,
                        const std::vector<int64_t>& batch_strides) {
  std::string result = fmt::format("{}{} ld {}", text(address), transposed ? "^T" : "", leading);
  if (!batch_strides.empty()) result += fmt::format(" by [{}]", fmt::join(batch_strides, ","));
  return result;
}

std::string text(const GemmStep& step) {
  std::string result = fmt::format("gemm {} {}x{}x{}{}", dtype_name(step.dtype), step.m, step.n,
                                   step.k, step.accumulates ? " added" : "");
  if (step.result_dtype != step.dtype) {
    result += fmt::format(" -> {}", dtype_name(step.result_dtype));
  }
  if (!step.batch.empty()) result += fmt::format(" batch [{}]", fmt::join(step.batch, ","));
  result +=
      fmt::format(" ({}) = ({}) @ ({})", matrix_text(step.c, step.ldc, false, step.batch_strides_c),
                  matrix_text(step.a, step.lda, step.transpose_a, step.batch_strides_a),
                  matrix_text(step.b, step.ldb, step.transpose_b, step.batch_strides_b));
  if (step.has_bias) {
    result +=
        fmt::format(" + {} bias {}", step.bias_along_rows ? "row" : "column", text(step.bias));
  }
  return result;
}

std::string text(const SortIdsStep& step) {
  return fmt::format("sort_ids {} {} positions {} ids ({}) -> order {}, offsets {}",
                     dtype_name(step.ids_dtype), step.num_positions, step.num_ids, text(step.ids),
                     text(step.order), text(step.offsets));
}

std::string text(const TopKStep& step) {
  return fmt::format("top_k {} of {} in {} rows ({}) -> values {}, indices {}", step.k, step.length,
                     step.rows, text(step.x), text(step.values), text(step.indices));
}

std::string text(const AttentionStep& step) {
  const auto tensor = [](std::string_view name, const AttentionStep::Tensor& t) {
    return fmt::format("{} {} by [{}]", name, text(t.address), fmt::join(t.strides, ","));
  };
  std::string result = fmt::format(
      "attention{} {} {}x{} heads on {} of {}, {} queries, {} keys, scale {:.9g}{}{} ({}, {}, {}",
      step.is_backward ? "_backward" : "", dtype_name(step.dtype), step.batch, step.heads,
      step.kv_heads, step.width, step.queries, step.keys, step.scale, step.causal ? ", causal" : "",
      step.is_deterministic ? "" : ", in any order", tensor("q", step.q), tensor("k", step.k),
      tensor("v", step.v));
  if (!step.is_backward) {
    return result + fmt::format(") -> {}, {}", tensor("output", step.output),
                                tensor("logsumexp", step.logsumexp));
  }
  return result + fmt::format(", {}, {}, {}) -> {}, {}, {}, {} splits, workspace {}",
                              tensor("output", step.output), tensor("logsumexp", step.logsumexp),
                              tensor("grad_output", step.grad_output),
                              tensor("grad_q", step.grad_q), tensor("grad_k", step.grad_k),
                              tensor("grad_v", step.grad_v), step.num_splits, text(step.workspace));
}

std::string text(const CollectiveStep& step) {
  std::string result = fmt::format("{} over {} of {}: {} {}", kind_name(step.kind), step.axis,
                                   step.size, step.count, dtype_name(step.dtype));
  if (step.kind == CollectiveStep::Kind::kBroadcast || step.kind == CollectiveStep::Kind::kRecv) {
    result += fmt::format(" from {}", step.root);
  } else if (step.kind == CollectiveStep::Kind::kSend) {
    result += fmt::format(" to {}", step.root);
  } else if (step.kind == CollectiveStep::Kind::kAllReduce ||
             step.kind == CollectiveStep::Kind::kReduceScatter) {
    result += fmt::format(" {}", reduction_name(step.reduction));
  }
  result += fmt::format(" ({}", text(step.from));
  if (step.to != step.from) result += fmt::format(" -> {}", text(step.to));
  return result + ")";
}

std::string text(const WaitStep& step) {
  return fmt::format("wait ({})", text(step.to));
}

std::string text(const ImageSizes& s) {
  return fmt::format("[{}] of [{},{},{},{}] -> [{},{}] by [{}], padding [{}]",
                     fmt::join(s.kernel, ","), s.batch, s.height, s.width, s.channels, s.out_height,
                     s.out_width, fmt::join(s.stride, ","), fmt::join(s.padding, ","));
}

std::string text(const ConvStep& step) {
  constexpr std::array<std::string_view, 3> kNames = {"", "_backward_data", "_backward_weight"};
  const std::array<Address, 3> at = {step.x, step.weight, step.y};
  constexpr std::array<size_t, 3> kWritten = {2, 0, 1};
  const size_t written = kWritten[static_cast<size_t>(step.direction)];
  std::string read;
  for (size_t i = 0; i < at.size(); ++i) {
    if (i != written) read += (read.empty() ? "" : ", ") + text(at[i]);
  }
  return fmt::format("conv{} {} {} channels {} ({}) -> {}",
                     kNames[static_cast<size_t>(step.direction)], dtype_name(step.dtype),
                     step.out_channels, text(step.sizes), read, text(at[written]));
}

std::string text(const MaxPoolStep& step) {
  if (!step.is_backward) {
    return fmt::format("max_pool {} {} ({}) -> {}", dtype_name(step.dtype), text(step.sizes),
                       text(step.x), text(step.y));
  }
  return fmt::format("max_pool_backward {} {} ({}, {}) -> {}", dtype_name(step.dtype),
                     text(step.sizes), text(step.y), text(step.x), text(step.grad_x));
}

std::string step_text(const Step& step) {
  std::string work = std::visit([](const auto& w) { return text(w); }, step.work);
  if (step.lane != Lane::kCompute) work = fmt::format("[{}] {}", lane_name(step.lane), work);
  if (!step.waits.empty()) work += fmt::format(" after {}", fmt::join(step.waits, ","));
  return fmt::format("  {} {}  // {}; {} nodes, {} bytes (least {}), {} flops\n",
                     phase_name(step.phase), work, step.name, step.num_nodes, step.bytes_moved,
                     step.bytes_least, step.flops);
}

void visit_addresses(KernelStep& step, const std::function<void(Address&)>& visit) {
  for (Address& argument : step.arguments) visit(argument);
}

void visit_addresses(GemmStep& step, const std::function<void(Address&)>& visit) {
  for (Address* argument : {&step.a, &step.b, &step.c}) visit(*argument);
  if (step.has_bias) visit(step.bias);
}

void visit_addresses(SortIdsStep& step, const std::function<void(Address&)>& visit) {
  for (Address* argument : {&step.ids, &step.order, &step.offsets}) visit(*argument);
}

void visit_addresses(TopKStep& step, const std::function<void(Address&)>& visit) {
  for (Address* argument : {&step.x, &step.values, &step.indices}) visit(*argument);
}

void visit_addresses(AttentionStep& step, const std::function<void(Address&)>& visit) {
  for (auto* tensor : {&step.q, &step.k, &step.v, &step.output, &step.logsumexp}) {
    visit(tensor->address);
  }
  if (!step.is_backward) return;
  for (auto* tensor : {&step.grad_output, &step.grad_q, &step.grad_k, &step.grad_v}) {
    visit(tensor->address);
  }
  visit(step.workspace);
}

void visit_addresses(ConvStep& step, const std::function<void(Address&)>& visit) {
  for (Address* argument : {&step.x, &step.weight, &step.y}) visit(*argument);
}

void visit_addresses(MaxPoolStep& step, const std::function<void(Address&)>& visit) {
  for (Address* argument : {&step.x, &step.y}) visit(*argument);
  if (step.is_backward) visit(step.grad_x);
}

void visit_addresses(CollectiveStep& step, const std::function<void(Address&)>& visit) {
  visit(step.from);
  visit(step.to);
}

void visit_addresses(WaitStep& step, const std::function<void(Address&)>& visit) {
  visit(step.from);
  visit(step.to);
}

}  // namespace

std::string_view segment_name(Segment segment) {
  return kSegmentNames[static_cast<size_t>(segment)];
}

std::string_view kind_name(CollectiveStep::Kind kind) {
  constexpr std::array<std::string_view, 7> kNames = {
      "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "send", "recv"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view reduction_name(CollectiveStep::Reduction reduction) {
  constexpr std::array<std::string_view, 3> kNames = {"sum", "max", "min"};
  return kNames[static_cast<size_t>(reduction)];
}

std::string_view lane_name(Lane lane) {
  return lane == Lane::kCompute ? "compute" : "communication";
}

int64_t CollectiveStep::num_bytes() const {
  return count * dtype_bytes(dtype) * (has_parts() ? size : 1);
}

int64_t CollectiveStep::sent_bytes() const {
  if (kind == Kind::kBroadcast) return num_bytes();
  const int64_t once = num_bytes() / size * (size - 1);
  return kind == Kind::kAllReduce ? 2 * once : once;
}

bool CollectiveStep::has_parts() const {
  return kind == Kind::kAllGather || kind == Kind::kReduceScatter || kind == Kind::kAllToAll;
}

void for_each_address(Step& step, const std::function<void(Address&)>& visit) {
  std::visit([&](auto& work) { visit_addresses(work, visit); }, step.work);
}

std::string Program::str() const {
  std::string result = fmt::format("program peak {} bound {} {{\n", peak_bytes, bound_bytes);
  for (int s = 0; s < kNumSegments; ++s) {
    if (segment_bytes[s] > 0) {
      result += fmt::format("  segment {} {} bytes\n", kSegmentNames[s], segment_bytes[s]);
    }
  }
  const auto add_tensors = [&](std::string_view kind, const std::vector<ProgramTensor>& tensors) {
    for (const ProgramTensor& tensor : tensors) {
      result += fmt::format("  {} \"{}\" {} at {}\n", kind, tensor.name, tensor.type.str(),
                            text(tensor.address));
    }
  };
  add_tensors("input", inputs);
  for (const ProgramTensor& state : states) {
    result += fmt::format("  state \"{}\" {} {} at {}\n", state.name, role_name(state.role),
                          state.type.str(), text(state.address));
  }
  add_tensors("output", outputs);
  for (const Step& step : steps) result += step_text(step);
  result += "}\n";
  for (size_t k = 0; k < kernels.size(); ++k) {
    result += fmt::format("kernel {} {}: {}", k, kernels[k].hash().hex(), kernels[k].str());
  }
  return result;
}

}  // namespace monograph::ir
