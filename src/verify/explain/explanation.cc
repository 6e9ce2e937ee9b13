#include "verify/explain/explanation.h"

#include <algorithm>
#include <map>

#include "ops/registry.h"

namespace monograph::verify {
namespace {

std::string ops_of(const ir::Step& step) {
  const size_t scope = step.name.find(": ");
  return scope == std::string::npos ? step.name : step.name.substr(scope + 2);
}

void add_kernels(const session::Build& build, Explanation& result) {
  const ir::Program& program = build.compilation.program;
  const bool is_cuda = !build.cuda_kernels.sources.empty();
  const auto& sources = is_cuda ? build.cuda_kernels.sources : build.kernels.sources;
  const auto& times = is_cuda ? build.cuda_kernels.compile_ns_of : build.kernels.compile_ns_of;
  for (size_t id = 0; id < program.kernels.size(); ++id) {
    KernelRow row;
    row.id = static_cast<int>(id);
    if (id < sources.size()) row.source = sources[id];
    if (id < times.size()) row.compile_ns = times[id];
    result.kernels.push_back(std::move(row));
  }
  for (const ir::Step& step : program.steps) {
    const auto* kernel = std::get_if<ir::KernelStep>(&step.work);
    if (kernel == nullptr) continue;
    KernelRow& row = result.kernels[kernel->kernel];
    if (row.num_calls++ == 0) {
      row.ops = ops_of(step);
      row.phase = ir::phase_name(step.phase);
      row.num_nodes = step.num_nodes;
    }
    row.bytes_moved += step.bytes_moved;
    result.num_kernel_nodes += step.num_nodes;
    if (step.num_nodes > 1) result.num_fused_nodes += step.num_nodes;
  }
}

void add_fusion(const compiler::Compilation& compilation, Explanation& result) {
  for (const auto& node : compilation.graph->nodes()) {
    if (node->body() == nullptr) continue;
    for (const auto& inner : node->body()->nodes()) {
      for (ir::Value operand : inner->operands()) {
        result.num_fused_edges +=
            !operand.node->is_placeholder() && !ops::has_trait(*operand.node, ops::kCreation);
      }
    }
  }
  std::map<std::string, UnfusedRow> rows;
  for (const passes::Remark& remark : compilation.remarks) {
    if (remark.cause.empty()) continue;
    UnfusedRow& row = rows[remark.cause];
    row.cause = remark.cause;
    if (row.num_edges++ == 0) {
      const std::string reason = remark.reason.substr(0, remark.reason.rfind(": "));
      row.example = remark.node + " " + reason;
    }
  }
  for (auto& [cause, row] : rows) result.unfused.push_back(std::move(row));
  std::stable_sort(result.unfused.begin(), result.unfused.end(),
                   [](const auto& a, const auto& b) { return a.num_edges > b.num_edges; });
}

void add_steps(const compiler::Compilation& compilation, Explanation& result) {
  const ir::Program& program = compilation.program;
  std::map<std::string, FallbackRow> fallbacks;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ir::Step& step = program.steps[i];
    const auto* collective = std::get_if<ir::CollectiveStep>(&step.work);
    if (collective != nullptr) {
      result.collectives.push_back({static_cast<int>(i), step.name, collective->axis,
                                    collective->num_tensors, collective->num_bytes()});
    }
    const auto* gemm = std::get_if<ir::GemmStep>(&step.work);
    const auto* conv = std::get_if<ir::ConvStep>(&step.work);
    const bool is_double = (gemm != nullptr && gemm->dtype == ir::DType::kF64) ||
                           (conv != nullptr && conv->dtype == ir::DType::kF64);
    if (is_double) {
      FallbackRow& row = fallbacks[ops_of(step)];
      row.what = ops_of(step) + " f64";
      row.reason = "oneDNN has no float64: plain loops";
      ++row.num_calls;
    }
    result.step_names.push_back(step.name);
    const bool is_exchange =
        collective != nullptr || std::holds_alternative<ir::WaitStep>(step.work);
    result.step_phases.emplace_back(is_exchange ? "communication" : ir::phase_name(step.phase));
  }
  for (auto& [name, row] : fallbacks) result.fallbacks.push_back(std::move(row));
  result.persistent_bytes =
      program.peak_bytes - program.segment_bytes[static_cast<int>(ir::Segment::kScratch)];
  result.scratch_bytes = passes::live_bytes(compilation.scratch);
  result.scratch_bytes.resize(program.steps.size(), 0);
}

}  // namespace

double Explanation::fused_share() const {
  return num_kernel_nodes == 0 ? 1 : static_cast<double>(num_fused_nodes) / num_kernel_nodes;
}

Explanation explain(std::vector<std::pair<std::string, std::string>> guards,
                    const session::TraceRecord& record, const std::vector<trace::HostRead>& breaks,
                    const session::Build& build) {
  Explanation result;
  result.guards = std::move(guards);
  result.breaks = breaks;
  add_kernels(build, result);
  add_fusion(build.compilation, result);
  add_steps(build.compilation, result);
  result.passes = build.compilation.passes;
  result.trace_ns = record.trace_ns;
  result.verify_ns = record.verify_ns;
  result.lower_ns = build.compilation.lower_ns;
  result.codegen_ns = build.kernels.compile_ns + build.cuda_kernels.compile_ns;
  result.num_from_cache = build.kernels.num_from_cache + build.cuda_kernels.num_from_cache;
  return result;
}

}  // namespace monograph::verify
