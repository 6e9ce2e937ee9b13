#include "analysis/validate_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/parser.h"

namespace monograph::analysis {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// What is said of `line` in a graph with %x, %y of f32[2,3] and %i of i64[3].
std::string violations_of(const std::string& line, OpValidator& validator) {
  const auto graph = ir::parse_graph(
      "graph @g {\n%x = input \"x\" : f32[2,3]\n%y = input \"y\" : f32[2,3]\n"
      "%i = input \"i\" : i64[3]\n" +
      line + "\n}");
  return to_text(validator.run(*graph));
}

std::string violations_of(const std::string& line) {
  OpValidator validator;
  return violations_of(line, validator);
}

TEST(ValidateOps, AcceptsWhatTheOpsAccept) {
  EXPECT_THAT(violations_of("%z = add(%x, %y) : f32[2,3]\n%u = tanh(%z) : f32[2,3]"), IsEmpty());
}

TEST(ValidateOps, V1_20_UnknownOp) {
  EXPECT_THAT(
      violations_of("%z = tanhh(%x) : f32[2,3]"),
      HasSubstr("V1.20 %0 = tanhh(%x) : f32[2,3]: unknown op 'tanhh': the nearest is 'tanh'"));
}

TEST(ValidateOps, V1_21_Arity) {
  EXPECT_THAT(violations_of("%z = add(%x) : f32[2,3]"), HasSubstr("V1.21 "));
  EXPECT_THAT(violations_of("%z = tanh(%x, %y) : f32[2,3]"), HasSubstr("[tanh] 2 operands given"));
}

TEST(ValidateOps, V1_22_AttributesDTypesAndShapes) {
  EXPECT_THAT(violations_of("%z = add(%x, %y) {alpha=2} : f32[2,3]"),
              HasSubstr("unknown attribute 'alpha'"));
  EXPECT_THAT(violations_of("%z = add(%x, %i) : f32[2,3]"), HasSubstr("V1.22 "));
  EXPECT_THAT(violations_of("%z = tanh(%i) : i64[3]"), HasSubstr("V1.22 "));
}

TEST(ValidateOps, V1_23_StoredTypes) {
  EXPECT_THAT(violations_of("%z = add(%x, %y) : f32[3,2]"),
              HasSubstr("V1.23 %0 = add(%x, %y) : f32[3,2]: add infers (f32[2,3])"));
  EXPECT_THAT(violations_of("%z, %u = add(%x, %y) : f32[2,3], f32[2,3]"), HasSubstr("V1.23 "));
}

TEST(ValidateOps, JudgesAgainWhatDiffersFromARightNodeInOneThing) {
  OpValidator validator;
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(violations_of("%z = sum(%x) {axes=[0], keepdim=false} : f32[3]", validator),
                IsEmpty());
    EXPECT_THAT(violations_of("%z = sum(%x) {axes=[1], keepdim=false} : f32[3]", validator),
                HasSubstr("sum infers (f32[2])"));
    EXPECT_THAT(violations_of("%z = sum(%x) {axes=[0], keepdim=true} : f32[3]", validator),
                HasSubstr("sum infers (f32[1,3])"));
    EXPECT_THAT(violations_of("%z = sum(%x) {axes=[0], keepdim=false} : f32[2]", validator),
                HasSubstr("sum infers (f32[3])"));
    EXPECT_THAT(violations_of("%z = sum(%x) {axes=[0], keepdim=false} : f64[3]", validator),
                HasSubstr("sum infers (f32[3])"));
    EXPECT_THAT(violations_of("%z = sum(%i) {axes=[0], keepdim=false} : f32[3]", validator),
                HasSubstr("sum infers (i64[])"));
    EXPECT_THAT(violations_of("%z = sum(%x) {axes=[0]} : f32[3]", validator),
                HasSubstr("attribute 'keepdim'"));
    EXPECT_THAT(violations_of("%z = tanh(%x) {axes=[0], keepdim=false} : f32[3]", validator),
                HasSubstr("V1.22 "));
    EXPECT_THAT(violations_of("%z = sum(%x, %y) {axes=[0], keepdim=false} : f32[3]", validator),
                HasSubstr("V1.21 "));
  }
}

TEST(ValidateOps, LooksIntoBodies) {
  EXPECT_THAT(violations_of("%z = fused(%x) : f32[2,3] {\n%a = input \"a\" : f32[2,3]\n"
                            "%b = tanh(%a) : bf16[2,3]\n%c = tanh(%a) : f32[2,3]\nreturn %c\n}"),
              HasSubstr("V1.23 body of %0: %0 = tanh(%a) : bf16[2,3]: tanh infers"));
}

}  // namespace
}  // namespace monograph::analysis
