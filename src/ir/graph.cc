#include "ir/graph.h"

#include <algorithm>

#include "base/error.h"
#include "ir/node_bytes.h"
#include "ir/node_positions.h"

namespace monograph::ir {
namespace {

// A value of no node of the graph has id -1: a broken graph can be hashed too, the verifier judges
// it.
void add_value(NodeBytes& bytes, Value value, const NodePositions& ids) {
  bytes.add(int64_t{ids(value.node)});
  bytes.add(int64_t{value.index});
}

void add_node(NodeBytes& bytes, const Node& node, const NodePositions& ids) {
  bytes.add(std::string_view(node.op()));
  bytes.add(static_cast<int64_t>(node.phase()));
  bytes.add(int64_t{node.num_operands()});
  for (Value operand : node.operands()) add_value(bytes, operand, ids);
  bytes.add(node.attributes());
  bytes.add(int64_t{node.num_results()});
  for (const TensorType& type : node.types()) bytes.add(type);
  bytes.add(static_cast<int64_t>(node.body() != nullptr));
  if (node.body() != nullptr) {
    const Hash body = node.body()->hash();
    bytes.add(static_cast<int64_t>(body.high));
    bytes.add(static_cast<int64_t>(body.low));
  }
}

}  // namespace

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
  }
  return "?";
}

std::string_view role_name(StateRole role) {
  switch (role) {
    case StateRole::kParameter:
      return "parameter";
    case StateRole::kMoment:
      return "moment";
    case StateRole::kBuffer:
      return "buffer";
  }
  return "?";
}

Node* Graph::add(std::string op, std::vector<Value> operands, Attributes attributes,
                 std::vector<TensorType> types) {
  auto node = std::make_unique<Node>();
  node->op_ = std::move(op);
  node->operands_ = std::move(operands);
  node->attributes_ = std::move(attributes);
  node->types_ = std::move(types);
  node->id_ = num_nodes();
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

Node* Graph::add_input(std::string name, TensorType type) {
  Node* node = add("input", {}, {}, {std::move(type)});
  node->name_ = std::move(name);
  return node;
}

Node* Graph::add_state(std::string name, TensorType type, StateRole role) {
  Node* node = add("state", {}, {{"role", std::string(role_name(role))}}, {std::move(type)});
  node->name_ = std::move(name);
  return node;
}

Node* Graph::add_fused(std::vector<Value> operands, std::unique_ptr<Graph> body) {
  std::vector<TensorType> types;
  for (const Output& output : body->outputs()) types.push_back(output.value.type());
  Node* node = add("fused", std::move(operands), {}, std::move(types));
  node->body_ = std::move(body);
  return node;
}

std::vector<Node*> Graph::inputs() const {
  std::vector<Node*> result;
  for (const auto& node : nodes_) {
    if (node->is("input")) result.push_back(node.get());
  }
  return result;
}

std::vector<Node*> Graph::states() const {
  std::vector<Node*> result;
  for (const auto& node : nodes_) {
    if (node->is("state")) result.push_back(node.get());
  }
  return result;
}

Node* Graph::find_placeholder(std::string_view name) const {
  for (const auto& node : nodes_) {
    if (node->is_placeholder() && node->name() == name) return node.get();
  }
  return nullptr;
}

void Graph::set_update(Node* state, Value next) {
  check(state->is("state"), "set_update: {} is no state", state->op());
  check(state->types()[0] == next.type(), "set_update of '{}': {} from {}", state->name(),
        state->types()[0].str(), next.type().str());
  for (Update& update : updates_) {
    if (update.state == state) {
      update.next = next;
      return;
    }
  }
  updates_.push_back({state, next});
}

Value Graph::update_of(const Node* state) const {
  for (const Update& update : updates_) {
    if (update.state == state) return update.next;
  }
  return {};
}

std::vector<Value> Graph::roots() const {
  std::vector<Value> result;
  for (const Output& output : outputs_) result.push_back(output.value);
  for (const Update& update : updates_) result.push_back(update.next);
  return result;
}

void Graph::substitute(const ValueMap<Value>& replacement) {
  if (replacement.empty()) return;
  const auto resolve = [&](Value value) {
    for (auto found = replacement.find(value); found != replacement.end();
         found = replacement.find(value)) {
      value = found->second;
    }
    return value;
  };
  for (const auto& node : nodes_) {
    for (Value& operand : node->operands_) operand = resolve(operand);
  }
  for (Output& output : outputs_) output.value = resolve(output.value);
  for (Update& update : updates_) update.next = resolve(update.next);
}

std::vector<std::unique_ptr<Node>> Graph::take_nodes() {
  return std::exchange(nodes_, {});
}

void Graph::erase_if(const std::function<bool(const Node&)>& dead) {
  std::erase_if(nodes_, [&](const std::unique_ptr<Node>& node) { return dead(*node); });
}

void Graph::renumber() {
  for (int i = 0; i < num_nodes(); ++i) nodes_[i]->id_ = i;
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>(name_);
  const NodePositions positions(*this);
  const auto map_value = [&](Value value) {
    return Value{copy->nodes_.at(positions(value.node)).get(), value.index};
  };
  copy->nodes_.reserve(nodes_.size());
  for (const auto& node : nodes_) {
    std::vector<Value> operands;
    operands.reserve(node->operands_.size());
    for (Value operand : node->operands_) operands.push_back(map_value(operand));
    Node* twin = copy->add(node->op_, std::move(operands), node->attributes_, node->types_);
    twin->name_ = node->name_;
    twin->phase_ = node->phase_;
    twin->provenance_ = node->provenance_;
    if (node->body_) twin->body_ = node->body_->clone();
  }
  for (const Output& output : outputs_) copy->add_output(output.name, map_value(output.value));
  for (const Update& update : updates_) {
    copy->updates_.push_back({map_value({update.state, 0}).node, map_value(update.next)});
  }
  return copy;
}

Hash Graph::hash() const {
  const NodePositions ids(*this);
  Hasher hasher;
  NodeBytes bytes;
  hasher.add(static_cast<int64_t>(nodes_.size()));
  for (const auto& node : nodes_) {
    bytes.clear();
    add_node(bytes, *node, ids);
    hasher.add_bytes(bytes.view().data(), bytes.view().size());
  }
  bytes.clear();
  bytes.add(static_cast<int64_t>(outputs_.size()));
  for (const Output& output : outputs_) add_value(bytes, output.value, ids);
  bytes.add(static_cast<int64_t>(updates_.size()));
  for (const Update& update : updates_) {
    add_value(bytes, {update.state, 0}, ids);
    add_value(bytes, update.next, ids);
  }
  hasher.add_bytes(bytes.view().data(), bytes.view().size());
  return hasher.finish();
}

ValueMap<std::vector<Node*>> users_of(const Graph& graph) {
  ValueMap<std::vector<Node*>> users;
  users.reserve(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    for (Value operand : node->operands()) {
      std::vector<Node*>& list = users[operand];
      if (list.empty() || list.back() != node.get()) list.push_back(node.get());
    }
  }
  return users;
}

}  // namespace monograph::ir
