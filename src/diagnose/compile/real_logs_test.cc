#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "diagnose/source.h"

// Real logs with known faults: see the README beside them.
namespace monograph::diagnose {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

class RealLogs : public testing::Test {
 protected:
  static Report diagnose(const std::string& path) {
    const fs::path full = fs::path(MONOGRAPH_SOURCE_DIR) / "../shared/data" / path;
    return diagnose_paths({full.string()}, "test");
  }

  void SetUp() override {
    const fs::path data = fs::path(MONOGRAPH_SOURCE_DIR) / "../shared/data/torch_trace";
    if (!fs::exists(data)) GTEST_SKIP() << "no real logs: " << data << " is missing";
  }

  // Every row of every table fits its heading.
  static void check_tables(const Report& report) {
    for (const Section& section : report.sections) {
      for (const Table& table : section.tables) {
        for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
      }
    }
  }

  static std::vector<const Finding*> with_code(const Report& report, const std::string& code) {
    std::vector<const Finding*> found;
    for (const Finding& finding : report.findings) {
      if (finding.code == code) found.push_back(&finding);
    }
    return found;
  }

  static std::int64_t num_faults(const Report& report) {
    return std::count_if(report.findings.begin(), report.findings.end(),
                         [](const Finding& f) { return f.severity != Severity::kNote; });
  }
};

TEST_F(RealLogs, FourRanksTrace) {
  const Report report = diagnose("torch_trace/four_ranks");
  EXPECT_EQ(num_faults(report), 2);
  check_tables(report);
  const auto graphs = with_code(report, "graph_mismatch");
  ASSERT_EQ(graphs.size(), 1u);
  EXPECT_THAT(graphs[0]->where.ranks, ElementsAre(2));
  EXPECT_EQ(graphs[0]->where.line, 11);
  EXPECT_THAT(graphs[0]->what, HasSubstr("ranks 0, 1, 3"));
  EXPECT_THAT(graphs[0]->why, HasSubstr("h.norm()"));
  const auto recompiles = with_code(report, "recompile");
  ASSERT_EQ(recompiles.size(), 1u);
  EXPECT_THAT(recompiles[0]->where.ranks, ElementsAre(1));
  EXPECT_THAT(recompiles[0]->what, HasSubstr("size of x at dimension 0: 8 -> 6"));
}

TEST_F(RealLogs, FourRanksText) {
  const Report report = diagnose("torch_logs/four_ranks");
  ASSERT_EQ(num_faults(report), 1);
  EXPECT_THAT(report.findings[0].what, HasSubstr("8 -> 6, on rank 1 only"));
}

TEST_F(RealLogs, ExecutionOrder) {
  const Report report = diagnose("torch_trace/tlparse/graph_exec_order");
  const auto orders = with_code(report, "execution_order_mismatch");
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "execution_order_mismatch");
  EXPECT_THAT(orders[0]->why, HasSubstr("execution 1 was graph [0/0] on rank 1, [0/1] on rank 0"));
  EXPECT_TRUE(with_code(report, "graph_mismatch").empty());
  EXPECT_EQ(exit_status(report), 1);
}

TEST_F(RealLogs, CollectiveSchedule) {
  const Report report = diagnose("torch_trace/tlparse/multi_rank_schedule");
  ASSERT_EQ(num_faults(report), 1);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.code, "collective_schedule_mismatch");
  EXPECT_THAT(finding.where.ranks, ElementsAre(1));
  EXPECT_THAT(finding.why, HasSubstr("ranks 0, 2 reduce_scatter_tensor"));
}

TEST_F(RealLogs, OneTornRecord) {
  const Report report = diagnose("torch_trace/tlparse/simple_corrupted_json.log");
  const auto torn = with_code(report, "torn_records");
  ASSERT_EQ(torn.size(), 1u);
  EXPECT_EQ(torn[0]->count, 1);
  EXPECT_EQ(exit_status(report), 0);
  EXPECT_TRUE(with_code(diagnose("torch_trace/tlparse/simple.log"), "torn_records").empty());
}

TEST_F(RealLogs, FailureAndCache) {
  const Report failed = diagnose("torch_trace/tlparse/comp_failure.log");
  ASSERT_EQ(num_faults(failed), 1);
  EXPECT_EQ(failed.findings[0].code, "compile_failed");
  EXPECT_THAT(failed.findings[0].what, HasSubstr("BackendCompilerFailed"));
  const Report cache = diagnose("torch_trace/tlparse/cache_hit_miss.log");
  EXPECT_EQ(num_faults(cache), 0);
  EXPECT_EQ(with_code(cache, "cache_bypass").size(), 1u);
}

// One process, logged as text and as a trace: each fault once.
TEST_F(RealLogs, Torch211) {
  for (const std::string file :
       {"torch_logs.txt", "dedicated_log_torch_trace_avh5fwup.log.gz", ""}) {
    const Report report = diagnose("torch_2.11/" + file);
    const auto breaks = with_code(report, "graph_break");
    ASSERT_EQ(breaks.size(), 1u) << file;
    EXPECT_EQ(breaks[0]->count, 4) << file;
    EXPECT_EQ(breaks[0]->where.line, 61);
    EXPECT_THAT(breaks[0]->advice, HasSubstr("print"));
    const auto recompiles = with_code(report, "recompile");
    ASSERT_EQ(recompiles.size(), 3u) << file;
    std::string all;
    for (const Finding* one : recompiles) all += one->what + "\n";
    EXPECT_THAT(all, HasSubstr("value of mode (was 'relu')"));
    EXPECT_THAT(all, HasSubstr("size of x at dimension 0: 8 -> 12"));
    EXPECT_THAT(all, HasSubstr("value of s.neg: False -> True"));
  }
}

TEST_F(RealLogs, AllArtifactsOfOneProcess) {
  const Report report = diagnose("torch_logs/s1_all_artifacts.txt");
  check_tables(report);
  EXPECT_EQ(with_code(report, "graph_break").size(), 2u);
  const auto limits = with_code(report, "recompile_limit");
  ASSERT_EQ(limits.size(), 1u);
  EXPECT_EQ(&report.findings[0], limits[0]);
  EXPECT_THAT(limits[0]->what, HasSubstr("'' -> 'x' -> 'xx'"));
  std::string all;
  for (const Finding* one : with_code(report, "recompile")) all += one->what + "\n";
  for (const std::string part :
       {"block (s1.py:4) recompiled: size of x at dimension 0: 4 -> 5", "value of k (was 0.5)",
        "dtype of x: Float -> Double", "grad mode", "stride of x at dimension 0: 8 -> 1",
        "requires_grad of x: False -> True"}) {
    EXPECT_THAT(all, HasSubstr(part));
  }
}

TEST_F(RealLogs, FoldersOfTwoHostsAreOneJob) {
  const fs::path data = fs::path(MONOGRAPH_SOURCE_DIR) / "../shared/data/torch_trace/four_ranks";
  const fs::path logs = fs::path(testing::TempDir()) / "two_hosts";
  for (const auto& file : fs::directory_iterator(data)) {
    if (!file.path().string().ends_with(".log")) continue;
    const std::string name = file.path().filename().string();
    const bool is_low = name.find("rank_0") != name.npos || name.find("rank_1") != name.npos;
    const fs::path folder = logs / (is_low ? "nodeA" : "nodeB") / "trace";
    fs::create_directories(folder);
    fs::copy_file(file.path(), folder / name, fs::copy_options::overwrite_existing);
  }
  const Report report = diagnose_paths({logs.string()}, "test");
  fs::remove_all(logs);
  EXPECT_EQ(num_faults(report), 2);
  const auto graphs = with_code(report, "graph_mismatch");
  ASSERT_EQ(graphs.size(), 1u);
  EXPECT_THAT(graphs[0]->where.ranks, ElementsAre(2));
}

}  // namespace
}  // namespace monograph::diagnose
