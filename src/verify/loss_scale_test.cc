// Loss scaling in the graph against torch.amp.GradScaler (bench/golden/loss_scale_golden.py), and
// moments in bf16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "frontend/session/monograph.h"

namespace monograph {
namespace {

using nlohmann::json;

constexpr int64_t kRows = 8, kInputs = 4, kOutputs = 3;

ir::Literal table(int64_t rows, int64_t columns, int64_t first) {
  return ir::Literal::from({ir::DType::kF32, {rows, columns}}, [=](int64_t i) {
    return static_cast<double>((7 * i * i + 3 * i + first) % 11 - 5) / 4;
  });
}

json read_golden() {
  std::ifstream file(MONOGRAPH_SOURCE_DIR "/tests/golden/loss_scale.json");
  return json::parse(file);
}

struct Line : nn::Module {
  nn::Linear fc{*this, "fc", kInputs, kOutputs};
};

struct Fit {
  std::vector<double> losses, scales, norms;
  std::vector<ir::Literal> parameters;
};

// Least squares from the golden run's weights.
Fit fit(const optim::AdamWConfig& config, int num_steps, const CompileOptions& options = {}) {
  Line line;
  optim::AdamW optimizer(line.parameters(), config);
  Session session({.seed = 1, .options = options});
  session.set_state("fc.weight", table(kInputs, kOutputs, 2));
  session.set_state("fc.bias", ir::Literal(ir::TensorType{ir::DType::kF32, {kOutputs}}));
  auto step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor gap = line.fc(x) - y;
    const Tensor loss = sum(gap * gap);
    const auto& scale = config.loss_scale;
    const Tensor used = scale ? scale->value(loss.trace()) : loss;
    const optim::Metrics metrics = optimizer.step((scale ? (*scale)(loss) : loss).backward());
    return Outputs{{"loss", loss}, {"scale", used}, {"norm", metrics.gradient_norm}};
  });
  Fit run;
  for (int i = 0; i < num_steps; ++i) {
    const auto results = step(table(kRows, kInputs, i), table(kRows, kOutputs, 5 * i + 1));
    run.losses.push_back(results.loss());
    run.scales.push_back(results.scalar("scale"));
    run.norms.push_back(results.scalar("norm"));
  }
  for (const char* name : {"fc.weight", "fc.bias"}) run.parameters.push_back(session.state(name));
  return run;
}

optim::AdamWConfig golden_config(const json& c) {
  return {.learning_rate = optim::Schedule::constant(c["learning_rate"]),
          .beta1 = c["betas"][0],
          .beta2 = c["betas"][1],
          .weight_decay = c["weight_decay"],
          .max_norm = c["max_norm"]};
}

TEST(LossScale, StepsAreSkippedAndTheScaleMovesAsInPyTorch) {
  const json golden = read_golden();
  const json& c = golden["config"];
  optim::AdamWConfig config = golden_config(c);
  config.loss_scale = optim::LossScale({.initial = c["initial"],
                                        .growth = c["growth"],
                                        .backoff = c["backoff"],
                                        .growth_interval = c["growth_interval"]});
  const Fit run = fit(config, c["num_steps"]);
  EXPECT_EQ(run.scales, golden["scales"].get<std::vector<double>>());
  for (size_t i = 0; i < run.losses.size(); ++i) {
    const double expected = golden["losses"][i];
    EXPECT_NEAR(run.losses[i], expected, 1e-5 * expected) << "step " << i;
  }
  for (int64_t i = 0; i < kInputs * kOutputs; ++i) {
    EXPECT_NEAR(run.parameters[0].get(i), golden["weight"][i].get<double>(), 1e-5);
  }
  for (int64_t i = 0; i < kOutputs; ++i) {
    EXPECT_NEAR(run.parameters[1].get(i), golden["bias"][i].get<double>(), 1e-5);
  }
  // The oracle adds in float64 and misses an overflow within a sum, at step 21.
  const Fit interpreted = fit(config, 20, {.backend = "interpret"});
  for (size_t i = 0; i < interpreted.losses.size(); ++i) {
    EXPECT_EQ(interpreted.scales[i], run.scales[i]) << "step " << i;
    EXPECT_NEAR(interpreted.losses[i], run.losses[i], 1e-5 * run.losses[i]) << "step " << i;
  }
}

TEST(LossScale, AFixedPowerOfTwoChangesNoBit) {
  const optim::AdamWConfig plain = golden_config(read_golden()["config"]);
  optim::AdamWConfig scaled = plain;
  scaled.loss_scale = optim::LossScale({.initial = 1024, .is_dynamic = false});
  const Fit a = fit(plain, 8), b = fit(scaled, 8);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(b.scales, std::vector<double>(8, 1024.0));
}

TEST(LossScale, SaysWhatMakesNoSense) {
  try {
    const optim::LossScale scale({.initial = 0});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("loss scale of 0 with growth 2"));
  }
}

TEST(AdamW, TakesMomentsInBf16) {
  optim::AdamWConfig config = golden_config(read_golden()["config"]);
  const Fit wide = fit(config, 24);
  config.moment_dtype = ir::DType::kBF16;
  const Fit narrow = fit(config, 24), interpreted = fit(config, 24, {.backend = "interpret"});
  EXPECT_NE(narrow.losses, wide.losses);
  for (size_t i = 0; i < wide.losses.size(); ++i) {
    EXPECT_NEAR(narrow.losses[i], wide.losses[i], 2e-2 * wide.losses[i]) << "step " << i;
    EXPECT_NEAR(narrow.losses[i], interpreted.losses[i], 1e-3 * wide.losses[i]) << "step " << i;
  }
}

TEST(AdamW, SaysWhichMomentsItTakes) {
  Line line;
  try {
    const optim::AdamW optimizer(
        line.parameters(),
        {.learning_rate = optim::Schedule::constant(1e-3), .moment_dtype = ir::DType::kF64});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("moments in f64: use f32 or bf16"));
  }
}

}  // namespace
}  // namespace monograph
