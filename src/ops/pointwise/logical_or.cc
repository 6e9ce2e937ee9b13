#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// logical_or(a, b) = a || b
const OpDef logical_or_op = {
    .name = "logical_or",
    .doc = "True where a or b is, broadcast; both are bool.",
    .operands = {"a", "b"},
    .attributes = {},
    .traits = kPointwise | kCommutative,
    .infer = infer_logical,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_binary(operands, results, [](auto a, auto b) { return a != 0 || b != 0; });
        },
    .samples = [] { return samples_logical(); },
    .bad_samples = bad_samples_logical,
};

}  // namespace monograph::ops::defs
