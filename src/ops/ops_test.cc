#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "ops/document.h"
#include "ops/evaluate.h"
#include "ops/registry.h"

namespace monograph::ops {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class EachOp : public testing::TestWithParam<const OpDef*> {};

INSTANTIATE_TEST_SUITE_P(Ops, EachOp, testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& op) { return std::string(op.param->name); });

TEST_P(EachOp, HasAllThatAnOpNeeds) {
  const OpDef& op = *GetParam();
  EXPECT_EQ(find_op(op.name), &op);
  EXPECT_THAT(std::string(op.doc), testing::EndsWith("."));
  ASSERT_NE(op.infer, nullptr);
  ASSERT_NE(op.reference, nullptr);
  ASSERT_NE(op.samples, nullptr);
  ASSERT_NE(op.bad_samples, nullptr);
  EXPECT_FALSE(op.samples().empty());
  EXPECT_FALSE(op.bad_samples().empty());
}

TEST_P(EachOp, RunsItsSamples) {
  const OpDef& op = *GetParam();
  for (const Sample& sample : op.samples()) {
    const std::vector<ir::Literal> operands = draw_operands(sample, 1);
    const std::vector<ir::Literal> results = evaluate(op.name, operands, sample.attributes);
    EXPECT_FALSE(results.empty());
    EXPECT_EQ(results, evaluate(op.name, operands, sample.attributes));
  }
}

TEST_P(EachOp, RefusesItsBadSamples) {
  const OpDef& op = *GetParam();
  for (const BadSample& sample : op.bad_samples()) {
    std::string message = "no error";
    try {
      infer_types(op, sample.operands, sample.attributes);
    } catch (const UserError& error) {
      message = error.what();
    }
    EXPECT_THAT(message, StartsWith(fmt::format("[{}] ", op.name)));
    EXPECT_THAT(message, HasSubstr(sample.message));
  }
}

// A gradient is checked where there is one (see runtime/gradient_test.cc), and only there.
TEST_P(EachOp, ChecksItsGradient) {
  const OpDef& op = *GetParam();
  const std::vector<Sample> samples = op.samples();
  const bool checks = std::any_of(samples.begin(), samples.end(),
                                  [](const Sample& sample) { return sample.check_gradient; });
  EXPECT_EQ(checks, op.gradient != nullptr);
}

// Swapped operands give the same bits where an op says that it commutes.
TEST_P(EachOp, CommutesWhereItSaysSo) {
  const OpDef& op = *GetParam();
  if (!op.has(kCommutative)) return;
  for (const Sample& sample : op.samples()) {
    std::vector<ir::Literal> operands = draw_operands(sample, 2);
    const std::vector<ir::Literal> results = evaluate(op.name, operands, sample.attributes);
    std::swap(operands[0], operands[1]);
    EXPECT_EQ(results, evaluate(op.name, operands, sample.attributes));
  }
}

// Pointwise results have the operands' broadcast shape; views and gathers keep every element.
TEST_P(EachOp, KeepsWhatItsTraitsPromise) {
  const OpDef& op = *GetParam();
  for (const Sample& sample : op.samples()) {
    const std::vector<ir::Literal> operands = draw_operands(sample, 3);
    const std::vector<ir::Literal> results = evaluate(op.name, operands, sample.attributes);
    if (op.has(kPointwise)) {
      ir::Shape shape;
      for (const ir::Literal& operand : operands) {
        shape = ir::broadcast_shapes(op.name, shape, operand.type().shape);
      }
      ASSERT_EQ(results.size(), 1u);
      EXPECT_EQ(results[0].type().shape, shape);
    }
    if (op.has(kReduction)) {
      EXPECT_TRUE(sample.attributes.contains("axes") && sample.attributes.contains("keepdim"));
    }
    for (const ir::Literal& result : results) {
      EXPECT_TRUE(!op.has(kViewLike) || result.type().dtype == operands[0].type().dtype);
      EXPECT_TRUE(!op.has(kCreation) || sample.attributes.contains("shape"));
    }
  }
}

TEST(Registry, IsSortedByName) {
  EXPECT_TRUE(std::is_sorted(all_ops().begin(), all_ops().end(),
                             [](auto* a, auto* b) { return a->name < b->name; }));
}

TEST(Registry, NamesTheNearestOp) {
  EXPECT_EQ(find_op("matmull"), nullptr);
  try {
    op_named("matmull");
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("unknown op 'matmull': the nearest is 'matmul'"));
  }
}

TEST(Document, IsTheFileInDocs) {
  std::ifstream file(MONOGRAPH_SOURCE_DIR "/docs/ops.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), document_ops()) << "make it anew: document_ops > docs/ops.md";
}

}  // namespace
}  // namespace monograph::ops
