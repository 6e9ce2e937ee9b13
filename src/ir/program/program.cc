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
  return fmt::format("kernel {} ({})", step.kernel, arguments);
}

std::string matrix_text(const Address& address, int64_t leading, bool transposed,
                        const std::vector<int64_t>& batch_strides) {
  std::string result = fmt::format("{}{} ld {}", text(address), transposed ? "^T" : "", leading);
  if (!batch_strides.empty()) result += fmt::format(" by [{}]", fmt::join(batch_strides, ","));
  return result;
}

std::string text(const GemmStep& step) {
  std::string result =
      fmt::format("gemm {} {}x{}x{}", dtype_name(step.dtype), step.m, step.n, step.k);
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

std::string text(const AttentionStep& step) {
  const auto tensor = [](std::string_view name, const AttentionStep::Tensor& t) {
    return fmt::format("{} {} by [{}]", name, text(t.address), fmt::join(t.strides, ","));
  };
  std::string result = fmt::format(
      "attention{} {} {}x{} heads on {} of {}, {} queries, {} keys, scale {:.9g}{} ({}, {}, {}",
      step.is_backward ? "_backward" : "", dtype_name(step.dtype), step.batch, step.heads,
      step.kv_heads, step.width, step.queries, step.keys, step.scale, step.causal ? ", causal" : "",
      tensor("q", step.q), tensor("k", step.k), tensor("v", step.v));
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

std::string step_text(const Step& step) {
  const std::string work = std::visit([](const auto& w) { return text(w); }, step.work);
  return fmt::format("  {} {}  // {}; {} nodes, {} bytes (least {}), {} flops\n",
                     phase_name(step.phase), work, step.name, step.num_nodes, step.bytes_moved,
                     step.bytes_least, step.flops);
}

}  // namespace

std::string_view segment_name(Segment segment) {
  return kSegmentNames[static_cast<size_t>(segment)];
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
