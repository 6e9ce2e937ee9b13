#include "ir/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/node_positions.h"
#include "ir/printer.h"
#include "ir/state_role.h"

namespace monograph::ir {
namespace {

// Most graphs are sound: names and texts are made when there is something to say.
class Verifier {
 public:
  Verifier(const Graph& graph, VerifyOptions options, std::vector<Violation>& violations)
      : graph_(graph), options_(options), positions_(graph), violations_(violations) {}
  // Of the body of a node of `outer`'s graph.
  Verifier(const Verifier& outer, const Node& owner)
      : graph_(*owner.body()),
        options_(outer.options_),
        outer_(&outer),
        owner_(&owner),
        positions_(graph_),
        violations_(outer.violations_) {}

  bool is_body() const { return outer_ != nullptr; }

  void run() {
    for (const auto& node : graph_.nodes()) {
      check_operands(*node);
      if (node->op().empty()) {
        report("V1.6", *node, "the node has no op: give it one");
      } else if (node->num_results() == 0) {
        report("V1.15", *node, "the node has no result: give it one or more");
      } else if (node->is_placeholder()) {
        check_placeholder(*node);
      }
      check_body(*node);
      ++num_defined_;
    }
    check_outputs();
    check_updates();
    if (options_.dead_nodes) check_dead_nodes();
  }

 private:
  const ValueNames& names() const { return names_ ? *names_ : names_.emplace(graph_); }

  std::string path() const {  // "body of %5: "; empty outside bodies
    if (!is_body()) return "";
    return fmt::format("{}body of {}: ", outer_->path(), outer_->names()({mutable_of(*owner_), 0}));
  }

  void report(const char* code, const Node& node, const std::string& message) {
    violations_.push_back(
        {code, &node, fmt::format("{}{}: {}", path(), to_text(node, names()), message)});
  }
  void report(const char* code, const std::string& message) {
    violations_.push_back({code, nullptr, path() + message});
  }

  // What is wrong with a value as an operand or a root; false when nothing is.
  struct Fault {
    const char* code = nullptr;
    std::string message;
    explicit operator bool() const { return code != nullptr; }
  };
  Fault fault_of(Value value) const {
    if (value.node == nullptr) return {"V1.2", "is no value: give one of the graph"};
    if (positions_(value.node) < 0) {
      return {"V1.3", "belongs to a node outside the graph: use a node of this graph"};
    }
    if (value.index < 0 || value.index >= value.node->num_results()) {
      return {"V1.5", fmt::format("is result {} of {}, which has {}: use 0..{}", value.index,
                                  value.node->op(), value.node->num_results(),
                                  value.node->num_results() - 1)};
    }
    return {};
  }

  void check_operands(const Node& node) {
    for (int i = 0; i < node.num_operands(); ++i) {
      const Value operand = node.operand(i);
      if (const Fault fault = fault_of(operand)) {
        report(fault.code, node, fmt::format("operand {} {}", i, fault.message));
      } else if (positions_(operand.node) >= num_defined_) {
        report("V1.4", node,
               fmt::format("operand {} is used before its definition (a cycle, or nodes out of "
                           "order): define {} above",
                           i, names()(operand)));
      }
    }
  }

  void check_placeholder(const Node& node) {
    if (node.name().empty()) {
      report("V1.1", node, "the placeholder has no name: give it one");
    } else if (!placeholder_names_.insert(node.name()).second) {
      report("V1.16", node, "another placeholder has this name: make names unique");
    }
    const auto role = node.attributes().find("role");
    const bool has_role = role != node.attributes().end() &&
                          std::holds_alternative<std::string>(role->second) &&
                          parse_role(std::get<std::string>(role->second)).has_value();
    if (node.num_operands() > 0 || node.num_results() != 1) {
      report("V1.7", node, "a placeholder has no operand and one result");
    }
    if (node.is("state") && !has_role) {
      report("V1.17", node, "a state has the role parameter, moment or buffer: give it one");
    }
    if (is_body() && node.is("state")) {
      report("V1.13", node, "a body holds a state: pass its value in as an operand");
    }
  }

  void check_body(const Node& node) {
    if (node.is("fused") && node.body() == nullptr) {
      report("V1.11", node, "a fused node has no body: give it one");
    }
    if (node.body() == nullptr) return;
    if (!node.is("fused")) {
      report("V1.18", node, "only a fused node has a body: name the op fused");
    }
    Verifier inside(*this, node);
    check_operand_types(node);
    check_result_types(node, inside);
    inside.run();
  }

  void check_operand_types(const Node& node) {
    const auto& operands = node.operands();
    for (const Value operand : operands) {
      if (fault_of(operand)) return;
    }
    size_t num_taken = 0;
    bool is_equal = true;
    for (const auto& input : node.body()->nodes()) {
      if (!input->is("input")) continue;
      if (input->num_results() != 1) return;
      is_equal = is_equal && num_taken < operands.size() &&
                 input->types()[0] == operands[num_taken].type();
      ++num_taken;
    }
    if (is_equal && num_taken == operands.size()) return;
    std::vector<TensorType> given, taken;
    for (const Value operand : operands) given.push_back(operand.type());
    for (const Node* input : node.body()->inputs()) taken.push_back(input->types()[0]);
    report("V1.12", node,
           fmt::format("the body takes ({}), the operands are ({}): make them equal",
                       types_text(taken), types_text(given)));
  }

  void check_result_types(const Node& node, const Verifier& inside) {
    const auto& outputs = node.body()->outputs();
    for (const Graph::Output& output : outputs) {
      if (inside.fault_of(output.value)) return;  // reported inside the body
    }
    const auto is_of_type = [](const Graph::Output& output, const TensorType& type) {
      return output.value.type() == type;
    };
    if (std::equal(outputs.begin(), outputs.end(), node.types().begin(), node.types().end(),
                   is_of_type))
      return;
    std::vector<TensorType> returned;
    for (const Graph::Output& output : outputs) returned.push_back(output.value.type());
    report("V1.19", node,
           fmt::format("the body returns ({}), the results are ({}): make them equal",
                       types_text(returned), types_text(node.types())));
  }

  static std::string types_text(const std::vector<TensorType>& types) {
    std::string text;
    for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + type.str();
    return text;
  }

  static Node* mutable_of(const Node& node) { return const_cast<Node*>(&node); }  // for naming only

  void check_outputs() {
    if (graph_.outputs().empty() && (is_body() || graph_.updates().empty())) {
      report("V1.8", "the graph returns nothing and updates nothing: add an output");
    }
    std::unordered_set<std::string_view> known;
    for (const Graph::Output& output : graph_.outputs()) {
      if (const Fault fault = fault_of(output.value)) {
        report(fault.code, fmt::format("output '{}' {}", output.name, fault.message));
      }
      if (is_body()) continue;
      if (output.name.empty()) {
        report("V1.9", "an output has no name: give it one");
      } else if (!known.insert(output.name).second) {
        report("V1.24",
               fmt::format("output name '{}' is given twice: make names unique", output.name));
      }
    }
  }

  void check_updates() {
    std::unordered_set<const Node*> updated;
    for (const auto& [state, next] : graph_.updates()) {
      if (is_body()) report("V1.25", "a body updates a state: return its value instead");
      const Fault state_fault = fault_of({state, 0});
      if (state_fault || !state->is("state")) {
        report("V1.10", "an update is of no state of the graph: give it a state placeholder");
        continue;
      }
      if (!updated.insert(state).second) {
        report("V1.26", *state, "the state has two updates: keep one");
      }
      if (const Fault fault = fault_of(next)) {
        report(fault.code, *state, fmt::format("the state's update {}", fault.message));
      } else if (next.type() != state->types()[0]) {
        report("V1.27", *state,
               fmt::format("the update {} is of type {}: convert or reshape it", names()(next),
                           next.type().str()));
      }
    }
  }

  void check_dead_nodes() {
    std::unordered_set<const Node*> live;
    std::vector<const Node*> pending;
    const auto reach = [&](Value value) {
      if (positions_(value.node) >= 0 && live.insert(value.node).second) {
        pending.push_back(value.node);
      }
    };
    for (const Value root : graph_.roots()) reach(root);
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      for (const Value operand : node->operands()) reach(operand);
    }
    for (const auto& node : graph_.nodes()) {
      if (live.count(node.get()) == 0 && !node->is_placeholder()) {
        report("V1.14", *node, "no output and no update needs it: remove it");
      }
    }
  }

  const Graph& graph_;
  const VerifyOptions options_;
  const Verifier* const outer_ = nullptr;  // of the graph whose node `owner_` has this body
  const Node* const owner_ = nullptr;
  const NodePositions positions_;
  int num_defined_ = 0;  // nodes seen so far
  mutable std::optional<ValueNames> names_;
  std::vector<Violation>& violations_;
  std::unordered_set<std::string_view> placeholder_names_;
};

}  // namespace

std::vector<Violation> verify(const Graph& graph, VerifyOptions options) {
  std::vector<Violation> violations;
  Verifier(graph, options, violations).run();
  return violations;
}

std::string to_text(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) {
    text += violation.code + " " + violation.message + "\n";
  }
  return text;
}

}  // namespace monograph::ir
