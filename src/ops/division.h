#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/placement.h"
#include "ops/op_def.h"

namespace monograph::ops {

// What each rank of a mesh axis does for a node whose values lie in parts over the axis.
struct Division {
  // Appends what gives the rank's results from its operands. `place`: that of the rank on the axis,
  // i64[].
  using Local = std::function<std::vector<ir::Value>(Builder&, std::span<const ir::Value> operands,
                                                     ir::Value place)>;

  std::vector<ir::Placement> operands;  // as the rank must have them
  std::vector<ir::Placement> results;   // as they lie then
  ir::Attributes attributes;            // of the op on what the rank has
  Local local = nullptr;                // where it is not the op itself
};

// Asks an op's placement rule: operands lie as `given`, and may be moved.
struct DivisionContext {
  const ir::Node& node;
  std::span<const ir::Placement> given;
  int64_t size;                // ranks of the axis
  std::string_view axis = {};  // its name

  const ir::Shape& shape(int operand) const { return node.operand(operand).shape(); }
  const ir::Shape& result_shape(int result = 0) const { return node.types()[result].shape; }
  // The first operand that lies as a shard; -1: none.
  int first_shard() const;
  bool all_sums() const;  // every operand is a summand

  // The node on operands and with results that lie so.
  Division of(std::vector<ir::Placement> operands, const ir::Placement& result) const;
  Division of_each(const ir::Placement& operands, const ir::Placement& result) const;
};

// How the ranks divide the work of a node, by its op's rule; none where no rule holds: each rank
// then does all of it, on whole operands.
std::optional<Division> divide(const DivisionContext& context);

// The rule of pointwise ops: all operands as the first shard; flat ranges beside each other.
std::optional<Division> divide_pointwise(const DivisionContext& context);
// The same for ops that are linear in all their operands together: summands stay summands.
std::optional<Division> divide_linear(const DivisionContext& context);
// The rule of views that show every element where its dims are: clone, detach, after.
std::optional<Division> divide_same(const DivisionContext& context);

// Where indices count along a dim of which ranks have parts of `length`: the index into the rank's
// own part, 0 for those of others, and whether it is its own.
struct OwnIndex {
  ir::Value index, is_own;
};
OwnIndex own_index(Builder& build, ir::Value index, ir::Value place, int64_t length);

}  // namespace monograph::ops
