// Random graphs, compiled, against the interpreter. The long run, every op and each pass off in
// turn: MONOGRAPH_RANDOM_GRAPHS=1000 verify_test --gtest_filter='RandomCheck.*'
#include "verify/random_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "codegen/cpu/compile.h"
#include "ir/printer.h"
#include "ops/registry.h"

namespace monograph::verify {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::atoi(given);
}

std::set<std::string> expect_equal(const RandomCheck& check) {
  const RandomVerdict verdict = check_random_graphs(check);
  if (verdict.failure) {
    const RandomFailure& failure = *verdict.failure;
    ADD_FAILURE() << "seed " << failure.seed << ", without pass '" << failure.pass_off
                  << "': " << failure.difference << "\n"
                  << ir::to_text(*failure.graph);
    return {};
  }
  EXPECT_GT(verdict.num_compared, check.num_graphs / 3);
  std::printf("%d graphs on %d rank%s, %d refused, %d compilations, %zu ops\n",
              verdict.num_compared, check.num_ranks, check.num_ranks == 1 ? "" : "s",
              verdict.num_refused, verdict.num_compilations, verdict.ops.size());
  return verdict.ops;
}

// Of the long run, a fifth of the graphs run on two ranks, with collectives.
TEST(RandomCheck, CompiledGraphsEqualTheInterpreter) {
  const int num_graphs = from_environment("MONOGRAPH_RANDOM_GRAPHS", 10);
  const auto first_seed = static_cast<uint64_t>(from_environment("MONOGRAPH_RANDOM_SEED", 0));
  RandomCheck check{.first_seed = first_seed, .num_graphs = num_graphs - num_graphs / 5};
  std::set<std::string> ops = expect_equal(check);
  check.first_seed += static_cast<uint64_t>(check.num_graphs);
  check.num_graphs = num_graphs / 5;
  check.num_ranks = 2;
  ops.merge(expect_equal(check));
  if (num_graphs < 1000) return;
  for (const ops::OpDef* op : ops::all_ops()) {
    if (op->name.starts_with("send") || op->name.starts_with("recv")) continue;
    EXPECT_TRUE(ops.contains(std::string(op->name))) << op->name << " has not occurred";
  }
}

// Wherever a kernel takes a tanh, it takes the sine instead.
TEST(RandomCheck, AWrongKernelIsFoundAndShrunk) {
  codegen::CompiledKernels compiled;
  RandomCheck check{.num_graphs = 100, .passes_off = false};
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
