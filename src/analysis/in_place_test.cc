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

// The loss reads the target's logit by its index, and the sums over the row, before the gradient is
// written.
TEST(InPlace, ARowMayBeWrittenOverWhenItsPickIsRead) {
  const std::string picked = R"(  %x = input "x" : f32[4,6]
  %ids = input "ids" : i64[4,1]
  %p = gather(%x, %ids) {axis=1} : f32[4,1]
)";
  EXPECT_EQ(over_operands(picked + R"(  %e = exp(%x) : f32[4,6]
  %s = sum(%e) {axes=[1], keepdim=true} : f32[4,1]
  %loss = sub(%s, %p) : f32[4,1]
  %d = div(%e, %s) : f32[4,6]
  return d=%d, loss=%loss
)"),
            Over({true, false}));
  // Nothing says that another thread has read its pick.
  EXPECT_EQ(over_operands(picked + R"(  %d = sub(%x, %p) : f32[4,6]
  return d=%d
)"),
            Over({false, false}));
}

// The row's index is known after the first sweep; the gradient is written in the same one as it is
// picked.
TEST(InPlace, APickInTheSweepThatWritesMayNot) {
  EXPECT_EQ(over_operands(R"(  %x = input "x" : f32[4,6]
  %m = amax(%x) {axes=[1], keepdim=true} : f32[4,1]
  %i = convert(%m) {dtype=i64} : i64[4,1]
  %p = gather(%x, %i) {axis=1} : f32[4,1]
  %d = sub(%x, %p) : f32[4,6]
  return d=%d
)"),
            Over({false}));
}

// Where a row has several picks, they are read again in each sweep.
TEST(InPlace, SeveralPicksInARowMayNot) {
  EXPECT_EQ(over_operands(R"(  %x = input "x" : f32[4,3,6]
  %ids = input "ids" : i64[4,3,1]
  %p = gather(%x, %ids) {axis=2} : f32[4,3,1]
  %e = exp(%x) : f32[4,3,6]
  %s = sum(%e) {axes=[1,2], keepdim=true} : f32[4,1,1]
  %d = div(%e, %s) : f32[4,3,6]
  %q = add(%d, %p) : f32[4,3,6]
  return q=%q
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
