// Random graphs, compiled, against the interpreter. The long run, every op and each pass off in
// turn: MONOGRAPH_RANDOM_GRAPHS=1000 verify_test --gtest_filter='RandomCheck.*'
#include "verify/random_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "codegen/cpu/compile.h"
#include "ir/printer.h"
#include "ops/registry.h"

namespace monograph::verify {
namespace {

TEST(RandomCheck, CompiledGraphsEqualTheInterpreter) {
  const char* const wanted = std::getenv("MONOGRAPH_RANDOM_GRAPHS");
  RandomCheck check{.num_graphs = 8};
  if (wanted != nullptr) check.num_graphs = std::atoi(wanted);
  const RandomVerdict verdict = check_random_graphs(check);
  if (verdict.failure) {
    const RandomFailure& failure = *verdict.failure;
    FAIL() << "seed " << failure.seed << ", without pass '" << failure.pass_off
           << "': " << failure.difference << "\n"
           << ir::to_text(*failure.graph);
  }
  EXPECT_GT(verdict.num_compared, check.num_graphs / 3);
  std::printf("%d graphs, %d refused, %d compilations, %zu ops\n", verdict.num_compared,
              verdict.num_refused, verdict.num_compilations, verdict.ops.size());
  if (check.num_graphs < 1000) return;
  for (const ops::OpDef* op : ops::all_ops()) {
    if (op->has(ops::kCollective) || op->has(ops::kDone)) continue;  // they need a mesh
    EXPECT_TRUE(verdict.ops.contains(std::string(op->name))) << op->name;
  }
}

// Wherever a kernel takes a tanh, it takes the sine instead.
TEST(RandomCheck, AWrongKernelIsFoundAndShrunk) {
  codegen::CompiledKernels compiled;
  RandomCheck check{.num_graphs = 20, .passes_off = false};
  std::vector<codegen::CompiledKernels> loaded;
  check.make_kernels = [&](std::span<const ir::Loop> loops) {
    std::vector<ir::Loop> wrong(loops.begin(), loops.end());
    for (ir::Loop& loop : wrong) {
      for (ir::Instruction& each : loop.instructions) {
        if (each.kind == ir::InstructionKind::kApply && each.op == ir::ScalarOp::kTanh) {
          each.op = ir::ScalarOp::kSin;
        }
      }
    }
    loaded.push_back(codegen::compile_loops(wrong));
    return runtime::as_kernels(loaded.back().functions);
  };
  const RandomVerdict verdict = check_random_graphs(check);
  ASSERT_TRUE(verdict.failure);
  const std::string text = ir::to_text(*verdict.failure->graph);
  EXPECT_NE(text.find("tanh"), std::string::npos);
  const auto& nodes = verdict.failure->graph->nodes();
  const auto num_ops = std::count_if(nodes.begin(), nodes.end(),
                                     [](const auto& node) { return !node->is_placeholder(); });
  EXPECT_LE(num_ops, 2) << text;
}

}  // namespace
}  // namespace monograph::verify
