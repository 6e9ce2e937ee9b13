#include "ir/loop/loop.h"

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"
#include "ir/loop/evaluate.h"
#include "ir/loop/loop_parser.h"

namespace monograph::ir {
namespace {

using testing::HasSubstr;

// Text in the form in which it is printed.
constexpr const char* kText = R"(loop rows [4,2] inner 8 blocks 2 of rows sweeps 2 partials b3 [0] {
  b0 = input f32
  b1 = input i64
  b2 = output f32
  b3 = workspace f32 [16]
  b4 = output bf16
  b5 = input i32
  %0 = row i64 load b1[2*r0 + r1 + 3] @0
  %1 = element f32 load b0[16*r0 + 8*r1 + j + 128*%0]
  %2 = row f32 reduce_max(%1) @0
  %3 = element f32 sub(%1, %2) keep @1
  %4 = scalar i64 constant 7
  %5 = scalar i64 argument 0
  %6 = element f32 philox(%4, %4, %5) [16*r0 + 8*r1 + j]
  %7 = element i64 index [j]
  %8 = scalar f32 constant -inf
  %9 = element bool lt(%7, %0)
  %10 = element f32 where(%9, %3, %8)
  %11 = element f32 segment_sum(%0, %0) b0[j] order 8 b5
  %12 = element f32 add(%10, %11)
  element f32 accumulate_sum b2[j] = %12 keeps_inner @1
  element f32 store b4[16*r0 + 8*r1 + j] = %6 @1
}
)";

TEST(Loop, TextReadsBack) {
  const Loop loop = parse_loop(kText);
  EXPECT_EQ(loop.str(), kText);
  EXPECT_EQ(loop.num_rows(), 8);
  EXPECT_EQ(loop.instructions[1].access.index, 0);
  EXPECT_EQ(loop.instructions[1].access.index_stride, 128);
  EXPECT_EQ(loop.instructions[13].sweep, 1);
  EXPECT_EQ(loop.num_scalars(), 1);
}

TEST(Loop, WhatDoesNotMatterIsNotPrinted) {
  const Loop loop = parse_loop(kText);
  Loop same = loop;
  same.instructions[1].sweep = 1;  // an element value is computed where needed
  same.instructions[0].access.row_strides = {2, 1};
  same.instructions[7].access.row_strides = {0, 0};
  same.buffers[0].num_elements = 99;  // of an input
  EXPECT_EQ(same.hash(), loop.hash());
  Loop other = loop;
  other.instructions[3].sweep = 0;
  EXPECT_NE(other.hash(), loop.hash());
}

TEST(Loop, ParserPointsAtWhatIsWrong) {
  const auto error_of = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    try {
      parse_loop(text, "k");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_of(kText, "inner 8", "inner x"), "k:1:23: found 'x', expected an integer");
  EXPECT_EQ(error_of(kText, "%3 =", "%4 ="),
            "k:11:3: found '4', expected %3, the position among the instructions");
  EXPECT_EQ(error_of(kText, "b1 = input", "b7 = input"),
            "k:3:3: found 'b7', expected b1, the next number");
  EXPECT_EQ(error_of(kText, "sub(", "subtract("),
            "k:11:20: found 'subtract', expected a computation");
  EXPECT_EQ(error_of(kText, "2*r0", "2*r9"),
            "k:8:26: found 'r9', expected a row index r0.., j, or a value");
  EXPECT_EQ(error_of(kText, "reduce_max", "reduce_mean"),
            "k:10:16: found 'reduce_mean', expected reduce_sum or reduce_max");
}

// The message of verify() for a loop of two buffers, b0 input and b1 output f32, with these lines.
std::string fault(const std::string& instructions,
                  const std::string& head = "rows [4] inner 8 blocks 1 of rows sweeps 2") {
  try {
    parse_loop("loop " + head +
               " { b0 = input f32 b1 = output f32 b2 = input i64 b3 = workspace f32 [8] " +
               instructions + " }");
  } catch (const InternalError& error) {
    const std::string text = error.what();
    return text.substr(0, text.find("\nin\n"));
  }
  return "no error";
}

TEST(Loop, VerifierNamesTheInstruction) {
  const std::string load = "%0 = element f32 load b0[8*r0 + j] ";
  EXPECT_THAT(fault("%0 = element f32 exp(%1) %1 = element f32 load b0[j]"),
              HasSubstr("%0: operand %1 is not an earlier instruction"));
  EXPECT_THAT(fault(load + "%1 = row f32 exp(%0) @0"),
              HasSubstr("%1: operand %0 has a finer domain"));
  EXPECT_THAT(fault(load + "%1 = element f32 add(%0)"), HasSubstr("%1: 1 operands, expected 2"));
  EXPECT_THAT(fault("%0 = element f32 load b9[j]"), HasSubstr("%0: buffer b9 of 4"));
  EXPECT_THAT(fault("%0 = element f32 load b1[j]"), HasSubstr("b1 is not an input"));
  EXPECT_THAT(fault(load + "element f32 store b0[j] = %0 @0"), HasSubstr("b0 is an input"));
  EXPECT_THAT(fault("%0 = scalar f32 load b0[r0]"), HasSubstr("row strides where there is no row"));
  EXPECT_THAT(fault("%0 = row f32 load b0[j] @0"), HasSubstr("no inner index"));
  EXPECT_THAT(fault("%0 = element i64 load b2[j] %1 = element f32 load b0[%0]"),
              HasSubstr("%1: index %0 is not an earlier i64 of scalar or row domain"));
  EXPECT_THAT(fault("%0 = element i64 load b0[j]"), HasSubstr("%0: type is not b0's"));
  EXPECT_THAT(fault("%0 = element i64 load b2[j] element i64 store b1[j] = %0 @0"),
              HasSubstr("stored into b1 of another type"));
  EXPECT_THAT(fault("%0 = element i64 load b2[j] %1 = element i64 exp(%0)"),
              HasSubstr("only for f32 and f64"));
  EXPECT_THAT(fault(load + "%1 = element i64 load b2[j] %2 = element f32 add(%0, %1)"),
              HasSubstr("operands of different types"));
  EXPECT_THAT(fault(load + "%1 = element f32 lt(%0, %0)"), HasSubstr("wrong result type"));
}

TEST(Loop, VerifierKnowsSweepsAndBlocks) {
  const std::string load = "%0 = element f32 load b0[8*r0 + j] ";
  const std::string sum = load + "%1 = row f32 reduce_sum(%0) @0 ";
  EXPECT_EQ(fault(sum + "%2 = element f32 sub(%0, %1) element f32 store b1[8*r0 + j] = %2 @1"),
            "no error");
  EXPECT_THAT(fault(sum + "%2 = element f32 sub(%0, %1) element f32 store b1[8*r0 + j] = %2 @0"),
              HasSubstr("%3: sweep 0, but an operand is there from sweep 1 on"));
  EXPECT_THAT(fault(sum + "%2 = row f32 exp(%1) @0"), HasSubstr("%2: sweep 0, but"));
  EXPECT_EQ(fault(sum + "row f32 store b1[r0] = %1 @2"), "no error");
  EXPECT_THAT(fault(load + "element f32 store b1[8*r0 + j] = %0 @2"),
              HasSubstr("%1: sweep 2 is not in 0..1"));
  const std::string by_inner = "rows [4] inner 8 blocks 2 of inner sweeps 1";
  EXPECT_THAT(fault(sum, by_inner),
              HasSubstr("a row reduction in a loop split over the inner axis"));
  EXPECT_THAT(fault("%0 = row f32 load b0[r0] @0 row f32 store b1[r0] = %0 @0", by_inner),
              HasSubstr("a row is stored or accumulated by each of the blocks"));
  const std::string blocks = "rows [4] inner 8 blocks 2 of rows sweeps 1";
  EXPECT_THAT(fault(load + "element f32 accumulate_sum b1[0] = %0 @0", blocks),
              HasSubstr("accumulated over 2 blocks without a partials buffer"));
  EXPECT_THAT(fault(load + "element f32 accumulate_sum b1[j] = %0 keeps_inner @0",
                    blocks + " partials b3 [0]"),
              HasSubstr("16 partial results at 0 do not fit in b3 [8]"));
  EXPECT_EQ(fault(load + "element f32 accumulate_sum b1[0] = %0 @0", blocks + " partials b3 [6]"),
            "no error");
}

TEST(Loop, EvaluatesInPlace) {
  const Loop loop = parse_loop(R"(loop rows [2] inner 3 blocks 1 of rows sweeps 2 {
    b0 = input f32 b1 = output f32 b2 = output f32
    %0 = element f32 load b0[3*r0 + j] keep @0
    %1 = row f32 reduce_sum(%0) @0
    %2 = element f32 div(%0, %1)
    element f32 store b1[3*r0 + j] = %2 @1
    element f32 accumulate_max b2[0] = %0 @0 })");
  float x[] = {1, 2, 5, -4, 1, 1}, largest = 0;
  void* const buffers[] = {x, x, &largest};
  evaluate(loop, buffers);
  EXPECT_THAT(x, testing::ElementsAre(0.125f, 0.25f, 0.625f, 2, -0.5f, -0.5f));
  EXPECT_EQ(largest, 5);
}

}  // namespace
}  // namespace monograph::ir
