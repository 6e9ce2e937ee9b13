#include "train/metrics.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"

namespace monograph::train {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Metrics, CountsWhatTheLogIsGiven) {
  const std::string path = testing::TempDir() + "/metrics.prom";
  Metrics metrics(path, 3, 1e10);
  EXPECT_THAT(content_of(path), HasSubstr("monograph_steps_total{rank=\"3\"} 0\n"));
  EventLog events;  // writes no file: metrics need none
  metrics.watch(events);
  events.write(EventLevel::kInfo, EventCategory::kCompile, "compile",
               {{"frame_key", std::string_view("train_step#1")},
                {"product_flops", 4e9},
                {"kernels", int64_t{5}},
                {"kernels_from_cache", int64_t{2}},
                {"fused_kernels", int64_t{4}},
                {"fused_share", 0.5},
                {"ns", int64_t{2'000'000'000}}});
  events.write(EventLevel::kInfo, EventCategory::kCompile, "recompile", {});
  events.write(EventLevel::kInfo, EventCategory::kCompile, "compile_timeout", {});
  events.write(EventLevel::kDebug, EventCategory::kCompile, "swap_in", {});  // not of its level
  for (int64_t i = 1; i <= 100; ++i) {
    events.write(EventLevel::kInfo, EventCategory::kRun, "step",
                 {{"ns", i * 10'000'000}, {"loss", 1.0 / static_cast<double>(i)}});
  }
  metrics.write();
  const std::string text = content_of(path);
  for (const char* line :
       {"# TYPE monograph_cache_misses_total counter\n", "cache_misses_total{rank=\"3\"} 3\n",
        "fused_share{rank=\"3\"} 0.5\n", "compile_seconds_total{rank=\"3\"} 2\n",
        "recompiles_total{rank=\"3\"} 1\n", "compile_timeouts_total{rank=\"3\"} 1\n",
        "swap_ins_total{rank=\"3\"} 0\n", "steps_total{rank=\"3\"} 100\n",
        "product_flops_per_second{rank=\"3\"} 4000000000\n", "mfu{rank=\"3\"} 0.4\n",
        "loss{rank=\"3\"} 0.01\n", "step_seconds{rank=\"3\",quantile=\"0.99\"} 0.99\n",
        "step_seconds_sum{rank=\"3\"} 50.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, WithoutAPeakNothingIsSaidOfItsShare) {
  const Metrics metrics(testing::TempDir() + "/metrics.prom", 0);
  EXPECT_THAT(metrics.text(), HasSubstr("product_flops_per_second"));
  EXPECT_THAT(metrics.text(), Not(HasSubstr("mfu")));
}

TEST(Metrics, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(Metrics("/nowhere/metrics", 0), UserError);
}

}  // namespace
}  // namespace monograph::train
