#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// minimum(a, b): the smaller; NaN when one is NaN; a tie gives half the gradient to each
const OpDef minimum_op = {
    .name = "minimum",
    .doc = "The smaller of a and b, broadcast; NaN when one of them is. Ties share the gradient.",
    .operands = {"a", "b"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_pointwise,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_binary(operands, results,
                           [](auto a, auto b) { return a < b || a != a ? a : b; });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          const ir::Value x = node.operand(0), y = node.operand(1);
          const ir::Value g = cotangents[0], zero = b.scalar(g.dtype(), 0);
          const ir::Value shared = b.where(b.emit("eq", {x, y}), b.mul(g, 0.5), g);
          return std::vector<ir::Value>{b.where(b.emit("gt", {x, y}), zero, shared),
                                        b.where(b.emit("gt", {y, x}), zero, shared)};
        },
    .samples = [] { return samples_binary(); },
    .bad_samples = bad_samples_arithmetic,
};

}  // namespace monograph::ops::defs
