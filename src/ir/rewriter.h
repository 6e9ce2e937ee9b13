#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"

namespace monograph::ir {

// What becomes of the node just visited: kept (the default), or dropped with a value in place of
// each result. Converts from a value, so that a visitor says `return builder.neg(x);`.
class Rewrite {
 public:
  Rewrite() = default;
  Rewrite(Value value) : values_{value}, is_kept_(false) {}
  Rewrite(std::vector<Value> values) : values_(std::move(values)), is_kept_(false) {}

  bool is_kept() const { return is_kept_; }
  const std::vector<Value>& values() const { return values_; }

 private:
  std::vector<Value> values_;
  bool is_kept_ = true;
};

inline Rewrite keep() {
  return {};
}

// Streams the nodes of a graph, in order, through a visitor:
//
//   ops::Builder build(graph);
//   return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
//     if (!is_double_negation(node)) return ir::keep();
//     return node.operand(0).node->operand(0);
//   });
//
// The visited node's operands are already the replaced ones. Nodes that the visitor appends to the
// graph stand before the visited node's users and take its phase and provenance; they are not
// visited. Nodes left without users stay: eliminate_dead_nodes removes them. Returns whether a node
// was replaced. A replacement of another type is an InternalError.
bool rewrite(Graph& graph, const std::function<Rewrite(Node&)>& visit);

}  // namespace monograph::ir
