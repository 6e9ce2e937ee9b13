#include "passes/autodiff/check_gradients.h"

#include <fmt/format.h>

#include <map>

#include "passes/autodiff/autodiff.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;
using Counts = std::map<std::string, int>;  // nodes by op

// The nodes that a value depends on through floating values and no detach, itself included.
std::unordered_set<const Node*> ancestors_of(Value value) {
  std::unordered_set<const Node*> seen = {value.node};
  std::vector<const Node*> pending = {value.node};
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (node->is("detach")) continue;
    for (Value operand : node->operands()) {
      if (!ir::is_floating(operand.dtype())) continue;
      if (seen.insert(operand.node).second) pending.push_back(operand.node);
    }
  }
  return seen;
}

Counts count_backward(const ir::Graph& graph) {
  Counts counts;
  for (const auto& node : graph.nodes()) {
    if (node->phase() == ir::Phase::kBackward) ++counts[node->op()];
  }
  return counts;
}

// Backward nodes by op, from differentiating a copy of the forward part.
Counts predict_backward(const ir::Graph& graph, Value loss,
                        std::span<const ParameterGradient> gradients) {
  ir::Graph forward;
  std::unordered_map<const Node*, Node*> twins;
  for (const auto& node : graph.nodes()) {
    if (node->phase() == ir::Phase::kBackward) continue;
    std::vector<Value> operands;
    for (Value operand : node->operands()) {
      const auto twin = twins.find(operand.node);
      if (twin == twins.end()) break;  // it reads a gradient: no part of the forward
      operands.push_back({twin->second, operand.index});
    }
    if (operands.size() != node->operands().size()) continue;
    Node* twin = forward.add(node->op(), operands, node->attributes(), node->types());
    twin->set_name(node->name());
    twins[node.get()] = twin;
  }
  std::vector<Value> wrt;
  for (const ParameterGradient& each : gradients) wrt.push_back(twins.at(each.parameter)->result());
  PassContext context;
  differentiate(forward, {twins.at(loss.node), loss.index}, wrt, context);
  return count_backward(forward);
}

class GradientCheck {
 public:
  GradientCheck(const ir::Graph& graph, Value loss) : graph_(graph), loss_(loss) {}

  std::vector<ir::Violation> run(std::span<const ParameterGradient> gradients, bool has_custom) {
    const auto reached = ancestors_of(loss_);
    std::unordered_set<const Node*> seen;
    for (const ParameterGradient& each : gradients) {
      if (!seen.insert(each.parameter).second) {
        report("V2.1", each, "stands twice in the list: one gradient a parameter");
      }
      if (each.gradient) {
        check_gradient(each);
      } else if (reached.contains(each.parameter)) {
        report("V2.4", each,
               "has no gradient, but the loss depends on it: use differentiable ops, "
               "or freeze it");
      }
    }
    if (!has_custom) compare_counts(predict_backward(graph_, loss_, gradients));
    return std::move(violations_);
  }

 private:
  void report(std::string code, const ParameterGradient& each, const std::string& what) {
    violations_.push_back({std::move(code), each.parameter,
                           fmt::format("parameter '{}' {}", each.parameter->name(), what)});
  }

  void check_gradient(const ParameterGradient& each) {
    const ir::TensorType& type = each.parameter->types()[0];
    if (each.gradient.type() != type) {
      report("V2.2", each,
             fmt::format("is {}, its gradient is {}: they must be equal", type.str(),
                         each.gradient.type().str()));
    }
    if (each.gradient.node->phase() != ir::Phase::kBackward) {
      report("V2.3", each,
             fmt::format("has a gradient made in the {} phase: it must come from "
                         "backward",
                         ir::phase_name(each.gradient.node->phase())));
    }
  }

  void compare_counts(const Counts& predicted) {
    const Counts found = count_backward(graph_);
    Counts all = predicted;
    all.insert(found.begin(), found.end());
    for (const auto& [op, unused] : all) {
      const auto count_in = [&](const Counts& counts) {
        const auto at = counts.find(op);
        return at == counts.end() ? 0 : at->second;
      };
      if (count_in(predicted) == count_in(found)) continue;
      violations_.push_back({"V2.5", nullptr,
                             fmt::format("{} backward nodes '{}', the op rules predict {}",
                                         count_in(found), op, count_in(predicted))});
    }
  }

  const ir::Graph& graph_;
  Value loss_;
  std::vector<ir::Violation> violations_;
};

}  // namespace

std::vector<ir::Violation> check_gradients(const ir::Graph& graph, Value loss,
                                           std::span<const ParameterGradient> gradients,
                                           bool has_custom) {
  return GradientCheck(graph, loss).run(gradients, has_custom);
}

}  // namespace monograph::passes
