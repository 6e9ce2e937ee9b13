#include "verify/bisect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cpu/compile.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "ir/rewriter.h"
#include "ops/builder.h"

namespace monograph::verify {
namespace {

using testing::HasSubstr;

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 3, 4};
  nn::Linear out{*this, "out", 4, 2};
  Tensor loss(const Tensor& x, const Tensor& y) const { return mse_loss(out(tanh(fc(x))), y); }
};

// Forgets the second operand of one addition in the forward pass.
bool drop_an_addend(ir::Graph& graph, passes::PassContext&) {
  bool is_done = false;
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    const bool fits = node.is("add") && node.phase() == ir::Phase::kForward && !is_done &&
                      node.operand(0).type() == node.types()[0];
    if (!fits) return ir::keep();
    is_done = true;
    ops::Builder build(graph);
    return build.mul(node.operand(0), 0.5);
  });
}

class BisectTest : public testing::Test {
 protected:
  BisectTest() {
    step_ = std::make_unique<session::Compiled>(
        session_.compile([this](const Tensor& x, const Tensor& y) {
          const Tensor loss = net_.loss(x, y);
          sgd_.step(loss.backward());
          return loss;
        }));
    const auto x = ir::Literal::from_f32({2, 3}, {1, 2, 3, -1, 0.5, 2});
    const auto y = ir::Literal::from_f32({2, 2}, {1, 0, 0, 1});
    suspect_.traced = &step_->graph({x.type(), y.type()});
    suspect_.inputs = {{"input0", x}, {"input1", y}};
    for (const std::string& name : session_.state_names()) {
      suspect_.states[name] = session_.state(name);
    }
  }

  std::vector<runtime::Kernel> kernels(std::span<const ir::Loop> loops) {
    made_.push_back(codegen::compile_loops(loops));
    return runtime::as_kernels(made_.back().functions);
  }
  KernelMaker maker() {
    return [this](std::span<const ir::Loop> loops) { return kernels(loops); };
  }

  Net net_;
  optim::SGD sgd_{net_.parameters(), {.learning_rate = optim::Schedule::constant(0.1)}};
  Session session_{{.options = {.backend = "interpret"}}};
  std::unique_ptr<session::Compiled> step_;
  std::vector<codegen::CompiledKernels> made_;
  Suspect suspect_;
};

TEST_F(BisectTest, AHealthyStepIsRight) {
  const Bisection found = bisect(suspect_, maker());
  EXPECT_EQ(found.fault, Bisection::Fault::kNone) << found.symptom;
}

// Wherever it stands among the passes, with its node.
TEST_F(BisectTest, AWrongPassIsFoundWithItsNode) {
  const auto pipeline = compiler::pipeline();
  for (const size_t place : {size_t{1}, size_t{4}, size_t{8}}) {
    std::vector<compiler::PipelineStep> steps(pipeline.begin(), pipeline.end());
    steps.insert(steps.begin() + static_cast<int64_t>(place),
                 {"drop_an_addend", drop_an_addend, "it is wrong"});
    suspect_.steps = steps;
    const Bisection found = bisect(suspect_, maker());
    EXPECT_EQ(found.fault, Bisection::Fault::kPass);
    EXPECT_EQ(found.pass, "drop_an_addend");
    EXPECT_EQ(found.application, static_cast<int>(place));
    EXPECT_THAT(found.symptom, HasSubstr("off what the interpreter gives"));
    EXPECT_THAT(found.node, HasSubstr("mul(")) << "the node that stands where the sum was";
    EXPECT_THAT(found.file, HasSubstr("bisect_test.cc"));
    EXPECT_EQ(found.scope, "fc");
  }
}

TEST_F(BisectTest, AWrongRequiredPassIsFound) {
  const auto pipeline = compiler::pipeline();
  std::vector<compiler::PipelineStep> steps(pipeline.begin(), pipeline.end());
  steps.insert(steps.begin() + 1, {"drop_an_addend", drop_an_addend, "it is wrong", true});
  suspect_.steps = steps;
  const Bisection found = bisect(suspect_, maker());
  EXPECT_EQ(found.fault, Bisection::Fault::kPass);
  EXPECT_EQ(found.pass, "drop_an_addend");
}

TEST_F(BisectTest, AWrongKernelIsFoundWithItsNode) {
  const auto one_is_wrong = [this](std::span<const ir::Loop> loops) {
    std::vector<runtime::Kernel> made = kernels(loops);
    for (size_t i = 0; i < loops.size(); ++i) {
      if (loops[i].str().find("tanh") == std::string::npos) continue;
      size_t result = 0;
      while (loops[i].buffers[result].use != ir::LoopBuffer::Use::kOutput) ++result;
      made[i] = [right = made[i], result](void* const* arguments) {
        right(arguments);
        static_cast<float*>(arguments[result])[0] += 0.5f;
      };
    }
    return made;
  };
  const Bisection found = bisect(suspect_, one_is_wrong);
  EXPECT_EQ(found.fault, Bisection::Fault::kKernel);
  EXPECT_THAT(found.node, HasSubstr("tanh"));
  EXPECT_THAT(found.file, HasSubstr("bisect_test.cc"));
  EXPECT_EQ(found.pass, "");
}

TEST_F(BisectTest, APassThatMakesTheStepSlowIsFound) {
  // Adds many large sums that change nothing.
  const auto waste = [](ir::Graph& graph, passes::PassContext&) {
    ops::Builder build(graph);
    const std::vector<int64_t> shape = {1024, 4096};
    const ir::Value big = build.emit(
        "iota", {}, {{"axis", int64_t{0}}, {"dtype", ir::DType::kI64}, {"shape", shape}});
    const ir::Value total =
        build.sum(build.emit("cos", {build.convert(big, ir::DType::kF32)}), {0, 1}, false);
    const ir::Graph::Output loss = graph.outputs()[0];
    graph.clear_outputs();
    graph.add_output(loss.name, build.add(loss.value, build.mul(total, 1e-30)));
    graph.renumber();
    return true;
  };
  const auto pipeline = compiler::pipeline();
  std::vector<compiler::PipelineStep> steps(pipeline.begin(), pipeline.end());
  steps.insert(steps.begin() + 8, {"waste", +waste, "it is slow"});
  suspect_.steps = steps;
  const SlownessReport report = find_slowness(suspect_, maker(), 5, 0.3, 1e10);
  ASSERT_FALSE(report.passes.empty());
  EXPECT_EQ(report.passes[0].pass, "waste");
  EXPECT_TRUE(report.passes[0].makes_slower);
  ASSERT_FALSE(report.steps.empty());
  EXPECT_THAT(report.steps[0].name, HasSubstr("cos"));
}

}  // namespace
}  // namespace monograph::verify
