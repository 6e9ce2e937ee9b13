#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// reciprocal(x) = 1 / x; d = -1 / x^2
const OpDef reciprocal_op = {
    .name = "reciprocal",
    .doc = "One over x.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](double x) { return 1 / x; });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          const ir::Value y = node.result();
          return std::vector<ir::Value>{b.neg(b.mul(cotangents[0], b.mul(y, y)))};
        },
    .samples = [] { return samples_unary(0.5, 3); },
    .bad_samples = bad_samples_unary,
};

}  // namespace monograph::ops::defs
