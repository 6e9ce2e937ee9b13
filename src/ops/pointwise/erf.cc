#include <cmath>

#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// erf(x); d = 2 / sqrt(pi) * exp(-x^2)
const OpDef erf_op = {
    .name = "erf",
    .doc = "Error function.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](double x) { return std::erf(x); });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          constexpr double kTwoOverRootPi = 1.1283791670955125739;
          const ir::Value x = node.operand(0);
          const ir::Value slope = b.mul(b.emit("exp", {b.neg(b.mul(x, x))}), kTwoOverRootPi);
          return std::vector<ir::Value>{b.mul(cotangents[0], slope)};
        },
    .samples = [] { return samples_unary(-3, 3); },
    .bad_samples = bad_samples_unary,
};

}  // namespace monograph::ops::defs
