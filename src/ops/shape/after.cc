#include "ops/builder.h"
#include "ops/division.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<Sample> samples() {
  const SampleOperand x{{ir::DType::kF32, {2, 3}}}, token{{ir::DType::kI64, {4}}, -9, 9};
  return {{.operands = {x, token}, .attributes = {}},
          {.operands = {x, token, token}, .attributes = {}},
          {.operands = {token, token}, .attributes = {}, .check_gradient = false}};
}

}  // namespace

// after(x, tokens...) = x
const OpDef after_op = {
    .name = "after",
    .doc =
        "x itself, for those who may run only when the tokens are computed (XLA's "
        "optimization_barrier).",
    .operands = {"x", "tokens..."},
    .attributes = {},
    .traits = kViewLike,
    .infer = [](const InferContext& context) { return std::vector{context.operands[0]}; },
    .reference = [](const ir::Node&, Literals operands,
                    std::span<ir::Literal> results) { results[0] = *operands[0]; },
    .gradient =
        [](Builder&, ir::Node& node, std::span<const ir::Value> cotangents) {
          std::vector<ir::Value> gradients(node.num_operands());
          gradients[0] = cotangents[0];
          return gradients;
        },
    .placements = divide_same,
    .samples = samples,
    .bad_samples =
        [] {
          return std::vector<BadSample>{{{{ir::DType::kF32, {2}}}, {}, "1 operands given"}};
        },
};

}  // namespace monograph::ops::defs
