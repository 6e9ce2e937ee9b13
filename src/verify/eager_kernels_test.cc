// Random graphs through all passes, on kernels that need no compiler, against the interpreter.
#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/compile.h"
#include "ir/printer.h"
#include "ops/registry.h"
#include "runtime/cpu/eager/vector_kernel.h"
#include "verify/divergence.h"
#include "verify/random_graph.h"

namespace monograph::verify {
namespace {

std::vector<runtime::Kernel> eager_kernels(std::span<const ir::Loop> loops) {
  std::vector<runtime::Kernel> kernels;
  for (const ir::Loop& loop : loops) {
    kernels.push_back([kernel = std::make_shared<runtime::VectorKernel>(loop)](
                          void* const* arguments) { kernel->run(arguments); });
  }
  return kernels;
}

TEST(EagerKernels, RandomGraphsAgreeWithTheInterpreterNodeByNode) {
  // Products of such dtypes need the processor's support.
  const auto allows = [](ir::DType dtype) {
    return dtype != ir::DType::kBF16 && dtype != ir::DType::kF16;
  };
  // Indexed reads must be of memory: what tracing makes sure of, random graphs do not. What no
  // integer can hold converts to anything. The backward of attention overflows where its logsumexp
  // is none of its scores'.
  const auto allows_op = [](const ops::OpDef& op) {
    return op.name != "convert" && op.name != "embedding" && op.name != "gather" &&
           op.name != "segment_sum" && op.name != "scaled_dot_product_attention_backward";
  };
  int num_kernels = 0, num_compared = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto graph = random_graph({.seed = seed, .allows_op = allows_op, .allows_dtype = allows});
    passes::StateLayout states;
    const compiler::Compilation compiled = compiler::compile(*graph, states, {});
    const auto inputs = random_values(graph->inputs(), seed);
    std::vector<NodeError> errors;
    try {
      errors = compare_each_node(*compiled.graph, inputs, random_values(graph->states(), seed),
                                 eager_kernels);
    } catch (const UserError&) {
      continue;  // an id that the graph computes is out of range
    }
    ++num_compared;
    for (const NodeError& each : errors) {
      EXPECT_FALSE(each.is_over())
          << "seed " << seed << ": " << each.node << " is " << each.error << " off\n"
          << ir::to_text(*compiled.graph);
    }
    num_kernels += static_cast<int>(compiled.program.kernels.size());
    if (HasFailure()) return;
  }
  EXPECT_GT(num_kernels, 300);
  EXPECT_GT(num_compared, 150);
}

}  // namespace
}  // namespace monograph::verify
