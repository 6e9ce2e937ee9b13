#include "ops/builder.h"
#include "ops/elements.h"
#include "ops/reduce/reduce.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

template <typename T>
void add_up(const ir::Node& node, const ir::Literal& x, ir::Literal& result) {
  const std::vector<T> elements = read_elements<T>(x);
  const std::vector<int64_t> positions = reduced_positions(node, x.type().shape);
  std::vector<T> totals(result.num_elements());
  for (size_t i = 0; i < elements.size(); ++i) totals[positions[i]] += elements[i];
  write_elements(totals, result);
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  if (ir::is_floating(operands[0]->type().dtype)) {
    add_up<double>(node, *operands[0], results[0]);
  } else {
    add_up<int64_t>(node, *operands[0], results[0]);
  }
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Shape& shape = node.operand(0).shape();
  const ir::Shape ones = with_ones(shape, node.attribute<std::vector<int64_t>>("axes"));
  return {b.expand(b.reshape(cotangents[0], ones), shape)};
}

}  // namespace

// sum(x, axes, keepdim)
const OpDef sum_op = {
    .name = "sum",
    .doc =
        "The sum over axes (sorted, not negative), which are dropped or, with keepdim, left as "
        "1. The dtype is kept: convert first to sum in another one.",
    .operands = {"x"},
    .attributes = {{"axes", AttributeKind::kInts}, {"keepdim", AttributeKind::kBool}},
    .traits = kReduction,
    .infer = infer_reduction,
    .reference = reference,
    .gradient = gradient,
    .placements =
        [](const DivisionContext& context) {
          return divide_reduction(context, ir::Placement::Reduction::kSum);
        },
    .samples = samples_reduction,
    .bad_samples = bad_samples_reduction,
};

}  // namespace monograph::ops::defs
