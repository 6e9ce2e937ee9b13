#include "frontend/trace/promotion.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"
#include "ir/printer.h"

namespace monograph::trace {
namespace {

using ir::DType;

// "i64*" is a tensor, "i64" one of rank 0, "1" and "1.0" are numbers.
PromotedOperand parse(std::string text) {
  if (text == "1") return {DType::kI64, OperandRank::kNumber};
  if (text == "1.0") return {DType::kF32, OperandRank::kNumber};
  const bool is_tensor = text.back() == '*';
  if (is_tensor) text.pop_back();
  return {ir::parse_dtype(text), is_tensor ? OperandRank::kTensor : OperandRank::kScalar};
}

// Every pair, as torch.result_type gives it (bench/golden/promotion.py).
TEST(PromotionTest, EqualsTorchResultType) {
  std::ifstream file(MONOGRAPH_SOURCE_DIR "/tests/golden/result_type.txt");
  int num_cases = 0;
  for (std::string line; std::getline(file, line); ++num_cases) {
    std::istringstream words(line);
    std::string a, b, expected;
    words >> a >> b >> expected;
    const std::vector<PromotedOperand> pair = {parse(a), parse(b)};
    const std::optional<DType> found = result_dtype(pair);
    EXPECT_EQ(found ? ir::dtype_name(*found) : "error", expected) << line;
  }
  EXPECT_EQ(num_cases, 18 * 20);
}

class MixedDtypes : public testing::Test {
 protected:
  Tensor input(const std::string& name, DType dtype, ir::Shape shape = {2}) {
    return trace_->input(name, {dtype, std::move(shape)});
  }
  std::shared_ptr<Trace> trace_ = Trace::create();
};

TEST_F(MixedDtypes, ACastIsANode) {
  const Tensor half = input("half", DType::kBF16), ids = input("ids", DType::kI64);
  const Tensor sum = half + ids;
  EXPECT_EQ(sum.dtype(), DType::kBF16);
  EXPECT_TRUE(sum.value().node->operand(1).node->is("convert"));
  EXPECT_EQ((ids * 2).dtype(), DType::kI64);
  EXPECT_EQ((ids * 0.5).dtype(), DType::kF32);
  EXPECT_EQ((half * 0.5).dtype(), DType::kBF16);
  EXPECT_EQ((half + input("f16", DType::kF16)).dtype(), DType::kF32);
}

TEST_F(MixedDtypes, WherePromotesItsBranchesOnly) {
  const Tensor is_set = input("is_set", DType::kBool);
  const Tensor chosen = where(is_set, input("a", DType::kF32), input("b", DType::kF64));
  EXPECT_EQ(chosen.dtype(), DType::kF64);
  EXPECT_EQ(chosen.value().node->operand(0).dtype(), DType::kBool);
  EXPECT_EQ(where(is_set, 1.0, 0.0).dtype(), DType::kF32);
}

TEST_F(MixedDtypes, AScalarTensorIsWeakerThanOneWithAxes) {
  const Tensor x = input("x", DType::kBF16), scale = input("scale", DType::kF32, {});
  EXPECT_EQ((x * scale).dtype(), DType::kBF16);
}

TEST_F(MixedDtypes, NoCommonDtypeSaysWhichCastToWrite) {
  try {
    input("tokens", DType::kU16) + input("ids", DType::kI32);
    FAIL();
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(
        message.find("[add] operands are u16[2] and i32[2]: no dtype holds both: convert one, "
                     "e.g. with to(i32)"),
        std::string::npos)
        << message;
    EXPECT_NE(message.find("promotion_test.cc:"), std::string::npos);
  }
}

}  // namespace
}  // namespace monograph::trace
