// gpt-nano on every kind of mesh against one rank: 50 steps, ranks that are threads.
#include <gmock/gmock.h>
#include <omp.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "comm/threads/thread_world.h"
#include "train/trainer.h"

namespace monograph::train {
namespace {

using nn::ShardStrategy;

struct Plan {
  std::vector<ir::Mesh::Axis> axes;
  ShardStrategy strategy = ShardStrategy::kFullShard;
  bool is_sequence_parallel = false;
  int64_t heads = 4;  // 6: sizes that 3 divides
  nn::PipelineSchedule schedule = nn::PipelineSchedule::k1F1B;
};

std::string name_of(const Plan& plan) {
  std::string name;
  for (const ir::Mesh::Axis& axis : plan.axes) name += fmt::format("{}{}_", axis.name, axis.size);
  if (plan.strategy == ShardStrategy::kShardGradOp) name += "shard_grad_op_";
  if (plan.strategy == ShardStrategy::kHybrid) name += "hybrid_";
  if (plan.is_sequence_parallel) name += "sequence_";
  if (plan.schedule == nn::PipelineSchedule::kInterleaved) name += "interleaved_";
  if (plan.schedule == nn::PipelineSchedule::kZeroBubble) name += "zero_bubble_";
  name.pop_back();
  return name;
}

TrainConfig config_of(int64_t heads) {
  TrainConfig config;
  config.model = {.name = "gpt-nano", .block = 32, .batch = 24};
  if (heads == 6) {
    config.model.num_heads = 6;
    config.model.embedding = 96;
    config.model.vocab = 258;
  }
  config.data_path = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/text.txt";
  config.num_steps = 50;
  config.eval_every = 0;
  config.num_eval_batches = 1;
  config.sample_length = 0;
  config.is_quiet = true;
  return config;
}

TrainResult run(TrainConfig config, std::shared_ptr<const runtime::MeshContext> mesh = nullptr) {
  EventLog events;
  const std::atomic<bool> interrupted = false;
  config.mesh = std::move(mesh);
  return train(config, events, stdout, interrupted);
}

std::vector<TrainResult> run_on(const Plan& plan, TrainConfig config) {
  config.strategy = plan.strategy;
  config.is_sequence_parallel = plan.is_sequence_parallel;
  config.pipeline.schedule = plan.schedule;
  const ir::Mesh mesh(plan.axes);
  std::vector<TrainResult> results(mesh.num_ranks());
  comm::run_ranks(static_cast<int>(mesh.num_ranks()), [&](comm::World& world) {
    omp_set_num_threads(1);
    results[world.rank] = run(config, runtime::make_mesh_context(mesh, world));
  });
  return results;
}

const TrainResult& one_rank(int64_t heads) {
  static std::map<int64_t, TrainResult> known;
  if (!known.contains(heads)) known[heads] = run(config_of(heads));
  return known.at(heads);
}

class MeshPlans : public testing::TestWithParam<Plan> {};

INSTANTIATE_TEST_SUITE_P(
    Of, MeshPlans,
    testing::Values(Plan{{{"dp", 2}}}, Plan{{{"dp", 3}}}, Plan{{{"dp", 7}}}, Plan{{{"dp", 8}}},
                    Plan{{{"fsdp", 2}}}, Plan{{{"fsdp", 3}}}, Plan{{{"fsdp", 7}}},
                    Plan{{{"fsdp", 2}}, ShardStrategy::kShardGradOp},
                    Plan{{{"dp", 2}, {"fsdp", 2}}, ShardStrategy::kHybrid},
                    Plan{{{"dp", 2}, {"fsdp", 4}}, ShardStrategy::kHybrid}, Plan{{{"tp", 2}}},
                    Plan{{{"tp", 4}}}, Plan{{{"tp", 3}}, {}, false, 6}, Plan{{{"tp", 2}}, {}, true},
                    Plan{{{"tp", 4}}, {}, true}, Plan{{{"dp", 2}, {"tp", 2}}},
                    Plan{{{"dp", 2}, {"tp", 4}}}, Plan{{{"fsdp", 2}, {"tp", 2}}},
                    Plan{{{"fsdp", 2}, {"tp", 2}}, ShardStrategy::kShardGradOp, true},
                    Plan{{{"fsdp", 4}, {"tp", 2}}},
                    Plan{{{"dp", 2}, {"fsdp", 2}, {"tp", 2}}, ShardStrategy::kHybrid}),
    [](const auto& test) { return name_of(test.param); });

TEST_P(MeshPlans, TrainsAsOneRank) {
  const Plan& plan = GetParam();
  const TrainResult& one = one_rank(plan.heads);
  const std::vector<TrainResult> all = run_on(plan, config_of(plan.heads));
  ASSERT_EQ(all[0].losses.size(), 50);
  double largest = 0;
  for (size_t i = 0; i < one.losses.size(); ++i) {
    largest = std::max(largest, std::abs(all[0].losses[i] / one.losses[i] - 1));
  }
  EXPECT_LT(largest, 1e-4);
  RecordProperty("largest_difference", fmt::format("{:.1e}", largest));
  EXPECT_NEAR(all[0].validation_loss / one.validation_loss, 1, 1e-4);
  for (const TrainResult& rank : all) EXPECT_EQ(rank.losses, all[0].losses);
}

// A smaller model and fewer steps: bench_comm_pipeline has the others.
class PipelinePlans : public testing::TestWithParam<Plan> {};

INSTANTIATE_TEST_SUITE_P(
    Of, PipelinePlans,
    testing::Values(Plan{{{"pp", 2}}, {}, false, 2, nn::PipelineSchedule::kInterleaved},
                    Plan{{{"pp", 4}}, {}, false, 2, nn::PipelineSchedule::kZeroBubble},
                    Plan{{{"pp", 2}, {"tp", 2}}, {}, true, 2, nn::PipelineSchedule::kZeroBubble},
                    Plan{{{"dp", 2}, {"pp", 4}}, {}, false, 2, nn::PipelineSchedule::kZeroBubble}),
    [](const auto& one) { return name_of(one.param); });

TEST_P(PipelinePlans, TrainAsOneRank) {
  TrainConfig config = config_of(4);
  config.model = {.name = "gpt-nano", .num_heads = 2, .embedding = 32, .block = 16, .batch = 16};
  config.num_steps = 6;
  config.num_micro_batches = 4;
  static const TrainResult one = run(config);
  const std::vector<TrainResult> all = run_on(GetParam(), config);
  ASSERT_EQ(all[0].losses.size(), 6);
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(all[0].losses[i] / one.losses[i], 1, 1e-4) << "step " << i;
  }
  EXPECT_NEAR(all[0].validation_loss / one.validation_loss, 1, 1e-4);
  for (const TrainResult& rank : all) EXPECT_EQ(rank.losses, all[0].losses);
  EXPECT_TRUE(all[0].build.pipeline.has_value());
}

// Masks are functions of the seed, the step and an element's place in the whole batch.
TEST(MeshPlans, DropTheSameElementsAsOneRank) {
  TrainConfig config = config_of(4);
  config.model.dropout = 0.3;
  config.model.num_layers = 2;
  config.num_steps = 10;
  const TrainResult one = run(config);
  for (const Plan& plan : {Plan{{{"tp", 2}}}, Plan{{{"tp", 2}}, {}, true},
                           Plan{{{"dp", 2}, {"tp", 2}}}, Plan{{{"fsdp", 2}, {"tp", 2}}}}) {
    const TrainResult all = run_on(plan, config)[0];
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(all.losses[i] / one.losses[i], 1, 1e-4) << name_of(plan) << " step " << i;
    }
  }
}

// A checkpoint is that of one rank, whatever the mesh that wrote it.
TEST(MeshPlans, GoOnOnAnotherMesh) {
  TrainConfig config = config_of(4);
  config.model.num_layers = 2;
  config.num_steps = 10;
  config.sample_length = 3;
  config.checkpoint_folder =
      (std::filesystem::temp_directory_path() / fmt::format("meshes-{}", getpid())).string();
  config.checkpoint_every = 4;
  const TrainResult whole = run_on({{{"fsdp", 2}, {"tp", 2}}}, config)[0];
  for (const Plan& plan : {Plan{{{"dp", 3}}}, Plan{{{"tp", 4}}}, Plan{{{"tp", 2}, {"dp", 2}}},
                           Plan{{{"pp", 2}, {"tp", 2}}}}) {
    for (const int64_t step : {8, 10}) {
      std::filesystem::remove(fmt::format("{}/step-{}.json", config.checkpoint_folder, step));
    }
    config.resume = true;
    const TrainResult resumed = run_on(plan, config)[0];
    ASSERT_EQ(resumed.resumed_from, 4);
    for (size_t i = 0; i < resumed.losses.size(); ++i) {
      EXPECT_NEAR(resumed.losses[i] / whole.losses[i + 4], 1, 1e-4) << "step " << i + 4;
    }
    EXPECT_EQ(resumed.sample, whole.sample);
  }
  std::filesystem::remove_all(config.checkpoint_folder);
}

}  // namespace
}  // namespace monograph::train
