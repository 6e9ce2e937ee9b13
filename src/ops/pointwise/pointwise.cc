#include "ops/pointwise/pointwise.h"

#include <algorithm>

namespace monograph::ops {
namespace {

ir::Shape broadcast_all(const InferContext& context) {
  ir::Shape shape = context.shape(0);
  for (size_t i = 1; i < context.operands.size(); ++i) {
    shape = ir::broadcast_shapes(context.op.name, shape, context.shape(static_cast<int>(i)));
  }
  return shape;
}

SampleOperand f32(ir::Shape shape, double low, double high) {
  return {{ir::DType::kF32, std::move(shape)}, low, high};
}

const ir::TensorType kF32Pair{ir::DType::kF32, {2}};

}  // namespace

void check_one_dtype(const InferContext& context, int first) {
  const ir::TensorType& a = context.operands[first];
  for (size_t i = first + 1; i < context.operands.size(); ++i) {
    const ir::TensorType& b = context.operands[i];
    if (a.dtype == b.dtype) continue;
    const bool convert_b = b.dtype < a.dtype;
    context.fail("operands are {} and {}: convert one, e.g. convert({}, {})", a.str(), b.str(),
                 context.op.operands[convert_b ? i : first],
                 ir::dtype_name(std::max(a.dtype, b.dtype)));
  }
}

std::vector<ir::TensorType> infer_pointwise(const InferContext& context) {
  check_one_dtype(context);
  const ir::TensorType& first = context.operands[0];
  if (first.dtype == ir::DType::kBool) {
    context.fail("operand '{}' is {}: it takes numbers, e.g. convert({}, f32)",
                 context.op.operands[0], first.str(), context.op.operands[0]);
  }
  return {{first.dtype, broadcast_all(context)}};
}

std::vector<ir::TensorType> infer_floating(const InferContext& context) {
  check_one_dtype(context);
  const ir::TensorType& first = context.operands[0];
  if (!ir::is_floating(first.dtype)) {
    context.fail("operand '{}' is {}: it takes a floating dtype, e.g. convert({}, f32)",
                 context.op.operands[0], first.str(), context.op.operands[0]);
  }
  return {{first.dtype, broadcast_all(context)}};
}

std::vector<ir::TensorType> infer_comparison(const InferContext& context) {
  check_one_dtype(context);
  return {{ir::DType::kBool, broadcast_all(context)}};
}

std::vector<ir::TensorType> infer_logical(const InferContext& context) {
  for (size_t i = 0; i < context.operands.size(); ++i) {
    if (context.operands[i].dtype == ir::DType::kBool) continue;
    context.fail("operand '{}' is {}: it takes bool, e.g. ne({}, 0)", context.op.operands[i],
                 context.operands[i].str(), context.op.operands[i]);
  }
  return {{ir::DType::kBool, broadcast_all(context)}};
}

std::vector<Sample> samples_unary(double low, double high) {
  return {
      {.operands = {f32({2, 3}, low, high)}, .attributes = {}},
      {.operands = {f32({}, low, high)}, .attributes = {}},
      {.operands = {f32({5, 1, 33}, low, high)}, .attributes = {}},
      {.operands = {{{ir::DType::kF64, {7}}, low, high}}, .attributes = {}},
      {.operands = {{{ir::DType::kBF16, {2, 17}}, low, high}}, .attributes = {}},
      {.operands = {{{ir::DType::kF16, {9}}, low, high}}, .attributes = {}},
  };
}

std::vector<Sample> samples_binary(double low, double high) {
  const auto pair = [&](ir::Shape a, ir::Shape b) {
    return Sample{.operands = {f32(std::move(a), low, high), f32(std::move(b), low, high)},
                  .attributes = {}};
  };
  return {
      pair({2, 3}, {2, 3}),
      pair({4, 3}, {3}),
      pair({4, 3}, {4, 1}),
      pair({4, 3}, {}),
      pair({}, {}),
      pair({3, 1, 5}, {2, 1}),
      {.operands = {{{ir::DType::kBF16, {2, 17}}, low, high},
                    {{ir::DType::kBF16, {17}}, low, high}},
       .attributes = {}},
  };
}

std::vector<Sample> samples_comparison() {
  std::vector<Sample> samples = samples_binary();
  const ir::TensorType flags{ir::DType::kBool, {3, 4}}, numbers{ir::DType::kI64, {3, 4}};
  samples.push_back({.operands = {{flags, 0, 1}, {flags, 0, 1}}, .attributes = {}});
  samples.push_back(
      {.operands = {{numbers, -1, 1}, {{ir::DType::kI64, {4}}, -1, 1}}, .attributes = {}});
  for (Sample& sample : samples) sample.check_gradient = false;
  return samples;
}

std::vector<Sample> samples_logical() {
  const auto flags = [](ir::Shape shape) {
    return SampleOperand{{ir::DType::kBool, std::move(shape)}, 0, 1};
  };
  return {{.operands = {flags({3, 4}), flags({3, 4})}, .attributes = {}, .check_gradient = false},
          {.operands = {flags({3, 1}), flags({4})}, .attributes = {}, .check_gradient = false}};
}

std::vector<BadSample> bad_samples_unary() {
  return {
      {{{ir::DType::kI64, {2}}}, {}, "operand 'x' is i64[2]: it takes a floating dtype"},
      {{}, {}, "0 operands given: it takes 1 (x)"},
      {{kF32Pair}, {{"axis", int64_t{0}}}, "unknown attribute 'axis': use none"},
  };
}

std::vector<BadSample> bad_samples_binary() {
  return {
      {{kF32Pair, {ir::DType::kI64, {2}}},
       {},
       "operands are f32[2] and i64[2]: convert one, e.g. convert(b, f32)"},
      {{{ir::DType::kI32, {}}, kF32Pair}, {}, "convert one, e.g. convert(a, f32)"},
      {{{ir::DType::kF32, {2, 3}}, kF32Pair}, {}, "shapes [2,3] and [2] do not broadcast"},
      {{kF32Pair}, {}, "1 operands given: it takes 2 (a, b)"},
  };
}

std::vector<BadSample> bad_samples_arithmetic() {
  std::vector<BadSample> samples = bad_samples_binary();
  const ir::TensorType flags{ir::DType::kBool, {2}};
  samples.push_back({{flags, flags}, {}, "operand 'a' is bool[2]: it takes numbers"});
  return samples;
}

std::vector<BadSample> bad_samples_logical() {
  const ir::TensorType flags{ir::DType::kBool, {2}};
  return {{{flags, kF32Pair}, {}, "operand 'b' is f32[2]: it takes bool, e.g. ne(b, 0)"},
          {{flags, {ir::DType::kBool, {3}}}, {}, "shapes [2] and [3] do not broadcast"},
          {{flags}, {}, "1 operands given: it takes 2 (a, b)"}};
}

}  // namespace monograph::ops
