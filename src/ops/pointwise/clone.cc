#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// clone(x) = x, in memory of its own
const OpDef clone_op = {
    .name = "clone",
    .doc = "A copy. Memory assignment makes one where a value must lie in two places.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = [](const InferContext& context) { return std::vector{context.operands[0]}; },
    .reference = [](const ir::Node&, Literals operands,
                    std::span<ir::Literal> results) { results[0] = *operands[0]; },
    .gradient = [](Builder&, ir::Node&, std::span<const ir::Value> cotangents)
        -> std::vector<ir::Value> { return {cotangents[0]}; },
    .samples = [] { return samples_unary(-2, 2); },
    .bad_samples =
        [] {
          return std::vector<BadSample>{{{}, {}, "0 operands given: it takes 1 (x)"}};
        },
};

}  // namespace monograph::ops::defs
