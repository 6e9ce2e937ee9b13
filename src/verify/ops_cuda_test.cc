// Every op's samples through lowering for a GPU and NVRTC, which needs no GPU.
// MONOGRAPH_DUMP_LOOPS names a file that the Loops are added to, to be run where there is one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "codegen/cuda/compile.h"
#include "compiler/compile.h"
#include "ops/builder.h"
#include "ops/evaluate.h"
#include "ops/registry.h"

namespace monograph {
namespace {

std::vector<ir::Loop> loops_of(const ops::OpDef& op) {
  ir::Graph graph;
  ops::Builder build(graph);
  int number = 0, num_samples = 0;
  for (const ops::Sample& sample : op.samples()) {
    std::vector<ir::Value> operands;
    for (const ir::Literal& literal : ops::draw_operands(sample, 1)) {
      operands.push_back(graph.add_input(fmt::format("x{}", number++), literal.type())->result());
    }
    ir::Node* node = build.emit_node(op.name, operands, sample.attributes);
    for (int i = 0; i < node->num_results(); ++i) {
      graph.add_output(fmt::format("sample{}.{}", num_samples, i), node->result(i));
    }
    ++num_samples;
  }
  passes::StateLayout layout;
  return compiler::compile(graph, layout, {.device = ir::DeviceSpec::h200()}).program.kernels;
}

TEST(OpsForGpu, SamplesOfAllOpsCompile) {
  if (!codegen::cuda::Nvrtc::is_available()) {
    GTEST_SKIP() << "no NVRTC on this machine: nothing was compiled";
  }
  std::vector<ir::Loop> loops;
  for (const ops::OpDef* op : ops::all_ops()) {
    if (op->has(ops::kLibrary) || op->has(ops::kStart) || op->has(ops::kDone)) continue;
    for (ir::Loop& loop : loops_of(*op)) loops.push_back(std::move(loop));
  }
  ASSERT_GT(loops.size(), 20u);
  const char* const dump = std::getenv("MONOGRAPH_DUMP_LOOPS");
  if (dump != nullptr) {
    std::ofstream file(dump, std::ios::app);
    for (const ir::Loop& loop : loops) file << loop.str() << "\n";
  }
  const auto kernels =
      codegen::cuda::compile_loops(loops, ir::DeviceSpec::h200(),
                                   {.cache_directory = testing::TempDir() + "monograph-cuda-test"});
  EXPECT_EQ(kernels.images.size(), loops.size());
}

}  // namespace
}  // namespace monograph
