#include "ops/builder.h"
#include "ops/division.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// sub(a, b) = a - b
const OpDef sub_op = {
    .name = "sub",
    .doc = "a - b, broadcast.",
    .operands = {"a", "b"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_pointwise,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_binary(operands, results, [](auto a, auto b) { return a - b; });
        },
    .gradient =
        [](Builder& b, ir::Node&, std::span<const ir::Value> cotangents) {
          return std::vector<ir::Value>{cotangents[0], b.neg(cotangents[0])};
        },
    .placements = divide_linear,
    .samples = [] { return samples_binary(); },
    .bad_samples = bad_samples_arithmetic,
};

}  // namespace monograph::ops::defs
