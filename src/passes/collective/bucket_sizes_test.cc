#include "passes/collective/bucket_sizes.h"

#include <gmock/gmock.h>

#include "base/philox.h"
#include "passes/memory/place_states.h"

namespace monograph::passes {
namespace {

using ::testing::ElementsAre;

constexpr ir::LinkModel kLink = {.latency_s = 1e-6, .bytes_per_s = 4096e6};  // half at one page
constexpr int64_t kPage = kPageBytes;

TEST(BucketRanges, CutAtPagesOfTensorsAndLeaveASmallTail) {
  // Ten tensors of three pages and a bit: nine pages a bucket, one page for the tail.
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i <= 10; ++i) offsets.push_back(i * (3 * kPage + 256));
  EXPECT_THAT(bucket_ranges(offsets, kLink),
              ElementsAre(BucketRange{0, 9 * kPage}, BucketRange{9 * kPage, 18 * kPage},
                          BucketRange{18 * kPage, 27 * kPage},
                          BucketRange{27 * kPage, 10 * (3 * kPage + 256)}));
}

TEST(BucketRanges, ALargeTensorIsSentWhole) {
  EXPECT_THAT(bucket_ranges({0, 2 * kPage, 102 * kPage, 104 * kPage}, kLink),
              ElementsAre(BucketRange{0, 102 * kPage}, BucketRange{102 * kPage, 104 * kPage}));
}

TEST(BucketRanges, LittleIsOneBucket) {
  EXPECT_THAT(bucket_ranges({0, 100, 200}, kLink), ElementsAre(BucketRange{0, 200}));
}

TEST(BucketRanges, NoneIsEmptyWithoutLatency) {
  const ir::LinkModel link = {.latency_s = 0, .bytes_per_s = 1e9};
  EXPECT_THAT(bucket_ranges({0, 2 * kPage, 4 * kPage}, link),
              ElementsAre(BucketRange{0, 2 * kPage}, BucketRange{2 * kPage, 4 * kPage}));
}

TEST(BucketRanges, AnySizesAreCoveredOnceByWholePages) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::vector<int64_t> offsets = {0};
    const int num_tensors = 1 + static_cast<int>(philox_uniform(seed, 0, 1, 0) * 40);
    for (int i = 0; i < num_tensors; ++i) {
      const double u = philox_uniform(seed, 0, 2, i);
      offsets.push_back(offsets.back() + 256 * (1 + static_cast<int64_t>(u * u * u * 400)));
    }
    const std::vector<BucketRange> buckets = bucket_ranges(offsets, kLink);
    EXPECT_EQ(buckets.front().begin, 0);
    EXPECT_EQ(buckets.back().end, offsets.back());
    for (size_t i = 1; i < buckets.size(); ++i) {
      EXPECT_EQ(buckets[i].begin, buckets[i - 1].end);
      EXPECT_EQ(buckets[i].begin % kPageBytes, 0);
      EXPECT_GE(buckets[i - 1].end - buckets[i - 1].begin, kPage);
    }
    EXPECT_TRUE(buckets.size() == 1 || buckets.back().end - buckets.back().begin >= kPage);
  }
}

}  // namespace
}  // namespace monograph::passes
