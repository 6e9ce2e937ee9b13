#include "comm/element_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace monograph::comm {
namespace {

TEST(ElementTypeTest, AddsEachType) {
  std::vector<float> f = {1, 2};
  const std::vector<float> g = {0.5, -4};
  reduce_into(f.data(), g.data(), 2, ElementType::kF32, ReduceOp::kSum);
  EXPECT_EQ(f, (std::vector<float>{1.5, -2}));
  std::vector<uint8_t> u = {250, 3};
  const std::vector<uint8_t> v = {10, 4};
  reduce_into(u.data(), v.data(), 2, ElementType::kU8, ReduceOp::kSum);
  EXPECT_EQ(u, (std::vector<uint8_t>{4, 7}));
  std::vector<int64_t> i = {std::numeric_limits<int64_t>::max()};
  const std::vector<int64_t> j = {1};
  reduce_into(i.data(), j.data(), 1, ElementType::kI64, ReduceOp::kSum);
  EXPECT_EQ(i[0], std::numeric_limits<int64_t>::min());
}

TEST(ElementTypeTest, RoundsHalfTypesToNearestEven) {
  // 256 + 1 lies halfway between the bf16 numbers 256 and 258; 2048 + 1 between the f16 2048, 2050.
  std::vector<uint16_t> b = {0x4380};
  const std::vector<uint16_t> one = {0x3F80};
  reduce_into(b.data(), one.data(), 1, ElementType::kBF16, ReduceOp::kSum);
  EXPECT_EQ(b[0], 0x4380);
  std::vector<uint16_t> h = {0x6800};
  const std::vector<uint16_t> half_one = {0x3C00};
  reduce_into(h.data(), half_one.data(), 1, ElementType::kF16, ReduceOp::kSum);
  EXPECT_EQ(h[0], 0x6800);
  const std::vector<uint16_t> half_three = {0x4200};
  reduce_into(h.data(), half_three.data(), 1, ElementType::kF16, ReduceOp::kSum);
  EXPECT_EQ(h[0], 0x6802);
}

TEST(ElementTypeTest, TakesExtremesAndKeepsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> a = {1, nan, 3, -0.5};
  const std::vector<float> b = {2, 1, nan, -1};
  std::vector<float> least = a;
  reduce_into(a.data(), b.data(), 4, ElementType::kF32, ReduceOp::kMax);
  EXPECT_EQ(a[0], 2);
  EXPECT_TRUE(std::isnan(a[1]));
  EXPECT_TRUE(std::isnan(a[2]));
  EXPECT_EQ(a[3], -0.5);
  reduce_into(least.data(), b.data(), 4, ElementType::kF32, ReduceOp::kMin);
  EXPECT_EQ(least[0], 1);
  EXPECT_TRUE(std::isnan(least[2]));
  EXPECT_EQ(least[3], -1);
}

}  // namespace
}  // namespace monograph::comm
