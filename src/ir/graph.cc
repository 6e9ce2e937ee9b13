#include "ir/graph.h"

#include <algorithm>

#include "base/error.h"

namespace monograph::ir {
namespace {

void hash_list(Hasher& hasher, const std::vector<int64_t>& list) {
  hasher.add(static_cast<int64_t>(list.size()));
  hasher.add_bytes(list.data(), list.size() * sizeof(int64_t));
}

void hash_attribute(Hasher& hasher, const Attribute& attribute) {
  hasher.add(static_cast<int64_t>(attribute.index()));
  if (const auto* flag = std::get_if<bool>(&attribute)) hasher.add(static_cast<int64_t>(*flag));
  if (const auto* number = std::get_if<int64_t>(&attribute)) hasher.add(*number);
  if (const auto* real = std::get_if<double>(&attribute)) hasher.add_bytes(real, sizeof *real);
  if (const auto* text = std::get_if<std::string>(&attribute)) hasher.add(*text);
  if (const auto* dtype = std::get_if<DType>(&attribute)) hasher.add(static_cast<int64_t>(*dtype));
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute)) {
    hash_list(hasher, *list);
  }
  if (const auto* shapes = std::get_if<std::vector<Shape>>(&attribute)) {
    hasher.add(static_cast<int64_t>(shapes->size()));
    for (const Shape& shape : *shapes) hash_list(hasher, shape.dims());
  }
}

using NodeIds = std::unordered_map<const Node*, int>;

// A value of no node of the graph has id -1: a broken graph can be hashed too, the verifier judges
// it.
void hash_value(Hasher& hasher, Value value, const NodeIds& ids) {
  const auto found = ids.find(value.node);
  hasher.add(static_cast<int64_t>(found == ids.end() ? -1 : found->second));
  hasher.add(static_cast<int64_t>(value.index));
}

// Each list is preceded by its length, so that different nodes never feed the same bytes.
void hash_node(Hasher& hasher, const Node& node, const NodeIds& ids) {
  hasher.add(node.op()).add(static_cast<int64_t>(node.phase()));
  hasher.add(static_cast<int64_t>(node.num_operands()));
  for (Value operand : node.operands()) hash_value(hasher, operand, ids);
  hasher.add(static_cast<int64_t>(node.attributes().size()));
  for (const auto& [name, attribute] : node.attributes()) {
    hasher.add(name);
    hash_attribute(hasher, attribute);
  }
  hasher.add(static_cast<int64_t>(node.num_results()));
  for (const TensorType& type : node.types()) {
    hasher.add(static_cast<int64_t>(type.dtype));
    hash_list(hasher, type.shape.dims());
  }
  hasher.add(static_cast<int64_t>(node.body() != nullptr));
  if (node.body() != nullptr) {
    const Hash body = node.body()->hash();
    hasher.add_bytes(&body, sizeof body);
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
  std::unordered_map<const Node*, Node*> mapped;
  const auto map_value = [&](Value value) { return Value{mapped.at(value.node), value.index}; };
  for (const auto& node : nodes_) {
    std::vector<Value> operands;
    for (Value operand : node->operands_) operands.push_back(map_value(operand));
    Node* twin = copy->add(node->op_, std::move(operands), node->attributes_, node->types_);
    twin->name_ = node->name_;
    twin->phase_ = node->phase_;
    twin->provenance_ = node->provenance_;
    if (node->body_) twin->body_ = node->body_->clone();
    mapped[node.get()] = twin;
  }
  for (const Output& output : outputs_) copy->add_output(output.name, map_value(output.value));
  for (const Update& update : updates_) {
    copy->updates_.push_back({mapped.at(update.state), map_value(update.next)});
  }
  return copy;
}

Hash Graph::hash() const {
  NodeIds ids;
  ids.reserve(nodes_.size());
  for (const auto& node : nodes_) ids.emplace(node.get(), static_cast<int>(ids.size()));
  Hasher hasher;
  hasher.add(static_cast<int64_t>(nodes_.size()));
  for (const auto& node : nodes_) hash_node(hasher, *node, ids);
  hasher.add(static_cast<int64_t>(outputs_.size()));
  for (const Output& output : outputs_) hash_value(hasher, output.value, ids);
  hasher.add(static_cast<int64_t>(updates_.size()));
  for (const Update& update : updates_) {
    hash_value(hasher, {update.state, 0}, ids);
    hash_value(hasher, update.next, ids);
  }
  return hasher.finish();
}

ValueMap<std::vector<Node*>> users_of(const Graph& graph) {
  ValueMap<std::vector<Node*>> users;
  for (const auto& node : graph.nodes()) {
    for (Value operand : node->operands()) {
      std::vector<Node*>& list = users[operand];
      if (list.empty() || list.back() != node.get()) list.push_back(node.get());
    }
  }
  return users;
}

}  // namespace monograph::ir
