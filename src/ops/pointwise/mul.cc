#include "ops/builder.h"
#include "ops/division.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

// Summands times a number are summands.
std::optional<Division> placements(const DivisionContext& c) {
  const bool is_scaled =
      c.given[0].is_sum() && c.given[1].is_replicate() && c.shape(1).num_elements() == 1;
  if (is_scaled) return c.of({c.given[0], c.given[1]}, ir::Placement::partial());
  return divide_pointwise(c);
}

}  // namespace

// mul(a, b) = a * b
const OpDef mul_op = {
    .name = "mul",
    .doc = "a * b, broadcast.",
    .operands = {"a", "b"},
    .attributes = {},
    .traits = kPointwise | kCommutative,
    .infer = infer_pointwise,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_binary(operands, results, [](auto a, auto b) { return a * b; });
        },
    .gradient =
        [](Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
          return std::vector<ir::Value>{b.mul(cotangents[0], node.operand(1)),
                                        b.mul(cotangents[0], node.operand(0))};
        },
    .placements = placements,
    .samples = [] { return samples_binary(); },
    .bad_samples = bad_samples_arithmetic,
};

}  // namespace monograph::ops::defs
