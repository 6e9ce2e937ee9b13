// The residual stream of a model, kept in bf16.
#include <gmock/gmock.h>

#include "base/error.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

struct Outcome {
  std::vector<double> losses;
  int64_t scratch_bytes = 0;
};

ir::Literal tokens(int64_t step, int64_t shift) {
  return ir::Literal::from({ir::DType::kI64, {4, 16}}, [&](int64_t i) {
    return static_cast<double>((step * 7 + i * i + shift) % 24);
  });
}

Outcome train(const std::string& residual) {
  nn::Llama model({.vocab_size = 24,
                   .block_size = 16,
                   .n_layer = 3,
                   .n_head = 2,
                   .n_kv_head = 1,
                   .n_embd = 32,
                   .n_hidden = 48});
  optim::AdamW optimizer(model.parameters(), {.learning_rate = optim::Schedule::constant(1e-2)});
  Session session({.seed = 3, .options = {.precision = "bf16", .residual = residual}});
  Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model.loss(x, y);
    optimizer.step(loss.backward());
    return loss;
  });
  Outcome outcome;
  for (int64_t i = 0; i < 6; ++i) {
    outcome.losses.push_back(step(tokens(i, 0), tokens(i, 1)).loss());
  }
  const ir::TensorType type = tokens(0, 0).type();
  const ir::Program& program = step.executable({type, type}).build()->compilation.program;
  outcome.scratch_bytes = program.segment_bytes[static_cast<size_t>(ir::Segment::kScratch)];
  return outcome;
}

TEST(Residual, InBf16TakesLessAndTrainsAlike) {
  const Outcome wide = train("f32"), narrow = train("bf16");
  EXPECT_LT(narrow.scratch_bytes, wide.scratch_bytes);
  EXPECT_NE(narrow.losses, wide.losses);
  for (size_t i = 0; i < wide.losses.size(); ++i) {
    EXPECT_NEAR(narrow.losses[i] / wide.losses[i], 1, 2e-2) << "step " << i;
  }
}

TEST(Residual, InBf16NeedsProductsInBf16) {
  const auto message = [] {
    try {
      compile([](const Tensor& x) { return x; }, {.residual = "bf16"});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(), testing::HasSubstr("use precision bf16 with it"));
}

}  // namespace
}  // namespace monograph::session
