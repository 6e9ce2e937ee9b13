#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// logical_not(x) = !x
const OpDef logical_not_op = {
    .name = "logical_not",
    .doc = "True where x is false; x is bool.",
    .operands = {"x"},
    .attributes = {},
    .traits = kPointwise,
    .infer = infer_logical,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](auto x) { return x == 0; });
        },
    .samples =
        [] {
          return std::vector<Sample>{{.operands = {{{ir::DType::kBool, {3, 4}}, 0, 1}},
                                      .attributes = {},
                                      .check_gradient = false}};
        },
    .bad_samples =
        [] {
          return std::vector<BadSample>{{{{ir::DType::kF32, {2}}},
                                         {},
                                         "operand 'x' is f32[2]: it takes bool, e.g. ne(x, 0)"}};
        },
};

}  // namespace monograph::ops::defs
