#include "compiler/compile.h"

#include <chrono>
#include <optional>

#include "compiler/build_program.h"

namespace monograph::compiler {
namespace {

// Products of many rows keep a GPU busy; its cache holds no chunk anyway.
constexpr int64_t kGpuLossChunkBytes = int64_t{1} << 30;

}  // namespace

Compilation compile(const ir::Graph& traced, passes::StateLayout& states,
                    const PassOptions& options) {
  Compilation result;
  result.num_traced_nodes = traced.num_nodes();
  result.graph = traced.clone();
  passes::PassContext context;
  context.link = options.link;
  if (options.device.is_cuda()) context.loss_chunk_bytes = kGpuLossChunkBytes;
  if (options.loss_chunk_bytes > 0) context.loss_chunk_bytes = options.loss_chunk_bytes;
  std::optional<LineageRecorder> lineage;
  if (options.records_lineage) lineage.emplace(*result.graph);
  result.passes =
      run_passes(*result.graph, context, options, pipeline(), lineage ? &*lineage : nullptr);
  const auto start = std::chrono::steady_clock::now();
  context.set_pass("layout");
  if (lineage) lineage->begin(*result.graph);
  const int num_nodes = result.graph->num_nodes();
  const passes::Layout layout = passes::assign_layout(*result.graph, states, context);
  if (lineage) {
    lineage->end(*result.graph, "layout", result.graph->num_nodes() != num_nodes);  // adds copies
    result.lineage = lineage->take();
  }
  result.program = build_program(*result.graph, layout, options.device, &result.scratch);
  result.lower_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  result.remarks = context.remarks();
  return result;
}

}  // namespace monograph::compiler
