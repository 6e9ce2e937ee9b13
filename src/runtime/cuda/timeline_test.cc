#include "runtime/cuda/timeline.h"

#include <gmock/gmock.h>

namespace monograph::runtime {
namespace {

GpuActivity activity(const std::string& name, int64_t start_ms, int64_t end_ms) {
  return {name, "kernel", start_ms * 1'000'000, end_ms * 1'000'000, 7, 0};
}

TEST(GpuTimeline, SummaryCountsTimeOnceAndFindsGaps) {
  GpuActivity early = activity("copy", -9, -8);
  early.category = "copy";
  const GpuSummary summary =
      summarize({early, activity("a", 0, 10), activity("b", 5, 12), activity("c", 6, 8),
                 activity("a", 15, 20), activity("d", 21, 22)});
  EXPECT_EQ(summary.num_activities, 6);
  EXPECT_DOUBLE_EQ(summary.window_ms, 22);
  EXPECT_DOUBLE_EQ(summary.busy_ms, 18);
  ASSERT_EQ(summary.longest_gaps.size(), 2u);
  EXPECT_DOUBLE_EQ(summary.longest_gaps[0].ms, 3);
  EXPECT_EQ(summary.longest_gaps[0].before, "b");
  EXPECT_EQ(summary.longest_gaps[0].after, "a");
  EXPECT_EQ(summary.rows[0].name, "a");
  EXPECT_EQ(summary.rows[0].num_calls, 2);
  EXPECT_DOUBLE_EQ(summary.rows[0].ms, 15);
  EXPECT_EQ(summarize({}).busy_share(), 0);
}

TEST(GpuTimeline, TellsExposedCommunicationFromHidden) {
  GpuActivity copy = activity("copy", 50, 70);  // hides nothing
  copy.category = "copy";
  const GpuSummary summary = summarize(
      {activity("gemm", 0, 10), activity("ncclDevKernel_AllReduce", 5, 20),
       activity("_Z23ncclDevKernel_AllGather4Args", 15, 30), activity("adamw", 25, 28), copy,
       activity("monograph_count", 50, 51), activity("ncclDevKernel_AllReduce", 50, 60)});
  EXPECT_DOUBLE_EQ(summary.communication_ms, 35);
  EXPECT_DOUBLE_EQ(summary.exposed_ms, 27);
}

TEST(GpuTimeline, TraceBeginsAtZero) {
  GpuActivity copy = activity("copy", 3, 4);
  copy.num_bytes = 5;
  const std::string json = to_trace_json({activity("a \"b\"", 1, 2), copy});
  EXPECT_THAT(json, testing::HasSubstr(R"("name":"a \"b\"")"));
  EXPECT_THAT(json, testing::HasSubstr(R"("ts":0.0)"));
  EXPECT_THAT(json, testing::HasSubstr(R"("ts":2000.0)"));
  EXPECT_THAT(json, testing::HasSubstr(R"("args":{"bytes":5})"));
}

}  // namespace
}  // namespace monograph::runtime
