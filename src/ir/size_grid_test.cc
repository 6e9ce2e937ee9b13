#include "ir/size_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"

namespace monograph::ir {
namespace {

const SizeGrid kGrid({{"batch", 1, 64, 1}, {"time", 8, 512, 8}});

std::vector<int64_t> values_of(const std::function<int64_t(int64_t, int64_t)>& f) {
  std::vector<int64_t> values;
  for (const SizeSteps& steps : kGrid.instances()) {
    const std::vector<int64_t> sizes = kGrid.sizes_at(steps);
    values.push_back(f(sizes[0], sizes[1]));
  }
  return values;
}

TEST(SizeGridTest, FindsPolynomials) {
  const auto f = [](int64_t b, int64_t t) { return 3 * b * t * t / 8 + 7 * t - b * b + 5; };
  const auto number = SizeNumber::fit(kGrid, values_of(f));
  ASSERT_TRUE(number);
  EXPECT_FALSE(number->is_constant());
  for (const int64_t b : {1, 2, 17, 64}) {
    for (const int64_t t : {8, 16, 256, 512}) {
      const std::vector<int64_t> sizes = {b, t};
      EXPECT_EQ(number->at(*kGrid.steps_of(sizes)), f(b, t)) << b << " " << t;
    }
  }
}

TEST(SizeGridTest, RefusesWhatIsNone) {
  EXPECT_FALSE(SizeNumber::fit(kGrid, values_of([](int64_t, int64_t t) { return t / 16; })));
  EXPECT_FALSE(SizeNumber::fit(
      kGrid, values_of([](int64_t b, int64_t) { return std::min<int64_t>(b, 62); })));
}

TEST(SizeGridTest, ConstantsAndReciprocals) {
  EXPECT_TRUE(SizeNumber::fit(kGrid, values_of([](int64_t, int64_t) { return 5; }))->is_constant());
  std::vector<double> means, roots;
  for (const SizeSteps& steps : kGrid.instances()) {
    const auto sizes = kGrid.sizes_at(steps);
    means.push_back(0.3 / static_cast<double>(sizes[0] * sizes[1]));
    roots.push_back(1 / std::sqrt(static_cast<double>(sizes[1])));
  }
  const auto mean = SizeReal::fit(kGrid, means);
  ASSERT_TRUE(mean);
  const std::vector<int64_t> sizes = {3, 24};
  EXPECT_DOUBLE_EQ(mean->at(*kGrid.steps_of(sizes)), 0.3 / 72);
  EXPECT_FALSE(SizeReal::fit(kGrid, roots));
}

TEST(SizeGridTest, AConstantMayBeInfinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {-infinity, 0.0, 0.1}) {
    const auto real = SizeReal::fit(kGrid, std::vector<double>(kGrid.instances().size(), value));
    ASSERT_TRUE(real);
    EXPECT_TRUE(real->is_constant());
    EXPECT_EQ(real->at({3, 2}), value);
  }
}

TEST(SizeGridTest, SizesOutsideHaveNoSteps) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{0, 8}, {65, 8}, {1, 4}, {1, 12}, {1, 520}}) {
    EXPECT_FALSE(kGrid.steps_of(sizes)) << sizes[0] << " " << sizes[1];
  }
}

TEST(SizeGridTest, TooFewSizesAreRefused) {
  try {
    SizeGrid({{"batch", 1, 4, 1}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "Dim 'batch' of 1..4, each a multiple of 1: give a range of 6 sizes or more that "
                 "ends at a multiple, or leave the dim fixed");
  }
}

}  // namespace
}  // namespace monograph::ir
