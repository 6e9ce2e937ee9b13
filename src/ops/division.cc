#include "ops/division.h"

#include <algorithm>

#include "ops/builder.h"
#include "ops/registry.h"

namespace monograph::ops {
namespace {

using ir::Placement;

// On flat ranges; what is beside them must be the same for all elements.
std::optional<Division> divide_packed(const DivisionContext& c, const Placement& packed) {
  std::vector<Placement> operands;
  for (int i = 0; i < c.node.num_operands(); ++i) {
    const bool is_flat = c.given[i].is_packed();
    if (!is_flat && c.shape(i).num_elements() != 1) return {};
    operands.push_back(is_flat ? packed : Placement::replicate());
  }
  return c.of(std::move(operands), packed);
}

}  // namespace

int DivisionContext::first_shard() const {
  const auto found = std::find_if(given.begin(), given.end(),
                                  [](const Placement& placement) { return placement.is_shard(); });
  return found == given.end() ? -1 : static_cast<int>(found - given.begin());
}

bool DivisionContext::all_sums() const {
  return !given.empty() && std::all_of(given.begin(), given.end(), [](const Placement& placement) {
    return placement.is_sum();
  });
}

Division DivisionContext::of(std::vector<Placement> operands, const Placement& result) const {
  return {std::move(operands),
          std::vector<Placement>(node.num_results(), result),
          node.attributes(),
          {}};
}

Division DivisionContext::of_each(const Placement& operands, const Placement& result) const {
  return of(std::vector<Placement>(node.num_operands(), operands), result);
}

std::optional<Division> divide(const DivisionContext& context) {
  const OpDef* op = op_of(context.node);
  if (op == nullptr) return {};
  if (op->placements != nullptr) return op->placements(context);
  return op->has(kPointwise) ? divide_pointwise(context) : std::nullopt;
}

std::optional<Division> divide_pointwise(const DivisionContext& c) {
  for (const Placement& given : c.given) {
    if (given.is_packed()) return divide_packed(c, given);
  }
  const int first = c.first_shard();
  if (first < 0) return {};
  const ir::Shape& shape = c.result_shape();
  const Placement& shard = c.given[first];
  const Placement result =
      Placement::shard(shard.dim + shape.rank() - c.shape(first).rank(), shard.blocks);
  std::vector<Placement> operands;
  for (ir::Value operand : c.node.operands()) {
    operands.push_back(ir::broadcast_shard(result, shape, operand.shape()));
  }
  return c.of(std::move(operands), result);
}

std::optional<Division> divide_linear(const DivisionContext& c) {
  if (c.all_sums()) return c.of_each(Placement::partial(), Placement::partial());
  return divide_pointwise(c);
}

std::optional<Division> divide_same(const DivisionContext& c) {
  return c.of({c.given.begin(), c.given.end()}, c.given[0]);
}

OwnIndex own_index(Builder& build, ir::Value index, ir::Value place, int64_t length) {
  const ir::Value first =
      build.convert(build.mul(place, static_cast<double>(length)), index.dtype());
  const ir::Value own = build.sub(index, first);
  const ir::Value zero = build.scalar(index.dtype(), 0);
  const ir::Value end = build.scalar(index.dtype(), static_cast<double>(length));
  const ir::Value is_own =
      build.emit("logical_and", {build.emit("ge", {own, zero}), build.emit("lt", {own, end})});
  return {build.where(is_own, own, zero), is_own};
}

}  // namespace monograph::ops
