#pragma once

#include <vector>

#include "ops/builder.h"
#include "ops/registry.h"
#include "runtime/interpreter.h"

namespace monograph::runtime {

// A graph of one op and its gradient, for tests: the operands are inputs x0, x1, ...; the results'
// cotangents are inputs g0, g1, ... Outputs: results, then the gradients of the floating operands,
// each of its operand's type.
class SingleOp {
 public:
  // Cotangents with has_cotangent[i] false are left out, as autodiff does where nothing uses the
  // result. An empty list: no gradients at all.
  SingleOp(const ops::OpDef& op, const std::vector<ir::TensorType>& operands,
           const ir::Attributes& attributes, const std::vector<bool>& has_cotangent)
      : graph_("single_op") {
    ops::Builder builder(graph_);
    std::vector<ir::Value> values;
    for (const ir::TensorType& type : operands) {
      values.push_back(graph_.add_input(fmt::format("x{}", values.size()), type)->result());
    }
    node_ = builder.emit_node(op.name, values, attributes);
    for (int i = 0; i < node_->num_results(); ++i) graph_.add_output("", node_->result(i));
    if (!has_cotangent.empty()) add_gradients(builder, op, has_cotangent);
  }

  const ir::Node& node() const { return *node_; }
  // Whether operand i has a gradient.
  bool has_gradient(int operand) const { return has_gradient_[operand]; }

  struct Outputs {
    std::vector<ir::Literal> results;
    std::vector<ir::Literal> gradients;  // by operand; empty literals where there is none
  };
  // cotangents[i] may be empty where it was left out.
  Outputs run(const std::vector<ir::Literal>& operands,
              const std::vector<ir::Literal>& cotangents) const {
    InputMap inputs;
    for (size_t i = 0; i < operands.size(); ++i) inputs[fmt::format("x{}", i)] = operands[i];
    for (const ir::Node* input : graph_.inputs()) {
      if (input->name()[0] == 'g') {
        inputs[input->name()] = cotangents[std::stoul(input->name().substr(1))];
      }
    }
    StateMap none;
    std::vector<ir::Literal> all = interpret(graph_, inputs, none);
    Outputs outputs{{all.begin(), all.begin() + node_->num_results()}, {}};
    size_t next = node_->num_results();
    for (bool has : has_gradient_) outputs.gradients.push_back(has ? all[next++] : ir::Literal());
    return outputs;
  }

 private:
  void add_gradients(ops::Builder& builder, const ops::OpDef& op,
                     const std::vector<bool>& has_cotangent) {
    std::vector<ir::Value> cotangents(node_->num_results());
    for (size_t i = 0; i < cotangents.size(); ++i) {
      if (!has_cotangent[i]) continue;
      cotangents[i] = graph_.add_input(fmt::format("g{}", i), node_->types()[i])->result();
    }
    const std::vector<ir::Value> gradients = op.gradient(builder, *node_, cotangents);
    check(static_cast<int>(gradients.size()) == node_->num_operands(), "{} gradients",
          gradients.size());
    for (int i = 0; i < node_->num_operands(); ++i) {
      const ir::TensorType type = node_->operand(i).type();
      has_gradient_.push_back(static_cast<bool>(gradients[i]));
      if (!gradients[i]) continue;
      const ir::Value summed = builder.sum_to(gradients[i], type.shape);
      check(summed.dtype() == type.dtype, "gradient {} for {}", summed.type().str(), type.str());
      graph_.add_output("", builder.expand(summed, type.shape));
    }
  }

  ir::Graph graph_;
  ir::Node* node_ = nullptr;
  std::vector<bool> has_gradient_;
};

}  // namespace monograph::runtime
