#include "verify/purity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <random>

#include "frontend/session/monograph.h"

namespace monograph::verify {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

const std::vector<ir::TensorType> kInputs = {{ir::DType::kF32, {3}}};

template <typename Function>
std::vector<Impurity> impurities_of(Function function) {
  return find_impurities(session::traced_function(std::move(function)), kInputs, {});
}

TEST(PurityTest, APureFunctionHasNone) {
  struct Net : nn::Module {
    nn::Dropout drop{*this, "drop", 0.5};
  } net;
  EXPECT_THAT(impurities_of([&](const Tensor& x) { return sum(net.drop(x) * 2.0); }), SizeIs(0));
}

TEST(PurityTest, ACounterIsNamedWithItsLine) {
  int num_calls = 0;
  const auto found = impurities_of([&](const Tensor& x) {
    const Tensor y = x + 1.0;
    return sum(y * ++num_calls);
  });
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].place.line, __LINE__ - 3);
  EXPECT_THAT(found[0].str(),
              HasSubstr("captured twice: the number 1, then 2: the function reads"));
}

TEST(PurityTest, ClockAndUnregisteredRandomnessAreNamed) {
  const auto clock = impurities_of([](const Tensor& x) {
    return sum(x *
               static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count()));
  });
  ASSERT_THAT(clock, SizeIs(1));
  EXPECT_EQ(clock[0].place.line, __LINE__ - 3);
  std::mt19937 generator(1);
  const auto random = impurities_of([&](const Tensor& x) {
    if (generator() % 1000 < 999) return sum(x * std::uniform_real_distribution<>()(generator));
    return sum(x);
  });
  ASSERT_THAT(random, SizeIs(1));
  EXPECT_THAT(random[0].str(), HasSubstr("random_uniform()"));
}

TEST(PurityTest, OutputAndInputAreNamedWithTheNodesAroundThem) {
  const std::string path = testing::TempDir() + "/purity.txt";
  const auto written = impurities_of([&](const Tensor& x) {
    const Tensor y = x + 1.0;
    std::ofstream(path) << "hello";
    return sum(y);
  });
  ASSERT_THAT(written, SizeIs(1));
  EXPECT_EQ(written[0].place.line, __LINE__ - 3);
  EXPECT_THAT(written[0].str(),
              HasSubstr("output of 5 bytes while the function was captured, after"));
  const auto read = impurities_of([&](const Tensor& x) {
    std::string word;
    std::ifstream(path) >> word;
    return sum(x);
  });
  ASSERT_THAT(read, SizeIs(1));
  EXPECT_THAT(read[0].str(), HasSubstr("input of "));
}

}  // namespace
}  // namespace monograph::verify
