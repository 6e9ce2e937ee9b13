// Reductions over several axes whose memory, or whose broadcast operands, do not let a kernel step
// through them as one: compiled, against the interpreter.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/session/monograph.h"

namespace monograph {
namespace {

ir::Literal wave(ir::Shape shape, double step) {
  return ir::Literal::from({ir::DType::kF32, std::move(shape)},
                           [=](int64_t i) { return std::sin(step * static_cast<double>(i)); });
}

template <typename Function>
void expect_as_interpreted(Function function, const std::vector<ir::Literal>& inputs) {
  const ir::Literal expected = compile(function, {.backend = "interpret"})(inputs).values[0];
  const ir::Literal found = compile(function)(inputs).values[0];
  ASSERT_EQ(found.type(), expected.type());
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    EXPECT_NEAR(found.get(i), expected.get(i), 1e-4) << "element " << i;
  }
}

TEST(CompiledReductions, OfAPermutedValue) {
  expect_as_interpreted(
      [](const Tensor& x) {
        return sum(exp(x.permute({0, 2, 1, 3})), {2, 3});
      },
      {wave({3, 4, 5, 6}, 0.7)});
  expect_as_interpreted(
      [](const Tensor& x) {
        return sum(exp(x.permute({2, 0, 1})), {0});
      },
      {wave({4, 5, 6}, 0.7)});
}

TEST(CompiledReductions, OfAValueBroadcastAlongSomeOfTheAxes) {
  const std::vector<ir::Literal> inputs = {wave({4, 5, 6}, 0.7), wave({5, 1}, 1.3)};
  expect_as_interpreted(
      [](const Tensor& x, const Tensor& y) {
        return sum(x * y, {1, 2});
      },
      inputs);
  expect_as_interpreted([](const Tensor& x, const Tensor& y) { return sum(x * y, {0}); }, inputs);
  expect_as_interpreted(
      [](const Tensor& x, const Tensor& y) {
        const Tensor shifted = x + y;
        const Tensor e = exp(shifted - amax(shifted, {1, 2}, true));
        return e / sum(e, {1, 2}, true);
      },
      inputs);
}

TEST(CompiledReductions, OfAnIndexAlongOneOfTheAxes) {
  expect_as_interpreted(
      [](const Tensor& x) {
        const Tensor column = x.trace().iota({ir::DType::kI64, {5, 6}}, 0);
        return sum(where(lt(column, 2), x, 0.0), {1, 2});
      },
      {wave({4, 5, 6}, 0.7)});
}

}  // namespace
}  // namespace monograph
