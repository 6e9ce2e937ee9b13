#include "passes/simplify/canonicalize.h"

#include <algorithm>
#include <numeric>

#include "ir/rewriter.h"
#include "ops/builder.h"
#include "ops/registry.h"
#include "passes/simplify/match.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Rewrite;
using ir::Shape;
using ir::Value;
using Ints = std::vector<int64_t>;

class Canonicalizer {
 public:
  explicit Canonicalizer(ir::Graph& graph) : graph_(graph), build_(graph) {}

  Rewrite visit(Node& node) {
    if (changes_nothing(node)) return node.operand(0);
    if (node.is("reshape")) return reshape(node);
    if (node.is("permute")) return permute(node);
    if (node.is("expand")) return expand(node);
    if (node.is("add")) return add(node);
    if (node.is("sub")) return sub(node);
    if (node.is("mul")) return mul(node);
    return order_operands(node);
  }

 private:
  // A slice or cat of the operand's own type holds all of it, in order.
  static bool changes_nothing(const Node& node) {
    const bool may = node.is("reshape") || node.is("expand") || node.is("convert") ||
                     node.is("slice") || node.is("cat") || is_identity_permute(node);
    return may && node.num_operands() == 1 && node.operand(0).type() == node.types()[0];
  }

  static bool is_identity_permute(const Node& node) {
    if (!node.is("permute")) return false;
    const auto& axes = node.attribute<Ints>("axes");
    return std::is_sorted(axes.begin(), axes.end());
  }

  Rewrite reshape(Node& node) {
    const Node* inner = defined_by(node.operand(0), "reshape");
    if (inner == nullptr) return ir::keep();
    return build_.reshape(inner->operand(0), node.types()[0].shape);
  }

  Rewrite permute(Node& node) {
    const auto& axes = node.attribute<Ints>("axes");
    const Value x = node.operand(0);
    if (const Node* inner = defined_by(x, "permute")) {
      Ints composed;
      for (const int64_t axis : axes) composed.push_back(inner->attribute<Ints>("axes")[axis]);
      return build_.permute(inner->operand(0), std::move(composed));
    }
    Ints moved;  // the axes that are not of size 1, where they go
    for (const int64_t axis : axes) {
      if (x.shape()[static_cast<int>(axis)] != 1) moved.push_back(axis);
    }
    if (!std::is_sorted(moved.begin(), moved.end())) return ir::keep();
    return build_.reshape(x, node.types()[0].shape);
  }

  Rewrite expand(Node& node) {
    const Shape& shape = node.types()[0].shape;
    const Value x = node.operand(0);
    if (const Node* inner = defined_by(x, "expand")) return build_.expand(inner->operand(0), shape);
    if (x.type().num_elements() != node.types()[0].num_elements()) return ir::keep();
    return build_.reshape(x, shape);
  }

  Rewrite add(Node& node) {
    const Value a = node.operand(0), b = node.operand(1);
    if (const Node* negated = defined_by(b, "neg")) return build_.sub(a, negated->operand(0));
    if (const Node* negated = defined_by(a, "neg")) return build_.sub(b, negated->operand(0));
    return order_operands(node);
  }

  Rewrite sub(Node& node) {
    const Value a = node.operand(0), b = node.operand(1);
    if (const Node* negated = defined_by(b, "neg")) return build_.add(a, negated->operand(0));
    const auto constant = constant_of(b);
    const bool is_signed =
        ir::is_floating(b.dtype()) || b.dtype() == ir::DType::kI64 || b.dtype() == ir::DType::kI32;
    // A constant on the left has no better form.
    if (!constant || !is_signed || constant_of(a)) return ir::keep();
    return build_.add(a, build_.full(b.type(), -*constant));
  }

  Rewrite mul(Node& node) {
    const Node* a = defined_by(node.operand(0), "neg");
    const Node* b = defined_by(node.operand(1), "neg");
    if (a != nullptr && b != nullptr) return build_.mul(a->operand(0), b->operand(0));
    return order_operands(node);
  }

  Rewrite order_operands(Node& node) {
    if (!ops::has_trait(node, ops::kCommutative) || node.num_operands() != 2) return ir::keep();
    if (!comes_before(node.operand(1), node.operand(0))) return ir::keep();
    return build_.emit(node.op(), {node.operand(1), node.operand(0)}, node.attributes());
  }

  bool comes_before(Value a, Value b) {
    const bool a_is_constant = constant_of(a).has_value(),
               b_is_constant = constant_of(b).has_value();
    if (a_is_constant != b_is_constant) return b_is_constant;
    return std::pair(position(a.node), a.index) < std::pair(position(b.node), b.index);
  }

  int position(const Node* node) {
    for (int i = static_cast<int>(positions_.size()); i < graph_.num_nodes(); ++i) {
      positions_.emplace(graph_.nodes()[i].get(), i);
    }
    return positions_.at(node);
  }

  ir::Graph& graph_;
  ops::Builder build_;
  std::unordered_map<const Node*, int> positions_;
};

}  // namespace

bool canonicalize(ir::Graph& graph, PassContext&) {
  const auto once = [&] {
    Canonicalizer canonicalizer(graph);
    return ir::rewrite(graph, [&](Node& node) { return canonicalizer.visit(node); });
  };
  if (!once()) return false;
  while (once()) {
  }
  return true;
}

}  // namespace monograph::passes
