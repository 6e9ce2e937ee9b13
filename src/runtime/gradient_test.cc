#include <gtest/gtest.h>

#include <cmath>

#include "ops/evaluate.h"
#include "runtime/single_op_testing.h"

namespace monograph::runtime {
namespace {

using ir::DType;
using ir::Literal;

std::vector<const ops::OpDef*> differentiable_ops() {
  std::vector<const ops::OpDef*> ops;
  for (const ops::OpDef* op : ops::all_ops()) {
    if (op->gradient != nullptr) ops.push_back(op);
  }
  return ops;
}

class EachGradient : public testing::TestWithParam<const ops::OpDef*> {};

INSTANTIATE_TEST_SUITE_P(Ops, EachGradient, testing::ValuesIn(differentiable_ops()),
                         [](const auto& op) { return std::string(op.param->name); });

// The sample with every floating operand in f64.
ops::Sample in_f64(ops::Sample sample) {
  for (ops::SampleOperand& operand : sample.operands) {
    if (ir::is_floating(operand.type.dtype)) operand.type.dtype = DType::kF64;
  }
  return sample;
}

std::vector<ir::TensorType> types_of(const ops::Sample& sample) {
  std::vector<ir::TensorType> types;
  for (const ops::SampleOperand& operand : sample.operands) types.push_back(operand.type);
  return types;
}

// The scalar that is differentiated: sum over results of cotangent * result.
double weighted_sum(const std::vector<Literal>& results, const std::vector<Literal>& cotangents) {
  double sum = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    for (int64_t j = 0; j < cotangents[i].num_elements(); ++j) {
      sum += cotangents[i].get(j) * results[i].get(j);
    }
  }
  return sum;
}

void compare_with_differences(const ops::OpDef& op, const ops::Sample& sample,
                              const std::vector<bool>& has_cotangent) {
  const SingleOp single(op, types_of(sample), sample.attributes, has_cotangent);
  std::vector<Literal> operands = ops::draw_operands(sample, 11);
  std::vector<Literal> cotangents(single.node().num_results());
  for (size_t i = 0; i < cotangents.size(); ++i) {
    const ir::TensorType& type = single.node().types()[i];
    cotangents[i] = has_cotangent[i] ? ops::draw({type}, 12, i) : Literal(type);
  }
  const SingleOp::Outputs outputs = single.run(operands, cotangents);
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < operands.size(); ++i) {
    ASSERT_EQ(single.has_gradient(static_cast<int>(i)), ir::is_floating(operands[i].type().dtype));
    if (!ir::is_floating(operands[i].type().dtype)) continue;
    for (int64_t j = 0; j < operands[i].num_elements(); ++j) {
      const double at = operands[i].get(j);
      operands[i].set(j, at + kStep);
      const auto above = ops::evaluate(op.name, operands, sample.attributes);
      operands[i].set(j, at - kStep);
      const auto below = ops::evaluate(op.name, operands, sample.attributes);
      operands[i].set(j, at);
      const double expected =
          (weighted_sum(above, cotangents) - weighted_sum(below, cotangents)) / (2 * kStep);
      ASSERT_NEAR(outputs.gradients[i].get(j), expected, 1e-7 * (1 + std::abs(expected)))
          << op.name << ", operand " << i << " " << operands[i].type().str() << ", element " << j;
    }
  }
}

TEST_P(EachGradient, EqualsFiniteDifferences) {
  const ops::OpDef& op = *GetParam();
  for (const ops::Sample& given : op.samples()) {
    if (!given.check_gradient) continue;
    const ops::Sample sample = in_f64(given);
    const size_t num_results = ops::infer_types(op, types_of(sample), sample.attributes).size();
    compare_with_differences(op, sample, std::vector<bool>(num_results, true));
    // Each result alone: the cotangents of the others are none.
    for (size_t i = 0; num_results > 1 && i < num_results; ++i) {
      std::vector<bool> has_cotangent(num_results, false);
      has_cotangent[i] = true;
      compare_with_differences(op, sample, has_cotangent);
    }
  }
}

// Gradients in the sample's own dtypes have the operands' dtypes (SingleOp checks it).
TEST_P(EachGradient, KeepsDTypes) {
  const ops::OpDef& op = *GetParam();
  for (const ops::Sample& sample : op.samples()) {
    const auto results = ops::infer_types(op, types_of(sample), sample.attributes);
    if (!ir::is_floating(results[0].dtype)) continue;
    const SingleOp single(op, types_of(sample), sample.attributes,
                          std::vector<bool>(results.size(), true));
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      EXPECT_EQ(single.has_gradient(static_cast<int>(i)),
                ir::is_floating(sample.operands[i].type.dtype));
    }
  }
}

std::vector<double> gradient_at(std::string_view op, const std::vector<double>& operands,
                                int operand) {
  std::vector<Literal> literals;
  std::vector<ir::TensorType> types;
  for (double value : operands) {
    literals.push_back(Literal::scalar(DType::kF64, value));
    types.push_back(literals.back().type());
  }
  const SingleOp single(ops::op_named(op), types, {}, {true});
  const auto outputs = single.run(literals, {Literal::scalar(DType::kF64, 1)});
  return {outputs.gradients[operand].get(0)};
}

// PyTorch's values where the derivative is one-sided or a formula gives NaN.
TEST(Gradient, IsPyTorchsAtTheEdges) {
  EXPECT_EQ(gradient_at("abs", {0}, 0)[0], 0);
  EXPECT_EQ(gradient_at("pow", {0, 0}, 0)[0], 0);
  EXPECT_EQ(gradient_at("pow", {0, 2}, 0)[0], 0);
  EXPECT_EQ(gradient_at("pow", {0, 1}, 0)[0], 1);
  EXPECT_EQ(gradient_at("pow", {0, 2}, 1)[0], 0);
  EXPECT_EQ(gradient_at("pow", {-2, 3}, 0)[0], 12);
  EXPECT_EQ(gradient_at("maximum", {3, 3}, 0)[0], 0.5);
  EXPECT_EQ(gradient_at("minimum", {3, 3}, 1)[0], 0.5);
  EXPECT_EQ(gradient_at("maximum", {4, 3}, 0)[0], 1);
  EXPECT_EQ(gradient_at("maximum", {4, 3}, 1)[0], 0);
}

}  // namespace
}  // namespace monograph::runtime
