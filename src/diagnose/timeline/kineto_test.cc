#include "diagnose/timeline/kineto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "base/error.h"
#include "diagnose/timeline/overlap.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;

const fs::path kData = fs::path(MONOGRAPH_SOURCE_DIR) / ".." / "shared" / "data";

std::string read_gz(const fs::path& path) {
  std::string out;
  gzFile file = gzopen(path.c_str(), "rb");
  char buffer[65536];
  for (int count; (count = gzread(file, buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<size_t>(count));
  gzclose(file);
  return out;
}

Timeline read_text(const std::string& text, size_t piece = 1 << 20) {
  size_t at = 0;
  auto read = [&](char* buffer, size_t capacity) {
    size_t count = text.copy(buffer, std::min(capacity, piece), at);
    at += count;
    return count;
  };
  return read_kineto("test.json", read);
}

struct Exact {
  const char* file;
  double percent;
};

class RealTraces : public testing::TestWithParam<Exact> {};

// The figures are those of exact_overlap_reference.py on the same files.
TEST_P(RealTraces, OverlapIsExact) {
  fs::path path = kData / "kineto" / GetParam().file;
  if (!fs::exists(path)) GTEST_SKIP() << "missing " << path;
  std::string text = read_gz(path);
  Timeline timeline = read_text(text);
  Overlap overlap = total_overlap(timeline);
  EXPECT_NEAR(overlap.over_communication(), GetParam().percent, 0.001);
  EXPECT_EQ(timeline.rank, 0);
  EXPECT_EQ(timeline.num_skipped, 0);
  EXPECT_FALSE(timeline.is_truncated);
  // Any cut of the stream gives the same.
  Timeline pieces = read_text(text, 4099);
  EXPECT_EQ(pieces.spans.size(), timeline.spans.size());
  EXPECT_EQ(total_overlap(pieces).both_ns, overlap.both_ns);
}

INSTANTIATE_TEST_SUITE_P(Files, RealTraces,
                         testing::Values(Exact{"hta_nccl_data_rank0of2.json.gz", 15.609},
                                         Exact{"hta_sampled_rank-0.json.gz", 14.946}));

}  // namespace
}  // namespace monograph::diagnose
