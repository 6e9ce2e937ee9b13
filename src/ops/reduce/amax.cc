#include "ops/builder.h"
#include "ops/elements.h"
#include "ops/reduce/reduce.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  std::vector<ir::TensorType> types = infer_reduction(context);
  for (int64_t axis : context.attribute<std::vector<int64_t>>("axes")) {
    if (context.shape(0)[static_cast<int>(axis)] > 0) continue;
    context.fail("axis {} of {} is empty: the largest of nothing is undefined", axis,
                 context.operands[0].str());
  }
  return types;
}

template <typename T>
void find_largest(const ir::Node& node, const ir::Literal& x, ir::Literal& result) {
  const std::vector<T> elements = read_elements<T>(x);
  const std::vector<int64_t> positions = reduced_positions(node, x.type().shape);
  std::vector<T> largest(result.num_elements());
  std::vector<bool> seen(largest.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    T& slot = largest[positions[i]];
    const T x_i = elements[i];
    if (!seen[positions[i]] || x_i > slot || x_i != x_i) slot = x_i;  // NaN wins and stays
    seen[positions[i]] = true;
  }
  write_elements(largest, result);
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  if (ir::is_floating(operands[0]->type().dtype)) {
    find_largest<double>(node, *operands[0], results[0]);
  } else {
    find_largest<int64_t>(node, *operands[0], results[0]);
  }
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Value x = node.operand(0);
  const auto& axes = node.attribute<std::vector<int64_t>>("axes");
  const ir::Shape ones = with_ones(x.shape(), axes);
  const ir::Value is_largest = b.emit("eq", {x, b.reshape(node.result(), ones)});
  const ir::Value num_largest = b.sum(b.convert(is_largest, x.dtype()), axes, true);
  const ir::Value share = b.div(b.reshape(cotangents[0], ones), num_largest);
  return {b.where(is_largest, share, b.scalar(x.dtype(), 0))};
}

}  // namespace

// amax(x, axes, keepdim); ties share the gradient evenly
const OpDef amax_op = {
    .name = "amax",
    .doc =
        "The largest element over axes (sorted, not negative), which are dropped or, with "
        "keepdim, left as 1; NaN when one is NaN. Ties share the gradient evenly.",
    .operands = {"x"},
    .attributes = {{"axes", AttributeKind::kInts}, {"keepdim", AttributeKind::kBool}},
    .traits = kReduction,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .placements =
        [](const DivisionContext& context) {
          return divide_reduction(context, ir::Placement::Reduction::kMax);
        },
    .samples = samples_reduction,
    .bad_samples =
        [] {
          std::vector<BadSample> samples = bad_samples_reduction();
          samples.push_back({{{ir::DType::kF32, {2, 0}}},
                             {{"axes", std::vector<int64_t>{1}}, {"keepdim", false}},
                             "axis 1 of f32[2,0] is empty"});
          return samples;
        },
};

}  // namespace monograph::ops::defs
