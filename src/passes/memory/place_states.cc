#include "passes/memory/place_states.h"

#include <algorithm>

#include "base/error.h"
#include "ir/state_role.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Segment;
using ir::StateRole;
using ir::Value;

Segment segment_of(StateRole role) {
  switch (role) {
    case StateRole::kParameter:
      return Segment::kWeights;
    case StateRole::kMoment:
      return Segment::kMoments;
    case StateRole::kBuffer:
      return Segment::kBuffers;
  }
  return Segment::kBuffers;
}

StateRole role_of(const Node& state) {
  return ir::parse_role(state.attribute<std::string>("role")).value();
}

void add_state(const Node& state, StateLayout& layout) {
  if (layout.entries.contains(state.name())) return;
  const StateRole role = role_of(state);
  const Segment segment = segment_of(role);
  int64_t& bytes = layout.segment_bytes[static_cast<int>(segment)];
  const int64_t offset = align_up(bytes, kTensorAlignment);
  layout.entries[state.name()] = {state.types()[0], role, {segment, offset}};
  bytes = offset + state.types()[0].num_bytes();
}

// The states that a pack gathers; empty when it gathers anything else, or one of them twice.
std::vector<const Node*> packed_states(const Node& pack) {
  std::vector<const Node*> members;
  for (Value operand : pack.operands()) {
    const bool is_known = std::count(members.begin(), members.end(), operand.node) > 0;
    if (!operand.node->is("state") || is_known) return {};
    members.push_back(operand.node);
  }
  return members;
}

void place_state_pack(const Node& pack, StateLayout& layout, StatePlacements& result) {
  const std::vector<const Node*> members = packed_states(pack);
  if (members.empty()) return;
  std::vector<ir::Shape> shapes;
  for (const Node* state : members) shapes.push_back(state->types()[0].shape);
  const auto offsets = pack_offsets(shapes, pack.attribute<int64_t>("alignment"));
  const int64_t element = ir::dtype_bytes(pack.types()[0].dtype);
  const StateRole role = role_of(*members[0]);
  const Segment segment = segment_of(role);
  const bool all_new = std::none_of(members.begin(), members.end(), [&](const Node* state) {
    return layout.entries.contains(state->name());
  });
  if (all_new) {
    int64_t& bytes = layout.segment_bytes[static_cast<int>(segment)];
    const int64_t base = align_up(bytes, kPageBytes);
    for (size_t i = 0; i < members.size(); ++i) {
      layout.entries[members[i]->name()] = {
          members[i]->types()[0], role, {segment, base + offsets[i] * element}};
    }
    bytes = base + offsets.back() * element;
  }
  for (const Node* state : members) add_state(*state, layout);
  const int64_t base = layout.entries.at(members[0]->name()).address.offset;
  for (size_t i = 0; i < members.size(); ++i) {
    const ir::Address expected = {segment, base + offsets[i] * element};
    if (layout.entries.at(members[i]->name()).address != expected) return;
  }
  result.packs[&pack] = {static_cast<int>(segment), base / element, {1}};
}

}  // namespace

int64_t align_up(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

StatePlacements place_states(const ir::Graph& graph, StateLayout& layout) {
  StatePlacements result;
  for (const auto& node : graph.nodes()) {
    if (node->is("pack")) place_state_pack(*node, layout, result);
  }
  for (Node* state : graph.states()) {
    add_state(*state, layout);
    const auto& entry = layout.entries.at(state->name());
    if (entry.type != state->types()[0]) {
      throw_user_error("state '{}' is {} here, but {} in the session: use another name",
                       state->name(), state->types()[0].str(), entry.type.str());
    }
    result.states[state->result()] = {static_cast<int>(entry.address.segment),
                                      entry.address.offset / ir::dtype_bytes(entry.type.dtype),
                                      entry.type.shape.contiguous_strides()};
  }
  return result;
}

}  // namespace monograph::passes
