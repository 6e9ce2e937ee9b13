#include "passes/distribute/unit_gathers.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"

namespace monograph::passes {

using ir::FlatStates;
using ir::FlatUnit;
using ir::Node;
using ir::Value;

namespace {

bool is_view(const Node& node) {
  return ops::has_trait(node, ops::kViewLike) && !node.is("unpack");
}

}  // namespace

UnitGathers::UnitGathers(const ir::Graph& before, ops::Builder& build,
                         std::span<const FlatStates> states, PassContext& context)
    : build_(build), context_(context) {
  for (const FlatStates& each : states) {
    for (size_t i = 0; i < each.members.size(); ++i) {
      homes_[each.members[i]] = {&each, static_cast<int>(i)};
    }
    dtypes_[&each] = ir::DType::kBF16;
  }
  find_dtypes(before);
}

void UnitGathers::find_dtypes(const ir::Graph& before) {
  const Users users = ir::users_of(before);
  ir::ValueSet roots;
  for (const auto& output : before.outputs()) roots.insert(output.value);
  for (Node* state : before.states()) {
    const auto home = find(*state);
    if (home && !is_read_narrow(state->result(), users, roots)) {
      dtypes_[home->first] = ir::DType::kF32;
    }
  }
}

// Whether all who read the value as a whole, perhaps through views, read it as bf16.
bool UnitGathers::is_read_narrow(Value value, const Users& users, const ir::ValueSet& roots) const {
  if (roots.contains(value)) return false;
  const auto found = users.find(value);
  if (found == users.end()) return true;
  return std::all_of(found->second.begin(), found->second.end(), [&](Node* user) {
    if (user->is("convert")) return user->types()[0].dtype == ir::DType::kBF16;
    if (user->is("pack")) return packed_states(*user) != nullptr;
    if (user->num_operands() != 1 || !is_view(*user)) return false;
    for (int i = 0; i < user->num_results(); ++i) {
      if (!is_read_narrow(user->result(i), users, roots)) return false;
    }
    return true;
  });
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
  const bool is_all =
      packed != nullptr && static_cast<int>(packed->members.size()) == pack.num_operands();
  return is_all ? packed : nullptr;
}

bool UnitGathers::takes(Node& node) {
  bool is_taken = false;
  if (const auto home = find(node)) {
    shard(*home->first);
    is_taken = true;
  } else if (node.num_operands() == 1 && is_unit_value(node.operand(0))) {
    is_taken = is_view(node) || node.is("convert");
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
    if (value.node->is("convert") && operand.dtype() == value.dtype()) return operand;
    made = build_.emit_node(value.node->op(), {operand}, value.node->attributes());
  }
  return made->result(value.index);
}

Node* UnitGathers::gathered(const FlatStates& states) {
  const FlatUnit& unit = *states.unit;
  Node*& unpacked = gathers_[{&states, window_of(states)}];
  if (unpacked != nullptr) return unpacked;
  const Value part = build_.convert(shard(states), dtypes_.at(&states));
  Node* gather = build_.emit_node("all_gather", {part},
                                  {{"axis", unit.axis},
                                   {"size", unit.axis_size},
                                   {"unit", unit.name},
                                   {"window", int64_t{window_of(states)}}});
  context_.remark(*gather, fmt::format("unit '{}' is read here as a whole, in {}, and each rank of "
                                       "'{}' keeps a part; nothing fuses across it",
                                       unit.name, ir::dtype_name(part.dtype()), unit.axis));
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
