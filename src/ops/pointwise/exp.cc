#include <cmath>

#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// exp(x); d = exp(x)
const OpDef exp_op = {
    .name = "exp",
    .doc = "e to the power of x.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](double x) { return std::exp(x); });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          return std::vector<ir::Value>{b.mul(cotangents[0], node.result())};
        },
    .samples = [] { return samples_unary(-3, 3); },
    .bad_samples = bad_samples_unary,
};

}  // namespace monograph::ops::defs
