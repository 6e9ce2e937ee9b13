#include "launch/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace monograph::launch {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

LaunchOptions options_for(int64_t num_local) {
  LaunchOptions options;
  options.num_local = num_local;
  options.command = {"train"};
  return options;
}

TEST(PlanTest, DividesCoresAmongRanks) {
  const LaunchPlan plan = make_plan(options_for(3), environment_of({}), 8);
  EXPECT_EQ(plan.num_threads, 2);
  EXPECT_THAT(rank_environment(plan, 2), Contains(Pair("OMP_NUM_THREADS", "2")));
  EXPECT_THAT(rank_environment(plan, 2), Contains(Pair("RANK", "2")));
  EXPECT_THAT(rank_environment(plan, 2), Contains(Pair("WORLD_SIZE", "3")));
  EXPECT_EQ(make_plan(options_for(3), environment_of({{"OMP_NUM_THREADS", "7"}}), 8).num_threads,
            0);
}

TEST(PlanTest, MakesASecretForOneHost) {
  const LaunchPlan plan = make_plan(options_for(2), environment_of({}), 2);
  EXPECT_EQ(plan.token.size(), 32u);
  EXPECT_NE(plan.token, make_plan(options_for(2), environment_of({}), 2).token);
}

TEST(PlanTest, TakesHostsFromSlurm) {
  const Environment environment = environment_of({{"SLURM_NNODES", "4"},
                                                  {"SLURM_NODEID", "2"},
                                                  {"MASTER_ADDR", "10.0.0.1"},
                                                  {"MASTER_PORT", "29500"},
                                                  {"MONOGRAPH_JOB_TOKEN", "secret"}});
  const LaunchPlan plan = make_plan(options_for(8), environment, 64);
  EXPECT_EQ(plan.world_size(), 32);
  EXPECT_EQ(plan.first_rank(), 16);
  EXPECT_FALSE(plan.serves_store());
  const auto variables = rank_environment(plan, 1);
  EXPECT_THAT(variables, Contains(Pair("RANK", "17")));
  EXPECT_THAT(variables, Contains(Pair("MASTER_PORT", "29500")));
  EXPECT_THAT(variables, Contains(Pair("MONOGRAPH_STORE", "10.0.0.1:29501")));
}

TEST(PlanTest, RefusesWhatContradicts) {
  LaunchOptions options = options_for(2);
  options.num_hosts = 2;
  EXPECT_THAT(
      [&] {
        make_plan(options, environment_of({{"SLURM_NNODES", "3"}}), 2);
      },
      testing::ThrowsMessage<UserError>(HasSubstr("SLURM_NNODES=3")));
  EXPECT_THAT(
      [&] {
        make_plan(options_for(2), environment_of({{"LOCAL_RANK", "0"}}), 2);
      },
      testing::ThrowsMessage<UserError>(HasSubstr("itself a rank")));
  EXPECT_THAT(
      [&] {
        make_plan(options_for(2), environment_of({{"MASTER_PORT", "http"}}), 2);
      },
      testing::ThrowsMessage<UserError>(HasSubstr("MASTER_PORT='http'")));
}

}  // namespace
}  // namespace monograph::launch
