#include <cmath>

#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// rsqrt(x) = 1 / sqrt(x); d = -rsqrt(x)^3 / 2
const OpDef rsqrt_op = {
    .name = "rsqrt",
    .doc = "One over the square root.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](double x) { return 1 / std::sqrt(x); });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          const ir::Value y = node.result();
          const ir::Value cube = b.mul(b.mul(y, y), y);
          return std::vector<ir::Value>{b.mul(b.mul(cotangents[0], -0.5), cube)};
        },
    .samples = [] { return samples_unary(0.5, 3); },
    .bad_samples = bad_samples_unary,
};

}  // namespace monograph::ops::defs
