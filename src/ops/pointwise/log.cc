#include <cmath>

#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// log(x); d = 1 / x
const OpDef log_op = {
    .name = "log",
    .doc = "Natural logarithm.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](double x) { return std::log(x); });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          return std::vector<ir::Value>{b.div(cotangents[0], node.operand(0))};
        },
    .samples = [] { return samples_unary(0.5, 3); },
    .bad_samples = bad_samples_unary,
};

}  // namespace monograph::ops::defs
