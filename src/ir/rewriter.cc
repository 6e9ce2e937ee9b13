#include "ir/rewriter.h"

#include "base/error.h"

namespace monograph::ir {
namespace {

void check_replacement(const Node& node, const Rewrite& decision) {
  const std::vector<Value>& values = decision.values();
  check(static_cast<int>(values.size()) == node.num_results(),
        "rewrite: {} values replace {} of {}", values.size(), node.num_results(), node.op());
  for (int i = 0; i < node.num_results(); ++i) {
    check(values[i].node != &node, "rewrite: {} replaces itself; keep it instead", node.op());
    check(static_cast<bool>(values[i]) && values[i].type() == node.types()[i],
          "rewrite: result {} of {} is {}, its replacement {}", i, node.op(), node.types()[i].str(),
          values[i] ? values[i].type().str() : "no value");
  }
}

}  // namespace

bool rewrite(Graph& graph, const std::function<Rewrite(Node&)>& visit) {
  ValueMap<Value> replaced;
  // Dropped nodes live on until the end: their addresses are keys, and must not be taken again.
  std::vector<std::unique_ptr<Node>> dropped;
  for (std::unique_ptr<Node>& node : graph.take_nodes()) {
    for (int i = 0; i < node->num_operands(); ++i) {
      // One look-up suffices: a replacement is a value that stands in the graph by then.
      const auto found = replaced.find(node->operand(i));
      if (found != replaced.end()) node->set_operand(i, found->second);
    }
    const int before = graph.num_nodes();
    const Rewrite decision = visit(*node);
    for (int i = before; i < graph.num_nodes(); ++i) {
      graph.nodes()[i]->set_phase(node->phase());
      graph.nodes()[i]->set_provenance(node->provenance());
    }
    if (decision.is_kept()) {
      graph.append(std::move(node));
      continue;
    }
    check_replacement(*node, decision);
    for (int i = 0; i < node->num_results(); ++i) {
      replaced.emplace(node->result(i), decision.values()[i]);
    }
    dropped.push_back(std::move(node));
  }
  graph.substitute(replaced);
  graph.renumber();
  return !replaced.empty();
}

}  // namespace monograph::ir
