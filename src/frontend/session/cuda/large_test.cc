#include <gtest/gtest.h>

#include "device/cuda/availability.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

// A parameter of more than 2^31 elements (8.6 GB): each element must be read and written once.
TEST(LargeTensorTest, TrainsMoreThanTwoBillionElements) {
  if (const std::string why = device::cuda::why_no_gpu(); !why.empty()) {
    GTEST_SKIP() << "needs a GPU: " << why;
  }
  constexpr int64_t kRows = 65536, kColumns = 32769;
  static_assert(kRows * kColumns > int64_t{1} << 31);
  const trace::Parameter weight("w", {DType::kF32, {kRows, kColumns}}, ir::StateRole::kParameter,
                                trace::Initializer::constant(0));
  optim::SGD optimizer({weight}, {.learning_rate = optim::Schedule::constant(0.5)});
  Compiled step = compile(
      [&](const Tensor& x) {
        const Tensor scaled = x * weight;
        const Tensor last = scaled.slice(0, kRows - 1, kRows).slice(1, kColumns - 1, kColumns);
        const Tensor loss = sum(scaled);
        optimizer.step(loss.backward());
        return std::tuple(loss, sum(last));
      },
      {.backend = "cuda"});
  for (int i = 0; i < 3; ++i) {
    const Results results = step(ir::Literal::from_f32({1}, {1}));
    EXPECT_EQ(results.values[1].get(0), -0.5 * i);
    EXPECT_EQ(results.loss(), -0.5 * i * kRows * kColumns);  // a sum without rounding
  }
}

}  // namespace
}  // namespace monograph::session
