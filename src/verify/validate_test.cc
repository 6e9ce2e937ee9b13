#include "verify/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/cpu/compile.h"
#include "frontend/session/monograph.h"
#include "frontend/trace/trace.h"
#include "ops/builder.h"

namespace monograph::verify {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 3, 4};
  nn::Linear out{*this, "out", 4, 2};
  nn::Linear idle{*this, "idle", 3, 3};

  Tensor loss(const Tensor& x, const Tensor& y) const { return mse_loss(out(tanh(fc(x))), y); }
};

class ValidateTest : public testing::Test {
 protected:
  Subject subject(std::function<Tensor(const Tensor&, const Tensor&)> loss = {}) {
    if (!loss) loss = [this](const Tensor& x, const Tensor& y) { return net_.loss(x, y); };
    Subject subject;
    subject.step = session::traced_function([=, this](const Tensor& x, const Tensor& y) {
      const Tensor value = loss(x, y);
      sgd_.step(value.backward());
      return value;
    });
    subject.gradients = session::traced_function([=, this](const Tensor& x, const Tensor& y) {
      const Tensor value = loss(x, y);
      trace::Outputs outputs = {{"loss", value}};
      const auto gradients = value.backward();
      for (const trace::Parameter& parameter : gradients.parameters()) {
        outputs.emplace_back("grad." + parameter.name(), gradients[parameter]);
      }
      return outputs;
    });
    subject.inputs = {ir::Literal::from_f32({2, 3}, {1, 2, 3, -1, 0.5, 2}),
                      ir::Literal::from_f32({2, 2}, {1, 0, 0, 1})};
    return subject;
  }

  static const Check& check(const Validation& validation, std::string_view name) {
    for (const Check& each : validation.checks) {
      if (each.name == name) return each;
    }
    throw_internal_error("no check '{}'", name);
  }

  Net net_;
  optim::SGD sgd_{net_.parameters(), {.learning_rate = optim::Schedule::constant(0.1)}};
};

TEST_F(ValidateTest, AHealthyStepPasses) {
  const Validation validation = validate(subject());
  for (const Check& each : validation.checks) {
    EXPECT_TRUE(each.passed) << each.name << ": " << each.finding
                             << testing::PrintToString(each.failures);
  }
  ASSERT_EQ(validation.parameters.size(), 4u);
  EXPECT_EQ(validation.parameters[0].gradient, validation.parameters[0].type.str());
  EXPECT_EQ(validation.derivatives.size(), 4u);
  EXPECT_EQ(validation.digest, digest_of(subject()));
}

TEST_F(ValidateTest, AWrongKernelIsNamed) {
  static std::vector<runtime::KernelFunction> right;
  static size_t wrong = 0, result = 0;
  codegen::CompiledKernels compiled;
  const auto one_is_wrong = [&](std::span<const ir::Loop> loops) {
    compiled = codegen::compile_loops(loops);
    right = compiled.functions;
    std::vector<runtime::KernelFunction> functions = right;
    for (size_t i = 0; i < loops.size(); ++i) {
      if (loops[i].str().find("tanh") == std::string::npos) continue;
      wrong = i;
      result = 0;
      while (loops[i].buffers[result].use != ir::LoopBuffer::Use::kOutput) ++result;
      functions[i] = [](void* const* arguments) {
        right[wrong](arguments);
        static_cast<float*>(arguments[result])[0] += 0.5f;
      };
    }
    return runtime::as_kernels(functions);
  };
  const Validation validation = validate(subject(), one_is_wrong);
  EXPECT_FALSE(validation.passed());
  ASSERT_EQ(check(validation, "numerics").failures.size(), 1u);
  EXPECT_THAT(check(validation, "numerics").failures[0], HasSubstr("tanh"));
  EXPECT_THAT(check(validation, "numerics").failures[0], HasSubstr("validate_test.cc"));
}

TEST_F(ValidateTest, AParameterThatTheLossDoesNotReachIsNamed) {
  const Validation validation = validate(subject([this](const Tensor& x, const Tensor& y) {
    return net_.loss(x, y) + detach(sum(net_.idle(x)));
  }));
  EXPECT_FALSE(validation.passed());
  EXPECT_THAT(check(validation, "backward").failures,
              Contains(HasSubstr("'idle.weight': the loss does not depend on it")));
}

TEST_F(ValidateTest, TheTablesSayWhereTensorsLie) {
  const Validation validation = validate(subject());
  EXPECT_EQ(validation.parameters[0].placement, "cpu:weights");
  EXPECT_THAT(validation.parameters[0].gradient_placement, HasSubstr("cpu:"));
  std::map<std::string, int> kinds;
  for (const PlacementRow& row : validation.placements) {
    ++kinds[row.kind];
    EXPECT_EQ(row.actual, "cpu") << row.tensor;
  }
  EXPECT_EQ(kinds["input"], 2);
  EXPECT_EQ(kinds["parameter"], 4);
  EXPECT_EQ(kinds["output"], 1);
  EXPECT_THAT(
      misplaced({{"w", "parameter", "cuda", "cpu", "weights", 4},
                 {"x", "input", "cpu", "cpu", "input", 4},
                 {"m", "moment", "cuda", "", "moments", 4}}),
      ElementsAre("V7 parameter 'w' lies on cpu, the step expects it on cuda: copy it there",
                  "V7 moment 'm' lies on no device, the step expects it on cuda: copy it "
                  "there"));
}

TEST_F(ValidateTest, AFunctionThatTracesDifferentlyEachTimeIsImpure) {
  double counter = 0;
  const Validation validation = validate(subject(
      [&](const Tensor& x, const Tensor& y) { return net_.loss(x, y) * (counter += 1.0); }));
  EXPECT_FALSE(check(validation, "purity").passed);
  EXPECT_THAT(check(validation, "purity").failures[0], HasSubstr("captured twice: the number"));
  EXPECT_FALSE(check(validation, "reproducible").passed);
}

TEST(FloatDifferencesTest, AWrongGradientIsFound) {
  ir::Graph graph;
  ops::Builder build(graph);
  const ir::Value p =
      graph.add_state("p", {ir::DType::kF32, {3}}, ir::StateRole::kParameter)->result();
  graph.add_output("loss", build.sum(build.mul(p, p), {0}, false));
  graph.add_output("grad.p", build.mul(p, 3.0));  // 2 p is right
  const auto found =
      compare_with_differences(graph, {}, {{"p", ir::Literal::from_f32({3}, {1, 2, 3})}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0].from_gradient / found[0].from_difference, 1.5, 1e-6);
  EXPECT_GT(found[0].error(), 0.3);
}

}  // namespace
}  // namespace monograph::verify
