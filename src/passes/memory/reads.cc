#include "passes/memory/reads.h"

#include "analysis/in_place.h"
#include "ops/registry.h"

namespace monograph::passes {

using ir::Node;
using ir::Value;

Reads collect_reads(const ir::Graph& graph,
                    const std::function<bool(const Node&)>& is_state_memory) {
  Reads reads;
  std::unordered_map<const Node*, std::vector<const Node*>> states_under;
  for (const auto& node : graph.nodes()) {
    if (node->is("state")) states_under[node.get()] = {node.get()};
    std::vector<const Node*> reached;
    const int num_read = node->is("after") ? 1 : node->num_operands();
    for (int i = 0; i < num_read; ++i) {
      const Value operand = node->operand(i);
      ++reads.count[operand];
      const auto found = states_under.find(operand.node);
      if (found == states_under.end()) continue;
      reached.insert(reached.end(), found->second.begin(), found->second.end());
    }
    for (const Node* state : reached) reads.last_of_state[state] = node->id();
    const bool same_memory = ops::has_trait(*node, ops::kViewLike) || is_state_memory(*node);
    if (same_memory && !reached.empty()) states_under[node.get()] = std::move(reached);
  }
  for (Value root : graph.roots()) ++reads.count[root];
  return reads;
}

bool has_one_reader(const Reads& reads, Value value) {
  const auto count = reads.count.find(value);
  if (count == reads.count.end() || count->second != 1) return false;
  const Node& maker = *value.node;
  if (maker.is("reshape") || maker.is("permute") || maker.is("after")) {
    return has_one_reader(reads, maker.operand(0));
  }
  return maker.body() != nullptr || ops::has_trait(maker, ops::kLibrary);
}

Value overwritten_by(const Node& kernel, int result, const Reads& reads) {
  if (kernel.body() == nullptr) return {};
  for (int i = 0; i < kernel.num_operands(); ++i) {
    const Value operand = kernel.operand(i);
    if (operand.type() != kernel.types()[result] || !has_one_reader(reads, operand)) continue;
    if (analysis::may_overwrite(*kernel.body(), result, i)) return operand;
  }
  return {};
}

}  // namespace monograph::passes
