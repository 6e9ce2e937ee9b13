// Training with compressed gradients on ranks that are threads of this process.
#include "train/compressed_exchange.h"

#include <gmock/gmock.h>
#include <omp.h>
#include <unistd.h>

#include <filesystem>

#include "base/message_of.h"
#include "comm/threads/thread_world.h"

namespace monograph::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class CompressedExchange : public testing::Test {
 protected:
  CompressedExchange() : folder_(fs::temp_directory_path() / fmt::format("sent-{}", getpid())) {}
  ~CompressedExchange() override { fs::remove_all(folder_); }

  static TrainConfig tiny(const std::string& compression) {
    TrainConfig config;
    config.model = {.name = "gpt-nano",
                    .num_layers = 2,
                    .num_heads = 2,
                    .embedding = 32,
                    .block = 16,
                    .batch = 24};
    config.data_path = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/text.txt";
    config.num_steps = 30;
    config.eval_every = 0;
    config.num_eval_batches = 2;
    config.sample_length = 0;
    config.is_quiet = true;
    config.compression = ops::parse_compression(compression);
    config.compression.min_elements = 1000;
    return config;
  }

  static TrainResult run(TrainConfig config, std::shared_ptr<const runtime::MeshContext> mesh) {
    EventLog events;
    const std::atomic<bool> interrupted = false;
    config.mesh = std::move(mesh);
    return train(config, events, stdout, interrupted);
  }

  static std::vector<TrainResult> run_on(const ir::Mesh& mesh, const TrainConfig& config) {
    std::vector<TrainResult> results(mesh.num_ranks());
    comm::run_ranks(static_cast<int>(mesh.num_ranks()), [&](comm::World& world) {
      omp_set_num_threads(1);
      results[world.rank] = run(config, runtime::make_mesh_context(mesh, world));
    });
    for (const TrainResult& result : results) EXPECT_EQ(result.losses, results[0].losses);
    return results;
  }

  TrainConfig with_checkpoints(const std::string& compression) const {
    TrainConfig config = tiny(compression);
    config.num_steps = 10;
    config.checkpoint_folder = folder_.string();
    config.checkpoint_every = 5;
    return config;
  }

  // What is said on stderr by a run that goes on from step 5 on `mesh`.
  std::string resume(const ir::Mesh& mesh, TrainConfig config, TrainResult& result) const {
    fs::remove(folder_ / "step-10.json");
    config.resume = true;
    testing::internal::CaptureStderr();
    result = run_on(mesh, config)[0];
    return testing::internal::GetCapturedStderr();
  }

  const fs::path folder_;
  const ir::Mesh two_{{{"data", 2}}};
};

struct Case {
  const char* name;
  std::vector<ir::Mesh::Axis> axes;
  const char* compression;
  double tolerance;  // of the last losses, relative
};

class CompressedTraining : public CompressedExchange, public testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Meshes, CompressedTraining,
    testing::Values(Case{"qsgd8", {{"data", 2}}, "qsgd:8", 0.01},
                    Case{"qsgd4", {{"data", 3}}, "qsgd:4", 0.05},
                    Case{"topk", {{"data", 2}}, "topk:0.2", 0.1},
                    Case{"powersgd", {{"data", 2}}, "powersgd:4", 0.05},
                    Case{"qsgd_sharded", {{"fsdp", 2}}, "qsgd:8", 0.01},
                    Case{"topk_sharded", {{"fsdp", 2}}, "topk:0.2", 0.1},
                    Case{"qsgd_hybrid", {{"dp", 2}, {"fsdp", 2}}, "qsgd:8", 0.02},
                    Case{"topk_hybrid", {{"dp", 2}, {"fsdp", 2}}, "topk:0.2", 0.1},
                    Case{"topk_tensor_parallel", {{"dp", 2}, {"tp", 2}}, "topk:0.2", 0.1}),
    [](const auto& each) { return each.param.name; });

TEST_P(CompressedTraining, ComesNearToThatWithoutAndRepeats) {
  const ir::Mesh mesh(GetParam().axes);
  const TrainConfig config = tiny(GetParam().compression);
  const TrainResult exact = run_on(mesh, tiny("none"))[0];
  const TrainResult first = run_on(mesh, config)[0];
  EXPECT_NEAR(first.validation_loss / exact.validation_loss, 1, GetParam().tolerance);
  EXPECT_NE(first.losses, exact.losses);
  EXPECT_EQ(run_on(mesh, config)[0].losses, first.losses);
  const passes::ExchangeSavings& savings = first.build.savings;
  EXPECT_GT(savings.num_gradients, 0);
  EXPECT_LT(savings.bytes_after, savings.bytes_before);
}

TEST_F(CompressedExchange, GoesOnBitwiseOnAsManyRanks) {
  for (const char* compression : {"topk:0.05", "powersgd:2"}) {
    const TrainConfig config = with_checkpoints(compression);
    const TrainResult whole = run_on(two_, config)[0];
    TrainResult resumed;
    EXPECT_THAT(resume(two_, config, resumed), Not(HasSubstr("compressed otherwise")));
    ASSERT_EQ(resumed.resumed_from, 5);
    EXPECT_EQ(resumed.losses, std::vector(whole.losses.begin() + 5, whole.losses.end()));
    fs::remove_all(folder_);
  }
}

TEST_F(CompressedExchange, OtherRanksBeginWithTheMeanOfWhatWasNotSent) {
  const TrainConfig config = with_checkpoints("topk:0.05");
  run_on(two_, config);
  const Checkpoint before = read_checkpoint(folder_.string(), 5);
  TrainResult result;
  EXPECT_THAT(resume(ir::Mesh({{"data", 3}}), config, result),
              HasSubstr("go on as their mean over ranks, 0 begin with zeros, 0 are dropped"));
  EXPECT_EQ(result.resumed_from, 5);
  int num_residuals = 0;
  for (const auto& [name, value] : before.states) {
    if (!name.starts_with("exchange.")) continue;
    ++num_residuals;
    EXPECT_EQ(value.type().shape[0], 2) << name;
  }
  EXPECT_GT(num_residuals, 4);
}

TEST_F(CompressedExchange, GoesOnWithoutAndWithWhatWasNotThere) {
  run_on(two_, with_checkpoints("topk:0.05"));
  TrainResult result;
  EXPECT_THAT(resume(two_, with_checkpoints("none"), result),
              HasSubstr("0 tensors go on as their mean over ranks, 0 begin with zeros, "));
  EXPECT_THAT(resume(two_, with_checkpoints("powersgd:2"), result), HasSubstr("begin with zeros"));
  EXPECT_EQ(result.resumed_from, 5);
}

TEST_F(CompressedExchange, MeansAreKeptToTheElement) {
  Checkpoint checkpoint;
  const std::string name = "exchange.residual.data.w";
  checkpoint.states[name] = ir::Literal::from_f32({2, 2, 1}, {1, 10, 3, -10});
  session::Session session{session::SessionConfig{}};
  session.set_state(name, ir::Literal({ir::DType::kF32, {3, 2, 1}}));
  EXPECT_THAT(fit_exchange_states(session, checkpoint), HasSubstr("1 tensors go on as their mean"));
  EXPECT_EQ(checkpoint.states[name], ir::Literal::from_f32({3, 2, 1}, {2, 0, 2, 0, 2, 0}));
  EXPECT_EQ(fit_exchange_states(session, checkpoint), "");
}

TEST_F(CompressedExchange, RefusesWhatCannotBe) {
  const auto refusal = [&](const ir::Mesh& mesh, const TrainConfig& config) {
    return message_of([&] { run_on(mesh, config); });
  };
  EXPECT_THAT(refusal(ir::Mesh({{"fsdp", 2}}), tiny("powersgd:2")),
              HasSubstr("which a low-rank factor needs whole: use qsgd or topk"));
  TrainConfig config = tiny("topk:0.1");
  config.loss_scale = "dynamic";
  EXPECT_THAT(refusal(two_, config), HasSubstr("--compress topk:0.1 with --loss-scale dynamic"));
  config = tiny("topk:0.1");
  config.options.backend = "cuda";
  EXPECT_THAT(refusal(two_, config), HasSubstr("op top_k runs on CPUs only"));
  config = tiny("qsgd:4");
  config.options.backend = "cuda";
  EXPECT_THAT(refusal(ir::Mesh({{"fsdp", 2}}), config), HasSubstr("all_to_all runs on CPUs only"));
  EXPECT_THAT(message_of([&] { run(tiny("qsgd:4"), nullptr); }),
              HasSubstr("--compress qsgd:4 on one rank"));
}

}  // namespace
}  // namespace monograph::train
