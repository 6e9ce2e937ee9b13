#include "cli/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace monograph::cli {
namespace {

const std::vector<std::string> kWords = {"batch", "backend", "steps", "data"};

TEST(Nearest, FindsASwapADropAndAReplacement) {
  EXPECT_EQ(nearest("bacth", kWords), "batch");
  EXPECT_EQ(nearest("step", kWords), "steps");
  EXPECT_EQ(nearest("backand", kWords), "backend");
}

TEST(Nearest, GivesNothingFarFetched) {
  EXPECT_EQ(nearest("learning-rate", kWords), "");
  EXPECT_EQ(nearest("", kWords), "");
  EXPECT_EQ(nearest("batch", {}), "");
}

TEST(Nearest, PrefersTheClosestThenTheFirst) {
  const std::vector<std::string> words = {"train", "trail", "trace"};
  EXPECT_EQ(nearest("trace", words), "trace");
  EXPECT_EQ(nearest("traik", words), "train");
}

}  // namespace
}  // namespace monograph::cli
