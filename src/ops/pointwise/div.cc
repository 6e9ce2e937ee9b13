#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// div(a, b) = a / b
const OpDef div_op = {
    .name = "div",
    .doc = "a / b, broadcast; floating dtypes only.",
    .operands = {"a", "b"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_binary(operands, results, [](double a, double b) { return a / b; });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          const ir::Value divisor = node.operand(1);
          const ir::Value quotient = b.div(cotangents[0], divisor);
          return std::vector<ir::Value>{quotient, b.neg(b.mul(quotient, node.result()))};
        },
    .samples = [] { return samples_binary(0.5, 2); },
    .bad_samples = bad_samples_binary,
};

}  // namespace monograph::ops::defs
