#include "ops/builder.h"
#include "ops/division.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// neg(x) = -x
const OpDef neg_op = {
    .name = "neg",
    .doc = "-x.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_pointwise,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](auto x) { return -x; });
        },
    .gradient =
        [](Builder& b, ir::Node&, std::span<const ir::Value> cotangents) {
          return std::vector<ir::Value>{b.neg(cotangents[0])};
        },
    .placements = divide_linear,
    .samples = [] { return samples_unary(-3, 3); },
    .bad_samples =
        [] {
          return std::vector<BadSample>{
              {{{ir::DType::kBool, {2}}}, {}, "operand 'x' is bool[2]: it takes numbers"}};
        },
};

}  // namespace monograph::ops::defs
