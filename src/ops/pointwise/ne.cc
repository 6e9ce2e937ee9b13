#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// ne(a, b) = a != b
const OpDef ne_op = {
    .name = "ne",
    .doc = "True where a differs from b, broadcast.",
    .operands = {"a", "b"},
    .attributes = {},
    .traits = kPointwise | kCommutative,
    .infer = infer_comparison,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_binary(operands, results, [](auto a, auto b) { return a != b; });
        },
    .samples = [] { return samples_comparison(); },
    .bad_samples = bad_samples_binary,
};

}  // namespace monograph::ops::defs
