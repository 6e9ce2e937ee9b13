#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  if (context.operands[0].dtype != ir::DType::kBool) {
    context.fail("operand 'condition' is {}: it takes bool, e.g. ne(condition, 0)",
                 context.operands[0].str());
  }
  check_one_dtype(context, 1);
  const ir::Shape branches =
      ir::broadcast_shapes(context.op.name, context.shape(1), context.shape(2));
  return {{context.operands[1].dtype,
           ir::broadcast_shapes(context.op.name, context.shape(0), branches)}};
}

template <typename T>
void choose(Literals operands, ir::Literal& result) {
  const ir::Shape& shape = result.type().shape;
  const std::vector<int64_t> flags = read_broadcast<int64_t>(*operands[0], shape);
  const std::vector<T> a = read_broadcast<T>(*operands[1], shape);
  const std::vector<T> b = read_broadcast<T>(*operands[2], shape);
  std::vector<T> chosen(flags.size());
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = flags[i] ? a[i] : b[i];
  write_elements(chosen, result);
}

void reference(const ir::Node&, Literals operands, std::span<ir::Literal> results) {
  if (ir::is_floating(operands[1]->type().dtype)) {
    choose<double>(operands, results[0]);
  } else {
    choose<int64_t>(operands, results[0]);
  }
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Value condition = node.operand(0), g = cotangents[0];
  const ir::Value zero = b.scalar(g.dtype(), 0);
  return {{}, b.where(condition, g, zero), b.where(condition, zero, g)};
}

std::vector<Sample> samples() {
  const auto flags = [](ir::Shape shape) {
    return SampleOperand{{ir::DType::kBool, std::move(shape)}, 0, 1};
  };
  const auto numbers = [](ir::Shape shape) {
    return SampleOperand{{ir::DType::kF32, std::move(shape)}};
  };
  const SampleOperand ids{{ir::DType::kI64, {4}}, -9, 9};
  return {{.operands = {flags({3, 4}), numbers({3, 4}), numbers({3, 4})}, .attributes = {}},
          {.operands = {flags({3, 1}), numbers({4}), numbers({})}, .attributes = {}},
          {.operands = {flags({}), numbers({2}), numbers({3, 1})}, .attributes = {}},
          {.operands = {flags({4}), ids, ids}, .attributes = {}, .check_gradient = false}};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType flags{ir::DType::kBool, {2}}, x{ir::DType::kF32, {2}};
  return {{{x, x, x}, {}, "operand 'condition' is f32[2]: it takes bool"},
          {{flags, x, {ir::DType::kF64, {2}}}, {}, "convert one, e.g. convert(a, f64)"},
          {{flags, x, {ir::DType::kF32, {3}}}, {}, "shapes [2] and [3] do not broadcast"}};
}

}  // namespace

// where(condition, a, b) = condition ? a : b
const OpDef where_op = {
    .name = "where",
    .doc = "a where condition (bool) holds, else b; all three broadcast.",
    .operands = {"condition", "a", "b"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
