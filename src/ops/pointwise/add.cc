#include "ops/builder.h"
#include "ops/division.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// add(a, b) = a + b
const OpDef add_op = {
    .name = "add",
    .doc = "a + b, broadcast.",
    .operands = {"a", "b"},
    .attributes = {},
    .traits = kPointwise | kCommutative,
    .infer = infer_pointwise,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_binary(operands, results, [](auto a, auto b) { return a + b; });
        },
    .gradient =
        [](Builder&, ir::Node&, std::span<const ir::Value> cotangents) {
          return std::vector<ir::Value>{cotangents[0], cotangents[0]};
        },
    .placements = divide_linear,
    .samples = [] { return samples_binary(); },
    .bad_samples = bad_samples_arithmetic,
};

}  // namespace monograph::ops::defs
