#include "passes/memory/kernel_part.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/iteration_space.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using analysis::FuseRole;
using ir::Node;
using ir::Value;

bool is_rounded_at_store(ir::DType dtype) {
  return dtype == ir::DType::kBF16 || dtype == ir::DType::kF16;
}

class Cut {
 public:
  Cut(Node& kernel, Value result, const std::function<bool(Value)>& is_readable)
      : kernel_(kernel), result_(result), is_readable_(is_readable) {
    const ir::Graph& body = *kernel.body();
    int position = 0;
    for (const auto& node : body.nodes()) {
      position_[node.get()] = position++;
      if (node->is("input")) inputs_.push_back(node.get());
    }
    for (int i = 0; i < kernel.num_results(); ++i) {
      stored_.emplace(body.outputs()[i].value, kernel.result(i));
    }
  }

  std::optional<KernelPart> run() {
    part_.result = kernel_.body()->outputs()[result_.index].value;
    if (!need(*part_.result.node, true) || part_.nodes.empty()) return std::nullopt;
    std::sort(part_.nodes.begin(), part_.nodes.end(),
              [&](const Node* a, const Node* b) { return position_.at(a) < position_.at(b); });
    if (!fits()) return std::nullopt;
    return std::move(part_);
  }

 private:
  bool need(Node& node, bool is_target) {
    if (!seen_.insert(&node).second) return true;
    if (node.is("input")) {
      const auto number = std::find(inputs_.begin(), inputs_.end(), &node) - inputs_.begin();
      add_leaf(kernel_.operand(static_cast<int>(number)));
      return true;
    }
    const FuseRole role = analysis::fuse_role(node);
    const bool is_pointwise =
        role == FuseRole::kElement || role == FuseRole::kCreation || role == FuseRole::kIndexed;
    const auto stored = stored_.find(node.result());
    if (!is_target && stored != stored_.end() && !is_rounded_at_store(node.types()[0].dtype) &&
        (!is_pointwise || is_readable_(stored->second))) {
      add_leaf(stored->second);
      return true;
    }
    if (!is_pointwise) return false;
    part_.nodes.push_back(&node);
    part_.flops += ops::cost_of(node).flops;
    part_.num_nodes += role != FuseRole::kCreation;
    return std::all_of(node.operands().begin(), node.operands().end(),
                       [&](Value operand) { return need(*operand.node, false); });
  }

  void add_leaf(Value leaf) {
    if (std::find(part_.leaves.begin(), part_.leaves.end(), leaf) == part_.leaves.end()) {
      part_.leaves.push_back(leaf);
    }
  }

  // Lowering takes the part as one kernel, and its result can be stored.
  bool fits() const {
    std::optional<analysis::IterationSpace> space;
    for (const Node* node : part_.nodes) {
      const auto own = analysis::iteration_space(*node);
      if (!space) {
        space = own;
      } else if (!analysis::join(*space, own).empty()) {
        return false;
      }
    }
    return analysis::can_store(*space, part_.result.shape());
  }

  Node& kernel_;
  const Value result_;
  const std::function<bool(Value)>& is_readable_;
  std::unordered_map<const Node*, int> position_;
  std::vector<const Node*> inputs_;
  ir::ValueMap<Value> stored_;  // value in the body -> result of the kernel
  std::unordered_set<const Node*> seen_;
  KernelPart part_;
};

}  // namespace

std::optional<KernelPart> cut_kernel(Node& kernel, Value result,
                                     const std::function<bool(Value)>& is_readable) {
  return Cut(kernel, result, is_readable).run();
}

std::unique_ptr<ir::Graph> make_body(const Node& kernel, const KernelPart& part) {
  auto body = std::make_unique<ir::Graph>("kernel");
  const ir::Graph& old = *kernel.body();
  ir::ValueMap<Value> inside;
  for (Value leaf : part.leaves) {
    const Value input =
        body->add_input(fmt::format("x{}", body->num_nodes()), leaf.type())->result();
    if (leaf.node == &kernel) {
      inside[old.outputs()[leaf.index].value] = input;
      continue;
    }
    for (int i = 0; i < kernel.num_operands(); ++i) {
      if (kernel.operand(i) == leaf) inside[old.nodes()[i]->result()] = input;
    }
  }
  for (const Node* node : part.nodes) {
    std::vector<Value> operands;
    for (Value operand : node->operands()) operands.push_back(inside.at(operand));
    Node* twin = body->add(node->op(), std::move(operands), node->attributes(), node->types());
    twin->set_phase(node->phase());
    twin->set_provenance(node->provenance());
    inside[{const_cast<Node*>(node), 0}] = twin->result();
  }
  body->add_output("y0", inside.at(part.result));
  return body;
}

}  // namespace monograph::passes
