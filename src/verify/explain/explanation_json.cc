#include <nlohmann/json.hpp>

#include "verify/explain/explanation.h"

namespace monograph::verify {
namespace {

using nlohmann::ordered_json;

ordered_json kernels_json(const Explanation& e) {
  ordered_json list = ordered_json::array();
  for (const KernelRow& row : e.kernels) {
    list.push_back({{"id", row.id},
                    {"ops", row.ops},
                    {"phase", row.phase},
                    {"calls", row.num_calls},
                    {"nodes", row.num_nodes},
                    {"bytes_moved", row.bytes_moved},
                    {"compile_ns", row.compile_ns},
                    {"source", row.source}});
  }
  return list;
}

ordered_json fusion_json(const Explanation& e) {
  ordered_json unfused = ordered_json::array();
  for (const UnfusedRow& row : e.unfused) {
    unfused.push_back({{"cause", row.cause}, {"edges", row.num_edges}, {"example", row.example}});
  }
  return {{"kernel_nodes", e.num_kernel_nodes},
          {"fused_nodes", e.num_fused_nodes},
          {"fused_share", e.fused_share()},
          {"fused_edges", e.num_fused_edges},
          {"unfused", unfused}};
}

ordered_json rest_json(const Explanation& e) {
  ordered_json json = {{"guards", ordered_json::object()},
                       {"breaks", ordered_json::array()},
                       {"fallbacks", ordered_json::array()},
                       {"collectives", ordered_json::array()}};
  for (const auto& [subject, expected] : e.guards) json["guards"][subject] = expected;
  for (const trace::HostRead& read : e.breaks) {
    json["breaks"].push_back({{"file", read.place.file},
                              {"line", read.place.line},
                              {"scope", read.place.scope},
                              {"reason", read.reason()},
                              {"advice", read.advice()}});
  }
  for (const FallbackRow& row : e.fallbacks) {
    json["fallbacks"].push_back(
        {{"what", row.what}, {"reason", row.reason}, {"calls", row.num_calls}});
  }
  for (const CollectiveRow& row : e.collectives) {
    json["collectives"].push_back({{"step", row.step},
                                   {"name", row.name},
                                   {"axis", row.axis},
                                   {"tensors", row.num_tensors},
                                   {"bytes", row.num_bytes}});
  }
  return json;
}

ordered_json times_json(const Explanation& e) {
  ordered_json passes = ordered_json::array();
  for (const compiler::PassRecord& pass : e.passes) {
    passes.push_back({{"name", pass.name},
                      {"changed", pass.changed},
                      {"nodes_before", pass.nodes_before},
                      {"nodes_after", pass.nodes_after},
                      {"ns", pass.duration_ns}});
  }
  return {{"trace_ns", e.trace_ns},     {"verify_ns", e.verify_ns},
          {"passes", passes},           {"lower_ns", e.lower_ns},
          {"kernels_ns", e.codegen_ns}, {"kernels_from_cache", e.num_from_cache}};
}

}  // namespace

std::string to_json(const Explanation& e) {
  ordered_json json = rest_json(e);
  json["kernels"] = kernels_json(e);
  json["fusion"] = fusion_json(e);
  json["memory"] = {{"persistent_bytes", e.persistent_bytes},
                    {"scratch_bytes_by_step", e.scratch_bytes}};
  json["steps"] = ordered_json::array();
  for (size_t i = 0; i < e.step_names.size(); ++i) {
    json["steps"].push_back({{"name", e.step_names[i]}, {"phase", e.step_phases[i]}});
  }
  json["compile_time"] = times_json(e);
  return json.dump(2);
}

}  // namespace monograph::verify
