// Gradient accumulation in the graph: the numbers of one large batch in the memory of a small one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"

namespace monograph {
namespace {

constexpr int64_t kRows = 16, kLength = 12;

ir::Literal ids(int64_t first) {
  return ir::Literal::from({ir::DType::kI64, {kRows, kLength}}, [=](int64_t i) {
    return static_cast<double>((first + 7 * i * i + i) % 29);
  });
}

struct Training {
  std::vector<double> losses, norms;
  int64_t scratch_bytes = 0;
};

Training train(int64_t count, const CompileOptions& options = {}) {
  nn::GPT model({.vocab_size = 29, .block_size = kLength, .n_layer = 2, .n_head = 2, .n_embd = 16});
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-3), .max_norm = 0.5});
  Session session({.seed = 3, .options = options});
  auto step = session.compile([&](const Tensor& x, const Tensor& y) {
    const auto [loss, gradients] = trace::accumulate(
        count, {x, y}, [&](const auto& slice) { return model.loss(slice[0], slice[1]); });
    const optim::Metrics metrics = optimizer.step(gradients);
    return Outputs{{"loss", loss}, {"norm", metrics.gradient_norm}};
  });
  Training run;
  for (int i = 0; i < 5; ++i) {
    const auto results = step(ids(1), ids(5));
    run.losses.push_back(results.loss());
    run.norms.push_back(results.scalar("norm"));
  }
  const auto* build = step.executable({ids(1).type(), ids(5).type()}).build();
  if (build == nullptr) return run;
  const ir::Program& program = build->compilation.program;
  run.scratch_bytes = program.segment_bytes[static_cast<size_t>(ir::Segment::kScratch)];
  return run;
}

TEST(Accumulate, MicroBatchesGiveTheNumbersOfOneBatch) {
  const Training whole = train(1);
  for (const int64_t count : {2, 4, 16}) {
    const Training parts = train(count);
    for (size_t i = 0; i < whole.losses.size(); ++i) {
      EXPECT_NEAR(parts.losses[i], whole.losses[i], 1e-5) << count << " parts, step " << i;
      EXPECT_NEAR(parts.norms[i], whole.norms[i], 1e-5) << count << " parts, step " << i;
    }
  }
  const Training interpreted = train(4, {.backend = "interpret"});
  for (size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_NEAR(interpreted.losses[i], whole.losses[i], 1e-5) << "step " << i;
  }
}

TEST(Accumulate, ActivationsOfOneMicroBatchLiveAtATime) {
  EXPECT_LT(train(4).scratch_bytes, train(1).scratch_bytes);
}

TEST(Accumulate, SaysWhatDoesNotDivide) {
  auto step = compile([](const Tensor& x) {
    return trace::accumulate(3, {x}, [](const auto& slice) { return sum(slice[0]); }).loss;
  });
  try {
    step(ir::Literal(ir::TensorType{ir::DType::kF32, {16, 2}}));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("f32[16,2] cannot be split into 3 micro-batches"));
  }
}

}  // namespace
}  // namespace monograph
