#include "runtime/cpu/top_k.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace monograph::runtime {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> largest(const std::vector<float>& x, int64_t k) {
  std::vector<float> values(k);
  std::vector<int32_t> indices(k);
  TopK().run(x, k, values.data(), indices.data());
  for (int64_t i = 0; i < k; ++i) {
    const float expected = x[indices[i]];
    EXPECT_TRUE(values[i] == expected || std::isnan(expected));
  }
  return indices;
}

TEST(TopKTest, EqualOnesComeInTheirOrderAndNanFirst) {
  EXPECT_THAT(largest({1, 3, 2, 3, -1}, 3), ElementsAre(1, 3, 2));
  EXPECT_THAT(largest({0.0F, -0.0F, 0.0F}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(largest({1, NAN, INFINITY, -NAN}, 3), ElementsAre(1, 3, 2));
  EXPECT_THAT(largest({-INFINITY, -2, -3}, 2), ElementsAre(1, 2));
}

TEST(TopKTest, IsWhatSortingGives) {
  std::mt19937 random(3);
  for (const int64_t count : {1, 7, 1000, 40000}) {
    std::vector<float> x(count);
    std::normal_distribution<float> normal;
    // Rounded, so that many are equal.
    for (float& value : x) value = std::round(normal(random) * 100) / 100;
    std::vector<int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
    for (const int64_t k : {int64_t{1}, count / 3 + 1, count}) {
      EXPECT_EQ(largest(x, k), std::vector(order.begin(), order.begin() + k)) << count << " " << k;
    }
  }
}

}  // namespace
}  // namespace monograph::runtime
