#include "passes/distribute/sharded_values.h"

#include <algorithm>

#include "base/error.h"
#include "ops/division.h"
#include "ops/registry.h"

namespace monograph::passes {

using ir::Node;
using ir::Placement;
using ir::Shape;
using ir::Value;

const Placement& ShardedValues::placement(Value value) const {
  static const Placement kReplicate;
  const auto found = made_.find(value);
  return found == made_.end() ? kReplicate : found->second.placement;
}

Value ShardedValues::as_made(Value value) const {
  const auto found = made_.find(value);
  return found == made_.end() ? value : found->second.local;
}

Value ShardedValues::moved(Value value, const Placement& wanted, std::string_view why) {
  if (placement(value) == wanted) return as_made(value);
  for (const Form& form : forms_[value]) {
    if (form.placement == wanted) return form.local;
  }
  check(wanted.is_replicate() || wanted.is_shard(), "{} is wanted as {}: {}",
        placement(value).str(), wanted.str(), why);
  const Value made = wanted.is_shard() ? make_part(value, wanted, why) : make_whole(value, why);
  forms_[value].push_back({wanted, made});
  return made;
}

Value ShardedValues::make_whole(Value value, std::string_view why) {
  const Placement& from = placement(value);
  check(!from.is_packed(), "a pack of parts is read as a whole: {}", why);
  if (from.is_partial()) return moves_.reduce(as_made(value), from, why);
  const Node& node = *value.node;
  if (node.is("reshape") || node.is("permute")) {  // another form of what may be gathered already
    return build_.emit(node.op(), {whole(node.operand(0), why)}, node.attributes());
  }
  return moves_.gather(as_made(value), from, value.shape(), why);
}

Value ShardedValues::make_part(Value value, const Placement& shard, std::string_view why) {
  const Placement& from = placement(value);
  if (from.is_partial()) return moves_.scatter(as_made(value), from, shard, why);
  if (from.is_replicate() && is_made_in_part(value, shard)) return made_in_part(value, shard, why);
  return moves_.cut(whole(value, why), shard);
}

bool ShardedValues::is_made_in_part(Value value, const Placement& shard, int depth) const {
  constexpr int kMaxDepth = 4;
  const Node& node = *value.node;
  if (node.is("full")) return true;
  if (node.is("iota")) return shard.blocks == 1 || node.attribute<int64_t>("axis") != shard.dim;
  if (node.is("segment_sum")) {
    return shard.dim == 0 && shard.blocks == 1 && node.operand(1).node->is("sort_ids");
  }
  if (!node.is("expand") && !ops::has_trait(node, ops::kPointwise)) return false;
  return depth < kMaxDepth &&
         std::all_of(node.operands().begin(), node.operands().end(), [&](Value operand) {
           const Placement wanted = ir::broadcast_shard(shard, value.shape(), operand.shape());
           return wanted.is_replicate() || is_made_in_part(operand, wanted, depth + 1);
         });
}

Value ShardedValues::made_in_part(Value value, const Placement& shard, std::string_view why) {
  const Node& node = *value.node;
  const Shape shape = shard.part_of(value.shape(), moves_.size());
  if (node.is("full")) return build_.full({value.dtype(), shape}, node.attribute<double>("value"));
  if (node.is("segment_sum")) return segments_in_part(node, shard, why);
  if (node.is("iota")) {
    ir::Attributes attributes = node.attributes();
    attributes["shape"] = shape.dims();
    const Value index = build_.emit("iota", {}, attributes);
    if (node.attribute<int64_t>("axis") != shard.dim) return index;
    const Value first = build_.mul(moves_.coordinate(), static_cast<double>(shape[shard.dim]));
    return build_.add(index, build_.convert(first, value.dtype()));
  }
  std::vector<Value> operands;
  for (Value operand : node.operands()) {
    operands.push_back(
        moved(operand, ir::broadcast_shard(shard, value.shape(), operand.shape()), why));
  }
  if (node.is("expand")) return build_.expand(operands[0], shape);
  return build_.emit(node.op(), operands, node.attributes());
}

// The rows of others' ids are added to segment 0 as zeros.
Value ShardedValues::segments_in_part(const Node& node, const Placement& shard,
                                      std::string_view why) {
  const Value values = whole(node.operand(0), why);
  const Value ids = whole(node.operand(1).node->operand(0), why);
  const int64_t length = shard.part_of(node.types()[0].shape, moves_.size())[0];
  const ops::OwnIndex own = ops::own_index(build_, ids, moves_.coordinate(), length);
  std::vector<int64_t> dims(values.shape().dims().begin(), values.shape().dims().end());
  dims.back() = 1;
  const Value is_own = build_.reshape(own.is_own, Shape(std::move(dims)));
  const Value rows = build_.where(is_own, values, build_.scalar(values.dtype(), 0));
  Node* sorted = build_.emit_node("sort_ids", {own.index}, {{"num_ids", length}});
  return build_.emit("segment_sum", {rows, sorted->result(0), sorted->result(1)});
}

}  // namespace monograph::passes
