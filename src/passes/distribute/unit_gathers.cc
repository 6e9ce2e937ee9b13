#include "passes/distribute/unit_gathers.h"

#include <fmt/format.h>

#include "ops/registry.h"

namespace monograph::passes {

using ir::FlatStates;
using ir::FlatUnit;
using ir::Node;
using ir::Value;

UnitGathers::UnitGathers(ops::Builder& build, std::span<const FlatStates> states,
                         PassContext& context)
    : build_(build), context_(context) {
  for (const FlatStates& each : states) {
    for (size_t i = 0; i < each.members.size(); ++i) {
      homes_[each.members[i]] = {&each, static_cast<int>(i)};
    }
  }
}

void UnitGathers::enter(const Node& node) {
  const bool does_work = !node.is_placeholder() && !ops::has_trait(node, ops::kCreation) &&
                         node.phase() != ir::Phase::kOptimizer && node.phase() != phase_;
  if (!does_work) return;
  phase_ = node.phase();
  ++window_;
}

std::optional<std::pair<const FlatStates*, int>> UnitGathers::find(const Node& state) const {
  if (!state.is("state")) return {};
  const auto found = homes_.find(state.name());
  if (found == homes_.end()) return {};
  return found->second;
}

const FlatStates* UnitGathers::packed_states(const Node& pack) const {
  const FlatStates* packed = nullptr;
  for (int i = 0; i < pack.num_operands(); ++i) {
    const auto home = find(*pack.operand(i).node);
    if (!home || home->second != i || (packed != nullptr && packed != home->first)) return nullptr;
    packed = home->first;
  }
  return static_cast<int>(packed->members.size()) == pack.num_operands() ? packed : nullptr;
}

bool UnitGathers::takes(Node& node) {
  bool is_taken = false;
  if (const auto home = find(node)) {
    shard(*home->first);
    is_taken = true;
  } else if (node.num_operands() == 1 && is_unit_value(node.operand(0))) {
    is_taken = (ops::has_trait(node, ops::kViewLike) || node.is("convert")) && !node.is("unpack");
  }
  if (!is_taken) return false;
  for (int i = 0; i < node.num_results(); ++i) lazy_.insert(node.result(i));
  return true;
}

Value UnitGathers::shard(const FlatStates& states) {
  Value& shard = shards_[&states];
  if (!shard) {
    shard = build_.graph().add_state(states.name, states.shard_type(), states.role)->result();
  }
  return shard;
}

int UnitGathers::window_of(const FlatStates& states) const {
  return states.unit->is_regathered ? window_ : 0;
}

const FlatStates& UnitGathers::states_under(Value value) const {
  while (!value.node->is("state")) value = value.node->operand(0);
  return *homes_.at(value.node->name()).first;
}

Value UnitGathers::whole(Value value) {
  const FlatStates& states = states_under(value);
  if (value.node->is("state")) {
    return gathered(states)->result(homes_.at(value.node->name()).second);
  }
  Node*& made = made_[{value.node, window_of(states)}];
  if (made == nullptr) {
    const Value operand = whole(value.node->operand(0));
    made = build_.emit_node(value.node->op(), {operand}, value.node->attributes());
  }
  return made->result(value.index);
}

Node* UnitGathers::gathered(const FlatStates& states) {
  const FlatUnit& unit = *states.unit;
  Node*& unpacked = gathers_[{&states, window_of(states)}];
  if (unpacked != nullptr) return unpacked;
  Node* gather = build_.emit_node("all_gather", {shard(states)},
                                  {{"axis", unit.axis},
                                   {"size", unit.axis_size},
                                   {"unit", unit.name},
                                   {"window", int64_t{window_of(states)}}});
  context_.remark(*gather, fmt::format("unit '{}' is read here as a whole, and each rank of '{}' "
                                       "keeps a part; nothing fuses across it",
                                       unit.name, unit.axis));
  Value flat = gather->result();
  if (flat.type().num_elements() > unit.num_elements()) {
    flat = build_.emit("slice", {flat},
                       {{"axis", int64_t{0}}, {"start", int64_t{0}}, {"end", unit.num_elements()}});
  }
  unpacked = build_.emit_node("unpack", {flat},
                              {{"shapes", unit.shapes()}, {"alignment", ir::kFlatAlignment}});
  return unpacked;
}

}  // namespace monograph::passes
