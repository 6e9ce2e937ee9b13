#include "frontend/trace/control_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "frontend/session/monograph.h"

namespace monograph::trace {
namespace {

using session::Compiled;
using testing::HasSubstr;

ir::Literal row(std::vector<float> numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  return ir::Literal::from_f32({count}, numbers);
}

template <typename Function>
std::string message_of(Function function) {
  try {
    session::compile(function, {.backend = "interpret"})(row({1, 2, 3}));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

class ControlFlowTest : public testing::TestWithParam<std::string> {
 protected:
  session::CompileOptions options() const { return {.backend = GetParam(), .fullgraph = true}; }
};

TEST_P(ControlFlowTest, CondTakesABranchWithItsGradient) {
  Compiled step = session::compile(
      [](const Tensor& x) {
        const Tensor loss = cond(
            gt(sum(x), 0.0), [](const Tensors& in) { return Tensors{sum(in[0] * in[0])}; },
            [](const Tensors& in) { return Tensors{sum(in[0] * 5.0)}; }, {x})[0];
        return Outputs{{"loss", loss}, {"gradient", gradients_of(loss, {x})[0]}};
      },
      options());
  const session::Results positive = step(row({1, 2, 3})), negative = step(row({1, -2, -3}));
  EXPECT_EQ(positive.loss(), 14);
  EXPECT_EQ(positive["gradient"], row({2, 4, 6}));
  EXPECT_EQ(negative.loss(), -20);
  EXPECT_EQ(negative["gradient"], row({5, 5, 5}));
  EXPECT_EQ(step.num_signatures(), 1);
}

// h = tanh(h w + x): the gradient through all steps beside central differences.
TEST_P(ControlFlowTest, ScanIsARecurrentNetworkWithGradients) {
  Compiled step = session::compile(
      [](const Tensor& x, const Tensor& w) {
        const ScanStep result = scan(
            [&](const Tensors& carry, const Tensors& in) {
              const Tensor h = tanh(carry[0] * w + in[0]);
              return ScanStep{{h}, {h * 2.0}};
            },
            {sum(x) * 0.0}, {x});
        const Tensor loss = sum(result.outputs[0]) + result.carry[0];
        return Outputs{{"loss", loss}, {"gradient", gradients_of(loss, {w})[0]}};
      },
      options());
  const ir::Literal x = row({0.5, -0.25, 1, 0.75});
  const auto at = [&](float w) { return step(x, ir::Literal::from_f32({}, {w})); };
  const auto expected = [](float w) {
    float h = 0, loss = 0;
    for (const float x_i : {0.5F, -0.25F, 1.0F, 0.75F}) {
      h = std::tanh(h * w + x_i);
      loss += 2 * h;
    }
    return loss + h;
  };
  EXPECT_NEAR(at(0.5F).loss(), expected(0.5F), 1e-5);
  EXPECT_NEAR(at(0.5F).scalar("gradient"), (expected(0.51F) - expected(0.49F)) / 0.02, 1e-3);
}

TEST_P(ControlFlowTest, WhileLoopStopsWhereItsConditionSays) {
  Compiled step = session::compile(
      [](const Tensor& x) {
        const WhileResult result =
            while_loop([](const Tensors& s) { return lt(sum(s[0]), 100.0); },
                       [](const Tensors& s) { return Tensors{s[0] * 2.0}; }, {x}, 8);
        const Tensor total = sum(result.state[0]);
        return Outputs{{"loss", total},
                       {"finished", result.finished.to(ir::DType::kF32)},
                       {"gradient", gradients_of(total, {x})[0]}};
      },
      options());
  const session::Results few = step(row({1, 2, 3})), many = step(row({0.01F, 0.02F, 0.03F}));
  EXPECT_EQ(few.loss(), 192);  // 6 doubled five times
  EXPECT_EQ(few.scalar("finished"), 1);
  EXPECT_EQ(few["gradient"], row({32, 32, 32}));
  EXPECT_NEAR(many.loss(), 0.06 * 256, 1e-4);
  EXPECT_EQ(many.scalar("finished"), 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, ControlFlowTest, testing::Values("interpret", "cpu"),
                         [](const auto& each) { return each.param; });

TEST(ControlFlowErrorsTest, WhatDoesNotFitIsNamed) {
  const auto keep = [](const Tensors& in) { return in; };
  EXPECT_THAT(message_of([&](const Tensor& x) { return cond(x, keep, keep, {x})[0]; }),
              HasSubstr("[cond] the predicate is f32[3]: give one bool"));
  EXPECT_THAT(message_of([&](const Tensor& x) {
                return cond(gt(sum(x), 0.0), keep,
                            [](const Tensors& in) { return Tensors{sum(in[0])}; }, {x})[0];
              }),
              HasSubstr("[cond] the branches differ: tensor 0 is f32[] against f32[3]"));
  EXPECT_THAT(message_of([](const Tensor& x) {
                return scan(
                           [](const Tensors&, const Tensors& in) {
                             return ScanStep{in, {}};
                           },
                           {x}, {x})
                    .carry[0];
              }),
              HasSubstr("[scan] the carry changes: tensor 0 is f32[] against f32[3]"));
  const std::string trips = message_of([&](const Tensor& x) {
    return while_loop([](const Tensors& s) { return lt(sum(s[0]), 1.0); }, keep, {x}, 0).state[0];
  });
  EXPECT_THAT(trips, HasSubstr("[while_loop] max_trips 0: use 1 to 4096"));
  EXPECT_THAT(trips, HasSubstr("control_flow_test.cc:"));
}

}  // namespace
}  // namespace monograph::trace
