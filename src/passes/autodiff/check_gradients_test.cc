#include "passes/autodiff/check_gradients.h"

#include <gmock/gmock.h>

#include "ops/builder.h"
#include "passes/autodiff/autodiff.h"

namespace monograph::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// loss = sum(tanh(x w)), with a parameter that nothing reads.
class CheckGradients : public ::testing::Test {
 protected:
  void SetUp() override {
    ops::Builder build(graph_);
    const ir::Value x = graph_.add_input("x", {ir::DType::kF32, {3, 4}})->result();
    w_ = graph_.add_state("w", {ir::DType::kF32, {4, 5}}, ir::StateRole::kParameter);
    unused_ = graph_.add_state("unused", {ir::DType::kF32, {2}}, ir::StateRole::kParameter);
    loss_ = build.sum(build.emit("tanh", {build.matmul(x, w_->result())}), {0, 1}, false);
    const std::vector<ir::Value> wrt = {w_->result(), unused_->result()};
    gradient_ = differentiate(graph_, loss_, wrt, context_).at(w_->result());
  }

  std::vector<std::string> codes(std::vector<ParameterGradient> gradients) {
    std::vector<std::string> result;
    for (const ir::Violation& each : check_gradients(graph_, loss_, gradients)) {
      result.push_back(each.code);
    }
    return result;
  }

  ir::Graph graph_;
  PassContext context_;
  ir::Node *w_ = nullptr, *unused_ = nullptr;
  ir::Value loss_, gradient_;
};

TEST_F(CheckGradients, AcceptsWhatDifferentiateGives) {
  EXPECT_THAT(codes({{w_, gradient_}, {unused_, {}}}), ElementsAre());
}

TEST_F(CheckGradients, FindsTwoGradientsOfOneParameter) {
  EXPECT_THAT(codes({{w_, gradient_}, {w_, gradient_}}), ElementsAre("V2.1"));
}

TEST_F(CheckGradients, FindsAGradientOfAnotherShape) {
  ops::Builder build(graph_);
  build.set_phase(ir::Phase::kBackward);
  const ir::Value turned = build.transpose_last(gradient_);
  EXPECT_THAT(codes({{w_, turned}}), ElementsAre("V2.2", "V2.5"));
}

TEST_F(CheckGradients, FindsAGradientThatBackwardDidNotMake) {
  EXPECT_THAT(codes({{w_, w_->result()}}), ElementsAre("V2.3"));
}

TEST_F(CheckGradients, FindsAParameterWhoseGradientIsMissing) {
  EXPECT_THAT(codes({{w_, {}}}), ElementsAre("V2.4"));
  const auto violations = check_gradients(graph_, loss_, std::vector<ParameterGradient>{{w_, {}}});
  EXPECT_THAT(violations[0].message, HasSubstr("parameter 'w' has no gradient"));
}

TEST_F(CheckGradients, CountsBackwardNodesAgainstTheOpRules) {
  ops::Builder build(graph_);
  build.set_phase(ir::Phase::kBackward);
  build.neg(gradient_);
  EXPECT_THAT(codes({{w_, gradient_}}), ElementsAre("V2.5"));
}

}  // namespace
}  // namespace monograph::passes
