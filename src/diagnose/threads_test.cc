#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/event.h"
#include "diagnose/source.h"

// What a file says does not depend on how many threads read it, nor where it is cut for them.
namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;

const fs::path kSnippets = fs::path(MONOGRAPH_SOURCE_DIR) / "tests/diagnose";
const fs::path kData = fs::path(MONOGRAPH_SOURCE_DIR) / "../shared/data";

std::string report_of(const fs::path& path, const ReadOptions& options) {
  return to_json(diagnose_paths({path.string()}, "test", options));
}

void expect_same(const fs::path& path) {
  const std::string alone = report_of(path, {.num_threads = 1});
  for (const ReadOptions& options : {ReadOptions{.num_threads = 1, .piece_bytes = 100},
                                     ReadOptions{.num_threads = 4, .piece_bytes = 100},
                                     ReadOptions{.num_threads = 3, .piece_bytes = 5000}}) {
    EXPECT_EQ(report_of(path, options), alone)
        << path << " by " << options.num_threads << " threads, " << options.piece_bytes
        << " bytes a piece";
  }
}

TEST(Threads, ReadTextLogsAsOne) {
  std::string all;
  for (const auto& entry : fs::directory_iterator(kSnippets)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::stringstream whole;
    whole << in.rdbuf();
    const std::string text = whole.str();
    const std::size_t end = text.find("#---\n");
    if (end == std::string::npos) continue;
    const fs::path path = fs::path(testing::TempDir()) / "threads_text.log";
    std::ofstream(path, std::ios::binary) << text.substr(end + 5);
    expect_same(path);
    all += text.substr(end + 5);
  }
  const fs::path path = fs::path(testing::TempDir()) / "threads_text.log";
  std::ofstream(path, std::ios::binary) << all;
  expect_same(path);
  fs::remove(path);
}

TEST(Threads, ReadEventLogsAsOne) {
  const fs::path path = fs::path(testing::TempDir()) / "threads_events.jsonl";
  fs::remove(path);
  {
    EventLog log(path.string(), parse_event_levels("info"), 3);
    for (std::int64_t step = 1; step <= 500; ++step) {
      log.write(EventLevel::kInfo, EventCategory::kRun, "step",
                {{"step", step}, {"loss", step == 400 ? NAN : 2.0 - 0.001 * step}, {"ns", step}});
      if (step % 7 == 0) {
        log.write(EventLevel::kInfo, EventCategory::kCompile, "recompile",
                  {{"frame_key", "f"}, {"recompile_reason", step % 2 == 0 ? "even" : "odd"}});
      }
    }
  }
  expect_same(path);
  fs::remove(path);
}

TEST(Threads, ReadRealFilesAsOne) {
  if (!fs::exists(kData)) GTEST_SKIP() << "missing " << kData;
  for (const char* name :
       {"torch_trace/four_ranks", "torch_logs/four_ranks", "torch_trace/tlparse",
        "kineto/hta_sampled_rank-0.json.gz", "torch_2.11/kineto_3steps.json.gz", "hang_gloo"}) {
    const fs::path path = kData / name;
    const std::string alone = report_of(path, {.num_threads = 1});
    // More threads than files, so that each file is read by all.
    EXPECT_EQ(report_of(path, {.num_threads = 16, .piece_bytes = 1500}), alone) << name;
  }
}

}  // namespace
}  // namespace monograph::diagnose
