#include <cmath>

#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// sqrt(x); d = 1 / (2 sqrt(x))
const OpDef sqrt_op = {
    .name = "sqrt",
    .doc = "Square root.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](double x) { return std::sqrt(x); });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          return std::vector<ir::Value>{b.div(b.mul(cotangents[0], 0.5), node.result())};
        },
    .samples = [] { return samples_unary(0.5, 3); },
    .bad_samples = bad_samples_unary,
};

}  // namespace monograph::ops::defs
