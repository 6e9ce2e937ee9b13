#include <cmath>

#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// tanh(x); d = 1 - tanh(x)^2
const OpDef tanh_op = {
    .name = "tanh",
    .doc = "Hyperbolic tangent.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](double x) { return std::tanh(x); });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          const ir::Value y = node.result();
          const ir::Value slope = b.add(b.neg(b.mul(y, y)), 1.0);
          return std::vector<ir::Value>{b.mul(cotangents[0], slope)};
        },
    .samples = [] { return samples_unary(-3, 3); },
    .bad_samples = bad_samples_unary,
};

}  // namespace monograph::ops::defs
