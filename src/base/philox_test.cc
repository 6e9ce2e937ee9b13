#include "base/philox.h"

#include <gtest/gtest.h>

namespace monograph {
namespace {

// The known answers of Random123 (its file kat_vectors, lines "philox4x32 10").
TEST(Philox, GivesTheKnownAnswers) {
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, TakesEachWordFromItsCounter) {
  const int64_t seed = 0x123456789abcdef, step = 7, element = (int64_t{5} << 34) + 6;
  const PhiloxCounter words = philox4x32({1, 5, 7, 9}, {0x89abcdef, 0x1234567});
  EXPECT_EQ(philox_uniform(seed, step, 9, element),
            static_cast<float>(words[2] >> 8) / 16777216.0f);
}

// As 64 bits without a sign, which is what kernels do.
TEST(Philox, TakesNegativeElements) {
  const PhiloxCounter words = philox4x32({0xffffffff, 0x3fffffff, 7, 9}, {1, 0});
  for (int64_t element = -4; element < 0; ++element) {
    EXPECT_EQ(philox_uniform(1, 7, 9, element),
              static_cast<float>(words[static_cast<size_t>(element + 4)] >> 8) / 16777216.0f);
  }
}

TEST(Philox, IsUniformFromZeroToBelowOne) {
  const int num_elements = 100000;
  double sum = 0, sum_of_squares = 0;
  for (int64_t i = 0; i < num_elements; ++i) {
    const float u = philox_uniform(1, 2, 3, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    sum_of_squares += static_cast<double>(u) * u;
  }
  EXPECT_NEAR(sum / num_elements, 0.5, 0.005);
  EXPECT_NEAR(sum_of_squares / num_elements, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace monograph
