#include <gtest/gtest.h>

#include <filesystem>

#include "diagnose/source.h"

// Two ranks on two GPUs with a planted fault each, recorded with PyTorch 2.11 and NCCL 2.28: flight
// recorder dumps in both formats, the logs, and what RAS said shortly before the watchdog. See
// tests/diagnose/hang.
namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;

struct Answer {
  std::string code;  // empty: clean
  std::vector<int> ranks;
};

struct Case {
  const char* folder;
  Answer dumps;
  Answer logs;
  Answer ras;
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.folder;
}

class RecordedHang : public testing::TestWithParam<Case> {
 protected:
  static void expect(std::vector<std::string> files, const Answer& answer) {
    for (std::string& file : files) {
      file = (fs::path(MONOGRAPH_SOURCE_DIR) / "tests" / "diagnose" / "hang" / GetParam().folder /
              file)
                 .string();
      ASSERT_TRUE(fs::exists(file)) << file;
    }
    Report report = diagnose_paths(files, "test");
    EXPECT_EQ(exit_status(report), answer.code.empty() ? 0 : 1);
    if (answer.code.empty()) {
      for (const Finding& finding : report.findings)
        ADD_FAILURE() << files[0] << ": " << finding.what;
      return;
    }
    ASSERT_FALSE(report.findings.empty()) << files[0];
    EXPECT_EQ(report.findings[0].code, answer.code) << files[0] << ": " << report.findings[0].what;
    EXPECT_EQ(report.findings[0].where.ranks, answer.ranks)
        << files[0] << ": " << report.findings[0].what;
  }
};

TEST_P(RecordedHang, PickledDumps) {
  expect({"nccl_trace_rank_0", "nccl_trace_rank_1"}, GetParam().dumps);
}
TEST_P(RecordedHang, JsonDumps) {
  expect({"rank_0.json", "rank_1.json"}, GetParam().dumps);
}
TEST_P(RecordedHang, Logs) {
  expect({"log_rank_0.txt", "log_rank_1.txt"}, GetParam().logs);
}
TEST_P(RecordedHang, RasText) {
  expect({"ras.txt"}, GetParam().ras);
}
TEST_P(RecordedHang, RasJson) {
  expect({"ras.json"}, GetParam().ras);
}

// With everything together the answer is that of the dumps, once.
TEST_P(RecordedHang, OneAnswerFromAllOfIt) {
  expect({"nccl_trace_rank_0", "nccl_trace_rank_1", "rank_0.json", "rank_1.json", "ras.txt"},
         GetParam().dumps);
}

const Answer kMismatch{"hang_mismatch", {0, 1}};  // of two ranks neither is the majority
const Answer kCycle{"hang_cycle", {0, 1}};
const Answer kNothing{};

INSTANTIATE_TEST_SUITE_P(
    Faults, RecordedHang,
    testing::Values(
        Case{"healthy", kNothing, kNothing, kNothing},
        Case{"skipped",
             {"hang_missing_rank", {1}},
             {"hang_missing_rank", {1}},
             {"ranks_behind", {1}}},
        Case{"other_operation", kMismatch, kMismatch, {"ranks_behind", {1}}},
        Case{"other_size", kMismatch, kMismatch, {"ranks_behind", {0}}},
        Case{"other_dtype", kMismatch, kMismatch, kNothing},
        Case{"both_receive", kCycle, kCycle, kNothing},
        // RAS counts launches, and the stuck rank has launched.
        Case{"stuck_kernel", {"hang_stall", {}}, {"hang_stall", {}}, kNothing},
        // Each log knows its own rank's wait only: the first watchdog took the job down.
        Case{"other_order", kCycle, {"hang_missing_rank", {1}}, kCycle}),
    [](const auto& test) { return test.param.folder; });

}  // namespace
}  // namespace monograph::diagnose
