// Training on ranks that are threads of this process.
#include <gmock/gmock.h>
#include <omp.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "comm/threads/thread_world.h"
#include "train/trainer.h"

namespace monograph::train {
namespace {

using ::testing::HasSubstr;

TrainConfig tiny() {
  TrainConfig config;
  config.model = {.name = "gpt-nano",
                  .num_layers = 2,
                  .num_heads = 2,
                  .embedding = 32,
                  .block = 16,
                  .batch = 42};
  config.data_path = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/text.txt";
  config.num_steps = 20;
  config.eval_every = 10;
  config.num_eval_batches = 2;
  config.sample_length = 4;
  config.is_quiet = true;
  return config;
}

TrainResult run(TrainConfig config, std::shared_ptr<const runtime::MeshContext> mesh = nullptr) {
  EventLog events;
  const std::atomic<bool> interrupted = false;
  config.mesh = std::move(mesh);
  return train(config, events, stdout, interrupted);
}

std::vector<TrainResult> run_on(int num_ranks, const TrainConfig& config = tiny()) {
  std::vector<TrainResult> results(num_ranks);
  comm::run_ranks(num_ranks, [&](comm::World& world) {
    omp_set_num_threads(1);
    results[world.rank] =
        run(config, runtime::make_mesh_context(ir::Mesh({{"data", num_ranks}}), world));
  });
  return results;
}

class DistributedTrainer : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DistributedTrainer, testing::Values(2, 3, 7));

TEST_P(DistributedTrainer, LossesAreThoseOfOneRank) {
  const TrainResult one = run(tiny());
  const std::vector<TrainResult> all = run_on(GetParam());
  ASSERT_EQ(all[0].losses.size(), one.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(all[0].losses[i] / one.losses[i], 1, 1e-4) << "step " << i;
  }
  EXPECT_NEAR(all[0].validation_loss / one.validation_loss, 1, 1e-4);
  for (const TrainResult& rank : all) {
    EXPECT_EQ(rank.losses, all[0].losses);
    EXPECT_EQ(rank.build.num_copies, one.build.num_copies);
  }
  EXPECT_EQ(run_on(GetParam())[0].losses, all[0].losses);
}

TEST(DistributedTrainer, ReportsTheExchange) {
  const TrainResult first = run_on(2)[0];
  const ExchangeReport& exchange = first.exchange;
  EXPECT_EQ(exchange.num_ranks, 2);
  EXPECT_EQ(exchange.transport, "threads");
  EXPECT_GT(first.build.num_buckets, 0);
  EXPECT_EQ(exchange.rows.size(), static_cast<size_t>(first.build.num_collectives));
  EXPECT_GT(exchange.communication_ms, 0);
  EXPECT_GE(exchange.overlap(), 0);
  EXPECT_LE(exchange.overlap(), 1);
  double exposed = 0;
  for (const ExchangeRow& row : exchange.rows) {
    EXPECT_GT(row.predicted_ms, 0);
    exposed += row.measured_exposed_ms;
  }
  EXPECT_DOUBLE_EQ(exposed, exchange.exposed_ms);
  EXPECT_THAT(to_json(first.build, first.run, exchange), HasSubstr("\"exchange\":{\"ranks\":2"));
}

TEST_P(DistributedTrainer, DropoutIsThatOfOneRank) {
  TrainConfig config = tiny();
  config.model.dropout = 0.3;
  config.num_steps = 10;
  const TrainResult one = run(config);
  config.num_micro_batches = GetParam() == 3 ? 2 : 1;
  const TrainResult all = run_on(GetParam(), config)[0];
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(all.losses[i] / one.losses[i], 1, 1e-4) << "step " << i;
  }
}

TEST(DistributedTrainer, GoesOnOnAnotherNumberOfRanks) {
  TrainConfig config = tiny();
  config.model.dropout = 0.3;
  config.num_steps = 10;
  config.checkpoint_folder =
      (std::filesystem::temp_directory_path() / fmt::format("ranks-{}", getpid())).string();
  config.checkpoint_every = 4;
  const TrainResult whole = run_on(2, config)[0];
  for (const int64_t step : {8, 10}) {
    std::filesystem::remove(fmt::format("{}/step-{}.json", config.checkpoint_folder, step));
  }
  config.resume = true;
  const TrainResult resumed = run_on(3, config)[0];
  std::filesystem::remove_all(config.checkpoint_folder);
  ASSERT_EQ(resumed.resumed_from, 4);
  for (size_t i = 0; i < resumed.losses.size(); ++i) {
    EXPECT_NEAR(resumed.losses[i] / whole.losses[i + 4], 1, 1e-4) << "step " << i + 4;
  }
}

// Of 8 rows, 3 ranks have 3, 3 and 2; 7 ranks have 2 each, but three of them none.
TEST_P(DistributedTrainer, UnevenPartsCountByTheirTargets) {
  TrainConfig config = tiny();
  config.model.batch = GetParam() == 2 ? 7 : 8;
  const TrainResult one = run(config);
  const TrainResult all = run_on(GetParam(), config)[0];
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(all.losses[i] / one.losses[i], 1, 1e-4) << "step " << i;
  }
  EXPECT_NEAR(all.validation_loss / one.validation_loss, 1, 1e-4);
}

TEST(DistributedTrainer, UnevenPartsAccumulateToo) {
  TrainConfig config = tiny();
  config.model.batch = 7;
  config.num_steps = 10;
  const TrainResult one = run(config);
  config.num_micro_batches = 2;
  const TrainResult all = run_on(2, config)[0];
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(all.losses[i] / one.losses[i], 1, 1e-4) << "step " << i;
  }
}

TEST(DistributedTrainer, RefusesABatchOfFewerRowsThanRanks) {
  TrainConfig config = tiny();
  config.model.batch = 1;
  try {
    run_on(2, config);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--batch 1 on 2 ranks: use one row a rank or more"));
  }
}

}  // namespace
}  // namespace monograph::train
