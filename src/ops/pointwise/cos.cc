#include <cmath>

#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// cos(x); d = -sin(x)
const OpDef cos_op = {
    .name = "cos",
    .doc = "Cosine of x in radians.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](double x) { return std::cos(x); });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          return std::vector<ir::Value>{
              b.neg(b.mul(cotangents[0], b.emit("sin", {node.operand(0)})))};
        },
    .samples = [] { return samples_unary(-3, 3); },
    .bad_samples = bad_samples_unary,
};

}  // namespace monograph::ops::defs
