#include "passes/autodiff/autodiff.h"

#include <algorithm>

#include "base/error.h"
#include "ops/builder.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

class ReverseMode {
 public:
  ReverseMode(ir::Graph& graph, Value loss, std::span<const Value> wrt,
              std::span<const CustomGradient> custom)
      : builder_(graph), loss_(loss) {
    builder_.set_phase(ir::Phase::kBackward);
    for (const CustomGradient& each : custom) {
      for (Value output : each.outputs) custom_[output.node] = &each;
    }
    for (const auto& node : graph.nodes()) order_.push_back(node.get());
    for (Value value : wrt) active_.insert(value.node);
    for (Node* node : order_) {
      const bool depends = std::any_of(node->operands().begin(), node->operands().end(),
                                       [&](Value operand) { return is_active(operand); });
      if (is_custom_and_active(node) || (depends && !node->is("detach"))) active_.insert(node);
    }
  }

  void run() {
    if (!is_active(loss_)) return;
    builder_.set_provenance(loss_.node->provenance());
    accumulate(loss_, builder_.full(loss_.type(), 1.0));
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      if (active_.contains(*node)) visit(**node);
    }
  }

  Value gradient_of(Value value) const {
    const auto found = cotangents_.find(value);
    return found == cotangents_.end() ? Value{} : found->second;
  }

 private:
  bool is_active(Value value) const {
    return active_.contains(value.node) && ir::is_floating(value.dtype());
  }

  bool is_custom_and_active(const Node* node) const {
    const auto found = custom_.find(node);
    if (found == custom_.end()) return false;
    const std::vector<Value>& inputs = found->second->inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](Value input) { return is_active(input); });
  }

  // At its last output; all cotangents are known then.
  void visit_custom(const CustomGradient& custom, const Node& node) {
    if (&node != custom.outputs.back().node) return;
    std::vector<Value> cotangents;
    bool any = false;
    for (Value output : custom.outputs) {
      cotangents.push_back(gradient_of(output));
      any = any || cotangents.back();
    }
    if (!any) return;
    builder_.set_provenance(node.provenance());
    for (size_t i = 0; i < cotangents.size(); ++i) {
      if (!cotangents[i]) cotangents[i] = builder_.full(custom.outputs[i].type(), 0);
    }
    const std::vector<Value> gradients = custom.gradient(cotangents);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i] && is_active(custom.inputs[i])) accumulate(custom.inputs[i], gradients[i]);
    }
  }

  void visit(Node& node) {
    if (node.is_placeholder()) return;
    if (const auto found = custom_.find(&node); found != custom_.end()) {
      return visit_custom(*found->second, node);
    }
    std::vector<Value> cotangents;
    bool any = false;
    for (int i = 0; i < node.num_results(); ++i) {
      cotangents.push_back(gradient_of(node.result(i)));
      any = any || cotangents.back();
    }
    if (!any) return;
    const ops::OpDef& op = ops::op_named(node.op());
    if (op.gradient == nullptr) {
      throw_user_error(
          "[{}] has no gradient, but the loss depends on it at {}:{} ({}): detach its "
          "operand, or use a differentiable op",
          node.op(), node.provenance().file, node.provenance().line, node.provenance().scope);
    }
    builder_.set_provenance(node.provenance());
    const std::vector<Value> gradients = op.gradient(builder_, node, cotangents);
    check(static_cast<int>(gradients.size()) == node.num_operands(), "[{}] gradient gave {} for {}",
          node.op(), gradients.size(), node.num_operands());
    for (int i = 0; i < node.num_operands(); ++i) {
      if (gradients[i] && is_active(node.operand(i))) accumulate(node.operand(i), gradients[i]);
    }
  }

  void accumulate(Value value, Value cotangent) {
    cotangent = builder_.sum_to(cotangent, value.shape());
    check(ir::broadcasts_to(cotangent.shape(), value.shape()), "gradient {} for a value {}",
          cotangent.type().str(), value.type().str());
    cotangent = builder_.convert(builder_.expand(cotangent, value.shape()), value.dtype());
    Value& total = cotangents_[value];
    total = total ? builder_.add(total, cotangent) : cotangent;
  }

  ops::Builder builder_;
  Value loss_;
  std::vector<Node*> order_;
  std::unordered_set<const Node*> active_;
  std::unordered_map<const Node*, const CustomGradient*> custom_;  // by output
  ir::ValueMap<Value> cotangents_;
};

}  // namespace

ir::ValueMap<Value> differentiate(ir::Graph& graph, Value loss, std::span<const Value> wrt,
                                  PassContext& context, std::span<const CustomGradient> custom) {
  if (loss.shape().num_elements() != 1 || !ir::is_floating(loss.dtype())) {
    throw_user_error(
        "backward: the loss is {}: reduce it to one floating element, e.g. with mean()",
        loss.type().str());
  }
  ReverseMode reverse(graph, loss, wrt, custom);
  reverse.run();
  ir::ValueMap<Value> result;
  for (Value value : wrt) {
    if (Value gradient = reverse.gradient_of(value)) {
      result[value] = gradient;
    } else {
      context.remark(*value.node, "the loss does not depend on '" + value.node->name() + "'");
    }
  }
  return result;
}

}  // namespace monograph::passes
