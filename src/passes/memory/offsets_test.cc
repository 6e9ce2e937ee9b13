#include "passes/memory/offsets.h"

#include <gtest/gtest.h>

#include <random>

namespace monograph::passes {
namespace {

void expect_sound(const std::vector<Lifetime>& buffers, const OffsetPlan& plan) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_LE(plan.offsets[i] + buffers[i].num_bytes, plan.peak_bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool together =
          buffers[i].begin <= buffers[j].end && buffers[j].begin <= buffers[i].end;
      const bool apart = plan.offsets[i] + buffers[i].num_bytes <= plan.offsets[j] ||
                         plan.offsets[j] + buffers[j].num_bytes <= plan.offsets[i];
      EXPECT_TRUE(!together || apart) << i << " and " << j << " overlap";
    }
  }
}

TEST(Offsets, BuffersOfDifferentTimesShareMemory) {
  const std::vector<Lifetime> buffers = {{100, 0, 1}, {100, 2, 3}, {50, 1, 2}};
  const OffsetPlan plan = assign_offsets(buffers);
  expect_sound(buffers, plan);
  EXPECT_EQ(plan.bound_bytes, 150);
  EXPECT_EQ(plan.peak_bytes, 150);
}

TEST(Offsets, StaysNearTheBoundOnRandomLifetimes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<Lifetime> buffers;
    for (int i = 0; i < 120; ++i) {
      const int begin = static_cast<int>(random() % 200);
      buffers.push_back({static_cast<int64_t>(256 * (1 + random() % 64)), begin,
                         begin + static_cast<int>(random() % 30)});
    }
    const OffsetPlan plan = assign_offsets(buffers);
    expect_sound(buffers, plan);
    EXPECT_LE(plan.peak_bytes, plan.bound_bytes * 1.15);
  }
}

}  // namespace
}  // namespace monograph::passes
