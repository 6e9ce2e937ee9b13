#include <cmath>

#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// pow(a, b) = a^b; d a = b a^(b-1), d b = a^b log(a), both 0 where the limit is
const OpDef pow_op = {
    .name = "pow",
    .doc = "a to the power of b, broadcast; floating dtypes only.",
    .operands = {"a", "b"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_floating,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_binary(operands, results, [](double a, double b) { return std::pow(a, b); });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          const ir::Value base = node.operand(0), exponent = node.operand(1);
          const ir::Value zero = b.scalar(base.dtype(), 0);
          const ir::Value lower = b.emit("pow", {base, b.add(exponent, -1.0)});
          const ir::Value d_base = b.where(b.emit("eq", {exponent, zero}), zero,
                                           b.mul(cotangents[0], b.mul(exponent, lower)));
          // 0^b stays 0 (or 1 for b = 0) as b grows: without this, 0 * log(0) is NaN.
          const ir::Value flat =
              b.emit("logical_and", {b.emit("eq", {base, zero}), b.emit("ge", {exponent, zero})});
          const ir::Value slope = b.mul(node.result(), b.emit("log", {base}));
          return std::vector<ir::Value>{d_base, b.where(flat, zero, b.mul(cotangents[0], slope))};
        },
    .samples = [] { return samples_binary(0.5, 2); },
    .bad_samples = bad_samples_binary,
};

}  // namespace monograph::ops::defs
