#include "passes/distribute/axis_moves.h"

#include <fmt/format.h>

#include "ir/mesh.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Placement;
using ir::Shape;
using ir::Value;
using Dims = std::vector<int64_t>;

// [before..., blocks, ranks, length, after...] of a whole value.
Dims split_dims(const Shape& whole, const Placement& shard, int64_t size) {
  const Dims& dims = whole.dims();
  Dims result(dims.begin(), dims.begin() + shard.dim);
  for (int64_t each : {shard.blocks, size, dims[shard.dim] / (shard.blocks * size)}) {
    result.push_back(each);
  }
  result.insert(result.end(), dims.begin() + shard.dim + 1, dims.end());
  return result;
}

bool is_outermost(const Placement& shard) {
  return shard.dim == 0 && shard.blocks == 1;
}

}  // namespace

ir::Attributes AxisMoves::attributes() const {
  return {{"axis", axis_}, {"size", size_}};
}

Value AxisMoves::gather(Value part, const Placement& shard, const Shape& whole,
                        std::string_view why) {
  const auto gathered = [&](Value value) {
    Node* node = build_.emit_node("all_gather", {value}, attributes());
    context_.remark(*node, fmt::format("axis '{}': {}", axis_, why));
    return node->result();
  };
  if (is_outermost(shard)) return gathered(part);
  Dims dims = split_dims(whole, shard, size_);
  const int ranks = shard.dim + 1;
  dims.erase(dims.begin() + ranks);
  dims.insert(dims.begin(), 1);
  const Value all = gathered(build_.reshape(part, Shape(dims)));
  std::vector<int64_t> axes;
  for (int i = 1; i <= ranks; ++i) axes.push_back(i);
  axes.push_back(0);
  for (int i = ranks + 1; i < static_cast<int>(dims.size()); ++i) axes.push_back(i);
  return build_.reshape(build_.permute(all, axes), whole);
}

ir::Attributes AxisMoves::attributes(const Placement& partial) const {
  const bool is_sum = partial.reduction == Placement::Reduction::kSum;
  return {{"axis", axis_}, {"size", size_}, {"op", std::string(is_sum ? "sum" : "max")}};
}

Value AxisMoves::reduce(Value own, const Placement& partial, std::string_view why) {
  Node* node = build_.emit_node("all_reduce", {own}, attributes(partial));
  context_.remark(*node, fmt::format("axis '{}': {}", axis_, why));
  return node->result();
}

// [ranks, ...]: the part of each rank.
Value AxisMoves::ranks_first(Value whole, const Placement& shard) {
  if (is_outermost(shard)) return whole;
  const Dims dims = split_dims(whole.shape(), shard, size_);
  const int ranks = shard.dim + 1;
  std::vector<int64_t> axes = {ranks};
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    if (i != ranks) axes.push_back(i);
  }
  return build_.permute(build_.reshape(whole, Shape(dims)), axes);
}

Value AxisMoves::scatter(Value own, const Placement& partial, const Placement& shard,
                         std::string_view why) {
  Node* node = build_.emit_node("reduce_scatter", {ranks_first(own, shard)}, attributes(partial));
  context_.remark(*node, fmt::format("axis '{}': {}", axis_, why));
  return build_.reshape(node->result(), shard.part_of(own.shape(), size_));
}

Value AxisMoves::cut(Value whole, const Placement& shard) {
  const int64_t elements = whole.type().num_elements() / size_;
  const Value rows = build_.reshape(ranks_first(whole, shard), {size_, elements});
  const Value row = build_.emit("embedding", {rows, build_.reshape(coordinate(), {1})});
  return build_.reshape(row, shard.part_of(whole.shape(), size_));
}

Value AxisMoves::coordinate() {
  const std::string name = fmt::format("{}{}", ir::kCoordinatePrefix, axis_);
  if (Node* known = build_.graph().find_placeholder(name)) return known->result();
  return build_.graph().add_state(name, {ir::DType::kI64, {}}, ir::StateRole::kBuffer)->result();
}

}  // namespace monograph::passes
