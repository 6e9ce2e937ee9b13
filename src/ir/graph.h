#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "ir/literal.h"
#include "ir/type.h"

namespace monograph::ir {

class Graph;
class Node;

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, DType,
                               std::vector<Shape>>;
using Attributes = std::map<std::string, Attribute>;

// One result of a node. `node` is null in "no value" (an operand without a gradient).
struct Value {
  Node* node = nullptr;
  int index = 0;

  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  explicit operator bool() const { return node != nullptr; }
  bool operator==(const Value&) const = default;
};

struct ValueHash {
  size_t operator()(const Value& value) const {
    return std::hash<const void*>()(value.node) * 31 + static_cast<size_t>(value.index);
  }
};
template <typename T>
using ValueMap = std::unordered_map<Value, T, ValueHash>;
using ValueSet = std::unordered_set<Value, ValueHash>;

// Where a node came from. Never part of the graph hash.
struct Provenance {
  std::string file;
  int line = 0;
  std::string scope;  // module path, "h.0.attn"
  // In a step of a pipeline: when its stage runs it, from 1 on (analysis/walls.h); 0: no matter.
  int frame = 0;
  bool operator==(const Provenance&) const = default;
};

// The part of the step a node belongs to; printed, hashed, shown by colours.
enum class Phase : uint8_t { kForward, kBackward, kOptimizer };
std::string_view phase_name(Phase phase);

// The role of a state: which arena segment it lives in.
enum class StateRole : uint8_t { kParameter, kMoment, kBuffer };
std::string_view role_name(StateRole role);

class Node {
 public:
  const std::string& op() const { return op_; }
  const std::vector<Value>& operands() const { return operands_; }
  Value operand(int index) const { return operands_[index]; }
  int num_operands() const { return static_cast<int>(operands_.size()); }
  const std::vector<TensorType>& types() const { return types_; }
  int num_results() const { return static_cast<int>(types_.size()); }
  Value result(int index = 0) { return {this, index}; }
  const Attributes& attributes() const { return attributes_; }

  // The attribute's value; InternalError when absent or of another kind (ops::infer has checked
  // it).
  template <typename T>
  const T& attribute(const std::string& name) const {
    return std::get<T>(attributes_.at(name));
  }
  template <typename T>
  T attribute_or(const std::string& name, T otherwise) const {
    const auto found = attributes_.find(name);
    return found == attributes_.end() ? otherwise : std::get<T>(found->second);
  }

  bool is(std::string_view op) const { return op_ == op; }
  bool is_placeholder() const { return is("input") || is("state"); }
  const std::string& name() const { return name_; }  // placeholders only: the logical name
  Phase phase() const { return phase_; }
  const Provenance& provenance() const { return provenance_; }
  const Graph* body() const { return body_.get(); }  // fused nodes only
  Graph* body() { return body_.get(); }
  int id() const { return id_; }  // position in the graph after the last renumber()

  void set_operand(int index, Value value) { operands_[index] = value; }
  void set_attribute(const std::string& name, Attribute value) {
    attributes_[name] = std::move(value);
  }
  void set_phase(Phase phase) { phase_ = phase; }
  void set_provenance(Provenance provenance) { provenance_ = std::move(provenance); }
  void set_name(std::string name) { name_ = std::move(name); }

 private:
  friend class Graph;
  std::string op_;
  std::vector<Value> operands_;
  Attributes attributes_;
  std::vector<TensorType> types_;
  std::string name_;
  Phase phase_ = Phase::kForward;
  Provenance provenance_;
  std::unique_ptr<Graph> body_;
  int id_ = 0;
};

inline const TensorType& Value::type() const {
  return node->types()[index];
}

// A training step in SSA form: nodes in a topological order, no views, nothing in place. A state is
// a pair: the `state` placeholder (its value before the step) and its update (its value after).
class Graph {
 public:
  explicit Graph(std::string name = "step") : name_(std::move(name)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }

  // Appends a node. Types are the caller's (ops::Builder infers them).
  Node* add(std::string op, std::vector<Value> operands, Attributes attributes,
            std::vector<TensorType> types);
  Node* add_input(std::string name, TensorType type);
  Node* add_state(std::string name, TensorType type, StateRole role);
  Node* add_fused(std::vector<Value> operands, std::unique_ptr<Graph> body);

  std::vector<Node*> inputs() const;
  std::vector<Node*> states() const;
  Node* find_placeholder(std::string_view name) const;  // null when absent

  // Outputs in order: the loss first, then metrics.
  struct Output {
    std::string name;
    Value value;
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  void add_output(std::string name, Value value) { outputs_.push_back({std::move(name), value}); }
  void clear_outputs() { outputs_.clear(); }

  // State updates by state node, in the order of first setting. A state without one keeps its
  // value.
  struct Update {
    Node* state;
    Value next;
  };
  const std::vector<Update>& updates() const { return updates_; }
  void set_update(Node* state, Value next);
  Value update_of(const Node* state) const;  // null Value when it has none

  // Every value that the outside sees: outputs and updates.
  std::vector<Value> roots() const;

  // Replaces every use (operands, outputs, updates) by the map, following chains.
  void substitute(const ValueMap<Value>& replacement);
  // Takes the nodes out for a pass that streams them back (see Rewriter) or reorders them.
  std::vector<std::unique_ptr<Node>> take_nodes();
  void append(std::unique_ptr<Node> node) { nodes_.push_back(std::move(node)); }
  // Removes nodes for which `dead` holds; they must have no users.
  void erase_if(const std::function<bool(const Node&)>& dead);

  void renumber();  // id = position
  std::unique_ptr<Graph> clone() const;
  Hash hash()
      const;  // see docs/graph_hash.md: ops, types, attributes, edges; no names, no locations

 private:
  std::string name_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Output> outputs_;
  std::vector<Update> updates_;
};

// The users of each value, in graph order; outputs and updates are not in it.
ValueMap<std::vector<Node*>> users_of(const Graph& graph);

}  // namespace monograph::ir
