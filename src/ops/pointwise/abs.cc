#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// abs(x) = |x|; d = sign(x), 0 at 0
const OpDef abs_op = {
    .name = "abs",
    .doc = "Absolute value; its derivative at 0 is 0.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_pointwise,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](auto x) { return x > 0 ? x : 0 - x; });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          const ir::Value x = node.operand(0), zero = b.scalar(x.dtype(), 0);
          const ir::Value negative = b.where(b.emit("lt", {x, zero}), b.neg(cotangents[0]), zero);
          return std::vector<ir::Value>{b.where(b.emit("gt", {x, zero}), cotangents[0], negative)};
        },
    .samples = [] { return samples_unary(0.5, 3); },
    .bad_samples =
        [] {
          return std::vector<BadSample>{
              {{{ir::DType::kBool, {2}}}, {}, "operand 'x' is bool[2]: it takes numbers"}};
        },
};

}  // namespace monograph::ops::defs
