#include "frontend/session/build_events.h"

#include <set>

#include "ops/registry.h"

namespace monograph::session {
namespace {

void write_nodes(EventLog& events, std::string_view frame_key, const ir::Graph& traced) {
  for (const auto& node : traced.nodes()) {
    const ir::Provenance& place = node->provenance();
    const std::string type = node->types()[0].str();
    events.write(EventLevel::kTrace, EventCategory::kGraph, "node",
                 {{"frame_key", frame_key},
                  {"id", int64_t{node->id()}},
                  {"op", node->op()},
                  {"type", type},
                  {"phase", ir::phase_name(node->phase())},
                  {"file", place.file},
                  {"line", int64_t{place.line}},
                  {"scope", place.scope}});
  }
}

// Of a step: products, attention, convolutions.
double product_flops(const ir::Graph& traced) {
  double flops = 0;
  for (const auto& node : traced.nodes()) {
    if (ops::has_trait(*node, ops::kLibrary)) flops += ops::cost_of(*node).flops;
  }
  return flops;
}

// Of the nodes in generated kernels.
struct Fusion {
  int64_t num_kernels = 0;  // of more than one node
  double share = 1;         // nodes in them
};

Fusion fusion_of(const compiler::Compilation& compilation) {
  std::set<int> kernels;
  int64_t fused = 0, all = 0;
  for (const ir::Step& step : compilation.program.steps) {
    const auto* kernel = std::get_if<ir::KernelStep>(&step.work);
    if (kernel == nullptr) continue;
    all += step.num_nodes;
    if (step.num_nodes < 2) continue;
    fused += step.num_nodes;
    kernels.insert(kernel->kernel);
  }
  const double share = all == 0 ? 1 : static_cast<double>(fused) / static_cast<double>(all);
  return {static_cast<int64_t>(kernels.size()), share};
}

// Why kernels were compiled, and below kExpectedFusedShare why edges between kernels stayed.
void write_causes(EventLog& events, std::string_view frame_key, const Fusion& fusion,
                  const Build& build) {
  for (const auto* misses : {&build.kernels.misses, &build.cuda_kernels.misses}) {
    for (const auto& [reason, count] : *misses) {
      events.write(EventLevel::kInfo, EventCategory::kCompile, "cache_miss",
                   {{"frame_key", frame_key}, {"reason", reason}, {"kernels", int64_t{count}}});
    }
  }
  if (fusion.share >= kExpectedFusedShare) return;
  for (const auto& [cause, count] : unfused_edges(build.compilation.remarks)) {
    events.write(EventLevel::kInfo, EventCategory::kCompile, "unfused",
                 {{"frame_key", frame_key}, {"cause", cause}, {"edges", int64_t{count}}});
  }
}

}  // namespace

std::map<std::string, int> unfused_edges(const std::vector<passes::Remark>& remarks) {
  std::map<std::string, int> counts;
  for (const passes::Remark& remark : remarks) {
    if (!remark.cause.empty()) ++counts[remark.cause];
  }
  return counts;
}

void write_build(EventLog& events, std::string_view frame_key, const ir::Graph& traced,
                 const TraceRecord& record, const Build* build, std::string_view backend,
                 int64_t ns) {
  if (events.is_on(EventLevel::kTrace, EventCategory::kGraph)) {
    write_nodes(events, frame_key, traced);
  }
  const std::string hash = record.hash.hex();
  events.write(
      EventLevel::kDebug, EventCategory::kGraph, "graph",
      {{"frame_key", frame_key}, {"graph_hash", hash}, {"nodes", int64_t{record.num_nodes}}});
  Fusion fusion;
  int64_t num_kernels = 0, num_from_cache = 0;
  if (build != nullptr) {
    for (const compiler::PassRecord& pass : build->compilation.passes) {
      events.write(EventLevel::kDebug, EventCategory::kCompile, "pass",
                   {{"frame_key", frame_key},
                    {"name", pass.name},
                    {"nodes_before", int64_t{pass.nodes_before}},
                    {"nodes_after", int64_t{pass.nodes_after}},
                    {"ns", pass.duration_ns}});
    }
    fusion = fusion_of(build->compilation);
    write_causes(events, frame_key, fusion, *build);
    num_kernels = static_cast<int64_t>(build->compilation.program.kernels.size());
    num_from_cache = build->kernels.num_from_cache;
  }
  events.write(EventLevel::kInfo, EventCategory::kCompile, "compile",
               {{"frame_key", frame_key},
                {"graph_hash", hash},
                {"backend", backend},
                {"trace_ns", record.trace_ns},
                {"ns", ns},
                {"kernels", num_kernels},
                {"fused_kernels", fusion.num_kernels},
                {"fused_share", fusion.share},
                {"kernels_from_cache", num_from_cache},
                {"product_flops", product_flops(traced)}});
}

void write_recompile(EventLog& events, std::string_view frame_key, size_t num_signatures,
                     std::span<const GuardMiss> misses) {
  const std::string reason = to_text(misses);
  const GuardMiss first = misses.empty() ? GuardMiss() : misses[0];
  events.write(EventLevel::kInfo, EventCategory::kCompile, "recompile",
               {{"frame_key", frame_key},
                {"signature", static_cast<int64_t>(num_signatures)},
                {"recompile_reason", reason},
                {"guard", first.guard},
                {"expected", first.expected},
                {"got", first.got},
                {"file", first.place.file},
                {"line", int64_t{first.place.line}},
                {"fix", first.fix}});
}

void write_breaks(EventLog& events, std::string_view frame_key,
                  const std::vector<trace::HostRead>& reads) {
  for (const trace::HostRead& read : reads) {
    const std::string reason = read.reason(), advice = read.advice();
    events.write(EventLevel::kInfo, EventCategory::kCompile, "graph_break",
                 {{"frame_key", frame_key},
                  {"file", read.place.file},
                  {"line", int64_t{read.place.line}},
                  {"scope", read.place.scope},
                  {"reason", reason},
                  {"advice", advice}});
  }
}

void write_recompile_limit(EventLog& events, std::string_view function, size_t num_signatures,
                           std::string_view reason) {
  events.write(EventLevel::kInfo, EventCategory::kCompile, "recompile_limit",
               {{"function", function},
                {"limit", static_cast<int64_t>(num_signatures)},
                {"recompile_reason", reason}});
}

void write_fallback(EventLog& events, std::string_view frame_key, const Hash& graph,
                    const Fallback& fallback) {
  const std::string hash = graph.hex();
  events.write(EventLevel::kInfo, EventCategory::kCompile,
               fallback.is_timeout ? "compile_timeout" : "fallback",
               {{"frame_key", frame_key},
                {"graph_hash", hash},
                {"reason", fallback.cause},
                {"waited_ns", fallback.waited_ns}});
}

void write_swap_in(EventLog& events, std::string_view frame_key, const Hash& graph,
                   const Fallback& fallback) {
  const std::string hash = graph.hex();
  events.write(EventLevel::kInfo, EventCategory::kCompile, "swap_in",
               {{"frame_key", frame_key},
                {"graph_hash", hash},
                {"step", fallback.num_steps},
                {"ns", fallback.swapped_after_ns}});
}

}  // namespace monograph::session
