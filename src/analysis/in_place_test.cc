#include "analysis/in_place.h"

#include <gtest/gtest.h>

#include "ir/parser.h"

namespace monograph::analysis {
namespace {

std::vector<bool> over_operands(const std::string& body, int result = 0) {
  const auto graph = ir::parse_graph("graph @kernel {\n" + body + "}\n");
  std::vector<bool> may;
  for (size_t i = 0; i < graph->inputs().size(); ++i) {
    may.push_back(may_overwrite(*graph, result, static_cast<int>(i)));
  }
  return may;
}

using Over = std::vector<bool>;

TEST(InPlace, ElementsOfTheSameTypeMayBeWrittenOver) {
  EXPECT_EQ(over_operands(R"(  %x = input "x" : f32[4,6]
  %y = input "y" : bf16[4,6]
  %b = input "b" : f32[6]
  %c = convert(%y) {dtype=f32} : f32[4,6]
  %s = add(%x, %c) : f32[4,6]
  %t = add(%s, %b) : f32[4,6]
  return t=%t
)"),
            Over({true, false, false}));
}

// The sweep that subtracts the mean is the last that reads x.
TEST(InPlace, AResultOfTheLastSweepMay) {
  EXPECT_EQ(over_operands(R"(  %x = input "x" : f32[4,6]
  %m = sum(%x) {axes=[1], keepdim=true} : f32[4,1]
  %c = sub(%x, %m) : f32[4,6]
  return c=%c
)"),
            Over({true}));
}

// y is written in the first sweep, and x is read again in the second.
TEST(InPlace, AResultOfAnEarlierSweepMayNot) {
  const std::string body = R"(  %x = input "x" : f32[4,6]
  %y = exp(%x) : f32[4,6]
  %m = sum(%x) {axes=[1], keepdim=true} : f32[4,1]
  %c = sub(%x, %m) : f32[4,6]
  return y=%y, c=%c
)";
  EXPECT_EQ(over_operands(body, 0), Over({false}));
  EXPECT_EQ(over_operands(body, 1), Over({true}));
}

TEST(InPlace, RowsThatAreReadByIndexMayNot) {
  EXPECT_EQ(over_operands(R"(  %w = input "w" : f32[4,6]
  %ids = input "ids" : i64[4]
  %e = embedding(%w, %ids) : f32[4,6]
  %y = exp(%e) : f32[4,6]
  return y=%y
)"),
            Over({false, false}));
}

TEST(InPlace, ASmallerSpaceMayNot) {
  EXPECT_EQ(over_operands(R"(  %x = input "x" : f32[6]
  %y = input "y" : f32[4,6]
  %c = exp(%x) : f32[6]
  %s = add(%c, %y) : f32[4,6]
  return c=%c, s=%s
)"),
            Over({false, false}));
}

}  // namespace
}  // namespace monograph::analysis
