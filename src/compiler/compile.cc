#include "compiler/compile.h"

#include <chrono>

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
  result.passes = run_passes(*result.graph, context, options);
  const auto start = std::chrono::steady_clock::now();
  context.set_pass("layout");
  const passes::Layout layout = passes::assign_layout(*result.graph, states, context);
  result.program = build_program(*result.graph, layout, options.device);
  result.lower_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  result.remarks = context.remarks();
  return result;
}

}  // namespace monograph::compiler
