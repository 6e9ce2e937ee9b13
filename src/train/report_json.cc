#include <nlohmann/json.hpp>

#include "train/report.h"

namespace monograph::train {

namespace {

nlohmann::ordered_json exchange_json(const ExchangeReport& e) {
  nlohmann::ordered_json json = {{"ranks", e.num_ranks},
                                 {"transport", e.transport},
                                 {"latency_s", e.link.latency_s},
                                 {"bytes_per_s", e.link.bytes_per_s},
                                 {"bytes", e.bytes},
                                 {"computation_ms", e.computation_ms},
                                 {"communication_ms", e.communication_ms},
                                 {"exposed_ms", e.exposed_ms},
                                 {"predicted_exposed_ms", e.predicted_exposed_ms},
                                 {"overlap", e.overlap()},
                                 {"collectives", nlohmann::json::array()}};
  for (const ExchangeRow& row : e.rows) {
    json["collectives"].push_back({{"name", row.name},
                                   {"tensors", row.num_tensors},
                                   {"bytes", row.bytes},
                                   {"ms", row.measured_ms},
                                   {"predicted_ms", row.predicted_ms},
                                   {"exposed_ms", row.measured_exposed_ms},
                                   {"predicted_exposed_ms", row.predicted_exposed_ms}});
  }
  return json;
}

nlohmann::ordered_json pipeline_json(const analysis::PipelineReport& report) {
  const ir::Pipeline& pipeline = report.pipeline;
  nlohmann::ordered_json json = {{"schedule", ir::schedule_name(pipeline.schedule)},
                                 {"ranks", pipeline.num_ranks},
                                 {"micro_batches", pipeline.num_micro_batches},
                                 {"bubble_share", report.bubble_share},
                                 {"equal_bubble_share", report.equal_bubble_share},
                                 {"parameters", report.parameters},
                                 {"stages", nlohmann::json::array()}};
  for (const auto& stage : report.stages) {
    json["stages"].push_back({{"layers", stage.layers}, {"work_share", stage.work_share}});
  }
  return json;
}

}  // namespace

std::string to_json(const BuildReport& b, const RunReport& r, const ExchangeReport& e) {
  nlohmann::ordered_json json;
  json["build"] = {{"graph_hash", b.graph_hash},
                   {"traced_nodes", b.num_traced_nodes},
                   {"trace_ns", b.trace_ns},
                   {"verify_ns", b.verify_ns},
                   {"nodes", b.num_nodes},
                   {"passes", b.num_passes},
                   {"kernels", b.num_kernels},
                   {"fused_kernels", b.num_fused_kernels},
                   {"cached_kernels", b.num_cached_kernels},
                   {"kernel_nodes", b.num_kernel_nodes},
                   {"fused_nodes", b.num_fused_nodes},
                   {"library_calls", b.num_library_calls},
                   {"copies", b.num_copies},
                   {"collectives", b.num_collectives},
                   {"buckets", b.num_buckets},
                   {"exchanged_bytes", b.exchanged_bytes},
                   {"left_out_collectives", b.left_out.num_collectives},
                   {"left_out_bytes", b.left_out.bytes},
                   {"compressed_gradients", b.savings.num_gradients},
                   {"sent_bytes_uncompressed", b.savings.bytes_before},
                   {"sent_bytes_compressed", b.savings.bytes_after},
                   {"bytes_moved", b.bytes_moved},
                   {"bytes_least", b.bytes_least},
                   {"peak_bytes", b.peak_bytes},
                   {"bound_bytes", b.bound_bytes},
                   {"recomputed_nodes", b.recomputation.num_nodes},
                   {"recomputed_launches", b.recomputation.num_kernels},
                   {"recomputed_flops", b.recomputation.flops},
                   {"recomputation_freed_bytes", b.recomputation.freed_bytes},
                   {"passes_ns", b.passes_ns},
                   {"lower_ns", b.lower_ns},
                   {"codegen_ns", b.codegen_ns}};
  if (b.pipeline) json["build"]["pipeline"] = pipeline_json(*b.pipeline);
  if (r.num_steps == 0) return json.dump();
  json["run"] = {{"steps", r.num_steps},
                 {"step_ms", r.step_ms},
                 {"p50_ms", r.p50_ms},
                 {"p99_ms", r.p99_ms},
                 {"library_ms", r.library_ms},
                 {"generated_ms", r.generated_ms},
                 {"exposed_ms", r.exposed_ms},
                 {"idle_ms", r.idle_ms},
                 {"copy_bytes_per_s", r.copy_bytes_per_s},
                 {"work", nlohmann::json::array()}};
  for (const WorkRow& row : r.rows) {
    json["run"]["work"].push_back({{"name", row.name},
                                   {"library", row.is_library},
                                   {"calls", row.num_calls},
                                   {"ms", row.ms},
                                   {"bytes_moved", row.bytes_moved},
                                   {"bytes_least", row.bytes_least},
                                   {"flops", row.flops}});
  }
  if (!e.rows.empty()) json["exchange"] = exchange_json(e);
  return json.dump();
}

}  // namespace monograph::train
