// A run that stops and goes on from its checkpoint.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace monograph::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() : folder_(fs::temp_directory_path() / fmt::format("resume-{}", getpid())) {}
  ~ResumeTest() override { fs::remove_all(folder_); }

  TrainConfig tiny() const {
    TrainConfig config;
    config.model = {.name = "gpt-nano",
                    .num_layers = 1,
                    .num_heads = 2,
                    .embedding = 32,
                    .block = 16,
                    .batch = 4,
                    .dropout = 0.1};
    config.data_path = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/text.txt";
    config.num_steps = 12;
    config.eval_every = 0;
    config.num_eval_batches = 1;
    config.sample_length = 4;
    config.is_quiet = true;
    config.checkpoint_folder = folder_.string();
    config.checkpoint_every = 5;
    return config;
  }
  static TrainResult run(const TrainConfig& config) {
    EventLog events;
    const std::atomic<bool> interrupted = false;
    return train(config, events, stdout, interrupted);
  }
  static std::string message_of(const TrainConfig& config) {
    try {
      run(config);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  const fs::path folder_;
};

TEST_F(ResumeTest, GoesOnBitwiseAsIfNeverStopped) {
  const TrainResult whole = run(tiny());
  EXPECT_THAT(checkpoint_steps(folder_), ::testing::ElementsAre(5, 10, 12));
  const Checkpoint last = read_checkpoint(folder_, 12);
  fs::remove(folder_ / "step-12.json");
  fs::remove(folder_ / "step-10.json");
  TrainConfig config = tiny();
  config.resume = true;
  const TrainResult resumed = run(config);
  EXPECT_EQ(resumed.resumed_from, 5);
  EXPECT_EQ(resumed.num_steps, 12);
  EXPECT_EQ(resumed.losses, std::vector(whole.losses.begin() + 5, whole.losses.end()));
  EXPECT_EQ(resumed.validation_loss, whole.validation_loss);
  EXPECT_EQ(resumed.sample, whole.sample);
  EXPECT_EQ(read_checkpoint(folder_, 12).states, last.states);
}

TEST_F(ResumeTest, BeginsWhereThereIsNoCheckpoint) {
  TrainConfig config = tiny();
  config.resume = true;
  const TrainResult result = run(config);
  EXPECT_EQ(result.resumed_from, 0);
  EXPECT_EQ(result.losses.size(), 12u);
}

TEST_F(ResumeTest, ACheckpointOfAnotherModelOrRunIsRefused) {
  run(tiny());
  TrainConfig config = tiny();
  config.resume = true;
  config.model.num_layers = 2;
  EXPECT_THAT(message_of(config), HasSubstr("step-12.safetensors' cannot be used: it is of another "
                                            "model: it lacks tensor 'h.1."));
  config = tiny();
  config.resume = true;
  config.model.embedding = 64;
  EXPECT_THAT(message_of(config), HasSubstr("its tensor 'h.0.attn.c_attn.bias' is f32[96], the "
                                            "model's f32[192]"));
  config = tiny();
  config.resume = true;
  config.seed = 2;
  EXPECT_THAT(message_of(config), HasSubstr("its seed is 1, of this run it is 2"));
}

TEST_F(ResumeTest, CheckpointsNeedAFolder) {
  TrainConfig config = tiny();
  config.checkpoint_folder.clear();
  EXPECT_THAT(message_of(config), HasSubstr("give --checkpoint-dir FOLDER"));
}

}  // namespace
}  // namespace monograph::train
