#include "train/trainer.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace monograph::train {
namespace {

using ::testing::HasSubstr;

const std::string kText = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/text.txt";

TrainConfig tiny(const std::string& model = "gpt-nano") {
  TrainConfig config;
  config.model = {.name = model, .num_layers = 1, .embedding = 32, .block = 32, .batch = 8};
  if (config.model.name == "mlp") {
    config.model.hidden = 64;
  } else {
    config.model.num_heads = 2;
  }
  config.data_path = kText;
  config.num_steps = 60;
  config.eval_every = 0;
  config.num_eval_batches = 2;
  config.sample_bytes = 8;
  config.is_quiet = true;
  return config;
}

TrainResult run(const TrainConfig& config, bool interrupt = false) {
  EventLog events;
  const std::atomic<bool> interrupted = interrupt;
  return train(config, events, stdout, interrupted);
}

std::string message_of(const TrainConfig& config) {
  try {
    run(config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Trainer, GptLearnsTheTextBetterThanItsUnigrams) {
  TrainConfig config = tiny();
  config.num_steps = 250;
  config.learning_rate = 1e-2;
  const TrainResult result = run(config);
  EXPECT_EQ(result.num_steps, 250);
  EXPECT_LT(result.validation_loss, result.unigram_entropy);
  EXPECT_EQ(result.sample.size(), 8u);
}

TEST(Trainer, MlpLearnsTheTrainingPart) {
  TrainConfig config = tiny("mlp");
  config.num_steps = 250;
  config.learning_rate = 1e-2;
  EXPECT_LT(run(config).training_loss, 3.3);  // log(256) = 5.5 at the start
}

TEST(Trainer, TwoRunsAreBitwiseEqual) {
  TrainConfig config = tiny();
  config.num_steps = 10;
  config.model.dropout = 0.1;
  const TrainResult first = run(config), second = run(config);
  EXPECT_EQ(first.training_loss, second.training_loss);
  EXPECT_EQ(first.validation_loss, second.validation_loss);
  EXPECT_EQ(first.sample, second.sample);
}

TEST(Trainer, CompiledAndInterpretedStepsAgree) {
  TrainConfig config = tiny();
  config.num_steps = 3;
  config.model.dropout = 0.1;
  const double compiled = run(config).training_loss;
  config.options.backend = "interpret";
  EXPECT_NEAR(run(config).training_loss / compiled, 1, 1e-5);
}

TEST(Trainer, ReportsFusionTrafficAndMemoryWithinTheBars) {
  const TrainResult result = run(tiny());
  const BuildReport& build = result.build;
  ASSERT_TRUE(build.is_compiled);
  EXPECT_GT(build.trace_ns, 0);
  EXPECT_GT(build.verify_ns, 0);
  EXPECT_GT(result.run.p50_ms, 0);
  EXPECT_GE(result.run.p99_ms, result.run.p50_ms);
  EXPECT_EQ(build.num_copies, 0);
  EXPECT_LE(build.bytes_moved, 1.15 * static_cast<double>(build.bytes_least));
  EXPECT_LE(build.peak_bytes, 1.02 * static_cast<double>(build.bound_bytes));
  const auto json = nlohmann::json::parse(to_json(build, result.run));
  EXPECT_EQ(json["run"]["steps"], 60);
  EXPECT_GT(json["run"]["work"].size(), 5u);
}

TEST(Trainer, StopsWhenInterrupted) {
  const TrainResult result = run(tiny(), true);
  EXPECT_TRUE(result.is_interrupted);
  EXPECT_EQ(result.num_steps, 0);
}

TEST(Trainer, RefusesBadSettings) {
  TrainConfig config = tiny("gpt-huge");
  EXPECT_THAT(message_of(config), HasSubstr("unknown model 'gpt-huge': use one of mlp, gpt-nano"));
  config = tiny();
  config.model.batch = 0;
  EXPECT_THAT(message_of(config), HasSubstr("--batch 0: use 1 or more"));
  config = tiny();
  config.model.num_heads = 5;
  EXPECT_THAT(message_of(config), HasSubstr("--heads 5 does not divide --embd 32"));
  config = tiny();
  config.model.hidden = 8;
  EXPECT_THAT(message_of(config), HasSubstr("model gpt-nano takes no --hidden"));
  config = tiny();
  config.num_steps = 0;
  EXPECT_THAT(message_of(config), HasSubstr("--steps 0: use 1 or more"));
  config = tiny();
  config.data_path = "";
  EXPECT_THAT(message_of(config), HasSubstr("give --data FILE"));
  config = tiny();
  config.options.disabled_passes = {"fuse_all"};
  EXPECT_THAT(message_of(config), HasSubstr("no pass is called 'fuse_all'"));
  config = tiny();
  config.tensorboard_folder = "/dev/full";
  EXPECT_THAT(message_of(config), HasSubstr("cannot write TensorBoard events"));
}

TEST(Trainer, SaysWhatToDoWhenTheLossIsNotFinite) {
  TrainConfig config = tiny();
  config.learning_rate = config.final_learning_rate = 1e30;
  config.warmup_steps = 0;
  EXPECT_THAT(message_of(config), HasSubstr("try a lower --lr"));
}

}  // namespace
}  // namespace monograph::train
