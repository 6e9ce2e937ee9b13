#include "diagnose/compile/rank_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace monograph::diagnose {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CompileFacts rank_log(int rank, std::string config, std::string version = "2.11.0") {
  CompileFacts facts;
  facts.path = "/logs/trace.log";
  facts.rank = rank;
  facts.settings["inductor_config"] = std::move(config);
  facts.versions["pytorch"] = std::move(version);
  return facts;
}

Report compare(const std::vector<CompileFacts>& logs) {
  CompileJob job;
  for (const CompileFacts& log : logs) {
    job.logs.push_back(&log);
    job.log_ranks.push_back(log.rank);
    job.ranks.insert(log.rank);
  }
  Report report;
  compare_settings(job, report);
  return report;
}

TEST(RankSettings, OrderOfListsAndFoldersMayDiffer) {
  EXPECT_TRUE(setting_changes(R"({"names": ["b", "a"], "cache_dir": "/x/0", "n": 1})",
                              R"({"names": ["a", "b"], "cache_dir": "/x/1", "n": 1})")
                  .empty());
  EXPECT_TRUE(setting_changes("no json", "{").empty());
}

TEST(RankSettings, OneRankWithAnotherOption) {
  const Report report =
      compare({rank_log(0, R"({"max_autotune": false})"), rank_log(1, R"({"max_autotune": false})"),
               rank_log(2, R"({"max_autotune": true})")});
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "settings_mismatch");
  EXPECT_THAT(report.findings[0].where.ranks, ElementsAre(2));
  EXPECT_THAT(report.findings[0].what, HasSubstr("max_autotune"));
  EXPECT_EQ(report.findings[0].evidence[0], "max_autotune: false elsewhere, true here");
}

TEST(RankSettings, OneRankWithAnotherVersion) {
  const Report report = compare(
      {rank_log(0, "{}"), rank_log(1, "{}", "2.10.0"), rank_log(2, "{}"), rank_log(3, "{}")});
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "version_mismatch");
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_THAT(report.findings[0].why, HasSubstr("rank 1: 2.10.0; ranks 0, 2, 3: 2.11.0"));
}

}  // namespace
}  // namespace monograph::diagnose
