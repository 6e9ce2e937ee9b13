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
  config.sample_length = 8;
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

TEST(Trainer, LlamaLearnsTheTextBetterThanItsUnigrams) {
  TrainConfig config = tiny("llama-nano");
  config.model.num_kv_heads = 1;
  config.model.hidden = 88;
  config.num_steps = 250;
  config.learning_rate = 1e-2;
  const TrainResult result = run(config);
  EXPECT_LT(result.validation_loss, result.unigram_entropy);
}

TEST(Trainer, MlpLearnsTheTrainingPart) {
  TrainConfig config = tiny("mlp");
  config.num_steps = 250;
  config.learning_rate = 1e-2;
  EXPECT_LT(run(config).training_loss, 3.3);  // log(256) = 5.5 at the start
}

TEST(Trainer, TrainsOnATokenFile) {
  const std::string path = ::testing::TempDir() + "/trainer_tokens.bin";
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < 4000; ++i) {
    const auto id = static_cast<uint16_t>(300 + 7 * i % 50);
    file.write(reinterpret_cast<const char*>(&id), sizeof(id));
  }
  file.close();
  TrainConfig config = tiny();
  config.data_path = path;
  EXPECT_THAT(message_of(config), HasSubstr("token number 0 is 300"));
  config.model.vocab = 350;
  config.num_steps = 100;
  config.learning_rate = 1e-2;
  const TrainResult result = run(config);
  EXPECT_LT(result.validation_loss, 0.5 * result.unigram_entropy);  // each id follows from the last
  EXPECT_THAT(result.sample, testing::MatchesRegex("([0-9]+ ){7}[0-9]+"));
}

TEST(Trainer, GoesOnFromSavedWeights) {
  TrainConfig config = tiny("llama-nano");
  config.model.num_kv_heads = 1;
  config.model.hidden = 64;
  config.save_path = ::testing::TempDir() + "/trainer.safetensors";
  const TrainResult first = run(config);
  TrainConfig more = config;
  more.save_path.clear();
  more.init_from = config.save_path;
  more.num_steps = 1;
  more.learning_rate = more.final_learning_rate = 0;
  EXPECT_NEAR(run(more).validation_loss, first.validation_loss, 1e-6);
  more.model.hidden = 72;
  EXPECT_THAT(message_of(more),
              HasSubstr("mlp.gate_proj.weight is f32[64,32], the model takes [72,32]"));
  config.save_path = "/nowhere/weights";
  EXPECT_THAT(message_of(config), HasSubstr("cannot write --save '/nowhere/weights': No such"));
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
  config.model.num_kv_heads = 1;
  EXPECT_THAT(message_of(config), HasSubstr("model gpt-nano takes no --kv-heads"));
  config = tiny("llama-nano");
  config.model.num_kv_heads = 3;
  EXPECT_THAT(message_of(config), HasSubstr("--kv-heads 3 does not divide --heads 2"));
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
