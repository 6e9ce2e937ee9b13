#include "frontend/session/build_events.h"

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

}  // namespace

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
                {"kernels_from_cache", num_from_cache}});
}

void write_recompile(EventLog& events, std::string_view frame_key, size_t num_signatures,
                     std::string_view reason) {
  events.write(EventLevel::kInfo, EventCategory::kCompile, "recompile",
               {{"frame_key", frame_key},
                {"signature", static_cast<int64_t>(num_signatures)},
                {"recompile_reason", reason}});
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

}  // namespace monograph::session
