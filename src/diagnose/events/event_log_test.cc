#include "diagnose/events/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/event.h"
#include "diagnose/source.h"

namespace monograph::diagnose {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

class EventLogs : public testing::Test {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::path(testing::TempDir()) / ("diagnose_events_" + test);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // What a run writes: one compilation, then steps.
  void write_rank(std::int64_t rank, std::string_view hash, std::int64_t step_ns,
                  double last_loss = 1.0) {
    EventLog log((folder_ / ("events_rank_" + std::to_string(rank) + ".jsonl")).string(),
                 parse_event_levels("info"), rank);
    log.write(
        EventLevel::kInfo, EventCategory::kCompile, "compile",
        {{"graph_hash", hash}, {"kernels", std::int64_t{12}}, {"ns", std::int64_t{5'000'000}}});
    for (std::int64_t step = 1; step <= 40; ++step) {
      log.write(EventLevel::kInfo, EventCategory::kRun, "step",
                {{"step", step}, {"loss", step == 40 ? last_loss : 2.0}, {"ns", step_ns}});
    }
  }

  Report diagnose() { return diagnose_paths({folder_.string()}, "test"); }

  fs::path folder_;
};

TEST_F(EventLogs, HealthyRanksAreClean) {
  for (int rank = 0; rank < 4; ++rank) write_rank(rank, "abc", 10'000'000 + rank * 1000);
  const Report report = diagnose();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(exit_status(report), 0);
  EXPECT_EQ(report.files_read, 4);
}

TEST_F(EventLogs, AnotherGraphOnOneRank) {
  for (int rank = 0; rank < 4; ++rank) write_rank(rank, rank == 2 ? "xyz" : "abc", 10'000'000);
  const Report report = diagnose();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "hash_mismatch");
  EXPECT_THAT(report.findings[0].where.ranks, ElementsAre(2));
}

TEST_F(EventLogs, NamesTheFirstNodeThatDiffers) {
  for (int rank = 0; rank < 3; ++rank) {
    EventLog log((folder_ / ("rank" + std::to_string(rank) + ".jsonl")).string(),
                 parse_event_levels("info,graph=trace"), rank);
    std::int64_t id = 0;
    for (const char* op : {"input", "mm", rank == 1 ? "sigmoid" : "silu", "sum"}) {
      log.write(EventLevel::kTrace, EventCategory::kGraph, "node",
                {{"frame_key", "step#1"},
                 {"id", id++},
                 {"op", op},
                 {"type", "f32[8]"},
                 {"file", "/job/model.cc"},
                 {"line", std::int64_t{12}}});
    }
    log.write(EventLevel::kInfo, EventCategory::kCompile, "compile",
              {{"frame_key", "step#1"}, {"graph_hash", rank == 1 ? "xyz" : "abc"}});
  }
  const Report report = diagnose();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_THAT(report.findings[0].why,
              HasSubstr("first differ at node 2: rank 1 has sigmoid f32[8] (model.cc:12), ranks 0, "
                        "2 silu f32[8] (model.cc:12)"));
}

TEST_F(EventLogs, ARunStartedAgainIsNoConflict) {
  for (int rank = 0; rank < 2; ++rank) write_rank(rank, "abc", 10'000'000);
  write_rank(1, "abc", 10'000'000);
  EXPECT_TRUE(diagnose().findings.empty());
}

TEST_F(EventLogs, SlowRank) {
  for (int rank = 0; rank < 4; ++rank) write_rank(rank, "abc", rank == 1 ? 20'000'000 : 10'000'000);
  const Report report = diagnose();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_THAT(report.findings[0].what, HasSubstr("rank 1 takes 20.0 ms a step, the others 10.0"));
}

TEST_F(EventLogs, LossThatIsNoNumber) {
  write_rank(0, "abc", 10'000'000, std::numeric_limits<double>::quiet_NaN());
  const Report report = diagnose();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "loss_not_finite");
  EXPECT_THAT(report.findings[0].what, HasSubstr("at step 40"));
}

TEST_F(EventLogs, RecompilesAreCounted) {
  {
    EventLog log((folder_ / "events.jsonl").string(), parse_event_levels("info"));
    for (int i = 0; i < 3; ++i) {
      log.write(EventLevel::kInfo, EventCategory::kCompile, "recompile",
                {{"frame_key", "step@a.cc:4"}, {"recompile_reason", "dim 0 of x: 8, got 6"}});
    }
  }
  std::ofstream(folder_ / "events.jsonl", std::ios::app) << "{\"time_ns\":1,\"lev\n";
  const Report report = diagnose();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "recompile");
  EXPECT_EQ(report.findings[0].count, 3);
  EXPECT_THAT(report.findings[0].what, HasSubstr("dim 0 of x"));
}

}  // namespace
}  // namespace monograph::diagnose
