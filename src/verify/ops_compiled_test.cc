// Every op's samples through lowering, code generation and the CPU runtime, against the op's
// reference; and the same Program on kernels that need no compiler.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/cpu/compile.h"
#include "compiler/compile.h"
#include "ops/builder.h"
#include "ops/evaluate.h"
#include "ops/registry.h"
#include "runtime/cpu/eager/vector_kernel.h"
#include "runtime/cpu/executor.h"
#include "runtime/interpreter.h"

namespace monograph {
namespace {

double tolerance_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF64:
      return 1e-11;
    case ir::DType::kF32:
      return 2e-5;
    case ir::DType::kBF16:
      return 1.6e-2;
    case ir::DType::kF16:
      return 2e-3;
    default:
      return 0;
  }
}

void expect_close(const ir::Literal& found, const ir::Literal& expected, const std::string& what) {
  ASSERT_EQ(found.type(), expected.type()) << what;
  const double tolerance = tolerance_of(found.type().dtype);
  for (int64_t i = 0; i < found.num_elements(); ++i) {
    const double x = found.get(i), y = expected.get(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    ASSERT_LE(std::abs(x - y), tolerance * std::max(1.0, std::abs(y)))
        << what << " element " << i << ": " << x << " instead of " << y;
  }
}

// Compiled, and on kernels that need no compiler, the graph gives what the interpreter does.
void expect_compiled(const ir::Graph& graph, const runtime::InputMap& inputs,
                     std::string_view what) {
  runtime::StateMap states;
  const std::vector<ir::Literal> expected = runtime::interpret(graph, inputs, states);

  passes::StateLayout layout;
  const compiler::Compilation compiled = compiler::compile(graph, layout, {});
  const codegen::CompiledKernels kernels = codegen::compile_loops(compiled.program.kernels);
  runtime::Executor executor(compiled.program, runtime::as_kernels(kernels.functions));
  for (const auto& input : compiled.program.inputs)
    executor.set_input(input.name, inputs.at(input.name));
  executor.run();
  std::vector<runtime::Kernel> eager_kernels;
  for (const ir::Loop& loop : compiled.program.kernels) {
    eager_kernels.push_back([kernel = std::make_shared<runtime::VectorKernel>(loop)](
                                void* const* arguments) { kernel->run(arguments); });
  }
  runtime::Executor eager(compiled.program, eager_kernels);
  for (const auto& input : compiled.program.inputs) {
    eager.set_input(input.name, inputs.at(input.name));
  }
  eager.run();
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string& name = graph.outputs()[i].name;
    expect_close(executor.output(name), expected[i], fmt::format("{} {}", what, name));
    expect_close(eager.output(name), expected[i], fmt::format("{} {}, eager", what, name));
  }
}

// All samples of one op as one graph: one compilation.
class CompiledOp : public ::testing::TestWithParam<const ops::OpDef*> {};

TEST_P(CompiledOp, AgreesWithItsReference) {
  const ops::OpDef& op = *GetParam();
  ir::Graph graph;
  ops::Builder build(graph);
  runtime::InputMap inputs;
  int number = 0;
  for (const ops::Sample& sample : op.samples()) {
    bool is_product_of_other_dtype = false;
    std::vector<ir::Value> operands;
    for (const ir::Literal& literal : ops::draw_operands(sample, 1)) {
      const bool fits =
          literal.type().dtype == ir::DType::kF32 || literal.type().dtype == ir::DType::kF64;
      is_product_of_other_dtype |= op.has(ops::kLibrary) && !op.name.starts_with("sort") && !fits;
      const std::string name = fmt::format("x{}", inputs.size());
      inputs[name] = literal;
      operands.push_back(graph.add_input(name, literal.type())->result());
    }
    if (is_product_of_other_dtype) continue;  // bf16 products need the processor's support
    ir::Node* node = build.emit_node(op.name, operands, sample.attributes);
    for (int i = 0; i < node->num_results(); ++i) {
      graph.add_output(fmt::format("sample{}.{}", number, i), node->result(i));
    }
    ++number;
  }
  ASSERT_GT(number, 0);
  expect_compiled(graph, inputs, op.name);
}

// The halves of collectives run in pairs, on a mesh (frontend/session/distributed_test.cc).
std::vector<const ops::OpDef*> whole_ops() {
  std::vector<const ops::OpDef*> whole(ops::all_ops().begin(), ops::all_ops().end());
  std::erase_if(whole, [](const auto* op) { return op->has(ops::kStart) || op->has(ops::kDone); });
  return whole;
}

INSTANTIATE_TEST_SUITE_P(Ops, CompiledOp, ::testing::ValuesIn(whole_ops()),
                         [](const auto& test) { return std::string(test.param->name); });

// Tables and indices that nobody stores otherwise: counted, constant, and read beside their use.
TEST(CompiledIndexedRead, TakesConstantsFromMemory) {
  ir::Graph graph;
  ops::Builder build(graph);
  runtime::InputMap inputs;
  const auto input = [&](const std::string& name, ir::TensorType type) {
    inputs[name] = ir::Literal::from(type, [](int64_t i) { return static_cast<double>(i % 4); });
    return graph.add_input(name, type)->result();
  };
  const ir::Value table = input("table", {ir::DType::kF32, {8, 6}});
  const ir::Value ids = input("ids", {ir::DType::kI64, {4}});
  const ir::Value counted = build.emit(
      "iota", {},
      {{"shape", std::vector<int64_t>{4}}, {"axis", int64_t{0}}, {"dtype", ir::DType::kI64}});
  const ir::Value twos = build.full({ir::DType::kF32, {8, 6}}, 2);
  const ir::Value column = build.full({ir::DType::kI64, {8, 1}}, 3);
  const ir::Value row = build.emit("embedding", {table, counted});
  graph.add_output("counted ids", row);
  graph.add_output("a constant table", build.emit("embedding", {twos, ids}));
  graph.add_output("a constant column",
                   build.emit("gather", {table, column}, {{"axis", int64_t{1}}}));
  graph.add_output("ids used beside", build.add(counted, ids));
  graph.add_output("a sum of the rows", build.sum(row, {1}, true));
  expect_compiled(graph, inputs, "indexed reads");
}

}  // namespace
}  // namespace monograph
