#include "analysis/memory_classes.h"

#include <algorithm>

#include "ops/registry.h"

namespace monograph::analysis {
namespace {

using ir::Node;
using ir::Value;

bool is_view(const Node& node) {
  return ops::has_trait(node, ops::kViewLike);
}

// Views through which a `cat` or `pack` can say where its operand's source is to be written.
bool is_whole_view(const Node& node) {
  return node.is("reshape") || node.is("permute");
}

bool is_state_pack(const Node& node) {
  return node.is("pack") && std::all_of(node.operands().begin(), node.operands().end(),
                                        [](Value operand) { return operand.node->is("state"); });
}

}  // namespace

MemoryClasses::MemoryClasses(const ir::Graph& graph) {
  for (Value root : graph.roots()) elsewhere_.insert(root);
  const auto& nodes = graph.nodes();
  ir::ValueMap<Value> joined;  // source -> the cat or pack that it is written into
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!ops::has_trait(**node, ops::kGather)) continue;
    const Value result = (*node)->result();
    if ((*node)->is("pack")) elsewhere_.insert(result);
    if (is_state_pack(**node)) continue;
    for (Value operand : (*node)->operands()) {
      while (is_whole_view(*operand.node)) operand = operand.node->operand(0);
      if (!operand.node->is_placeholder() && !is_view(*operand.node)) {
        joined.emplace(operand, result);
      }
    }
  }
  for (const auto& node : nodes) {
    for (int i = 0; i < node->num_results(); ++i) {
      const Value value = node->result(i);
      roots_[value] = is_view(*node) ? roots_.at(node->operand(0)) : value;
    }
  }
  // What leaves the step through a view has its memory outside of scratch, too.
  for (const auto& [value, root] : roots_) {
    if (elsewhere_.contains(value)) elsewhere_.insert(root);
  }
  for (auto& [value, root] : roots_) {
    for (auto next = joined.find(root); next != joined.end(); next = joined.find(root)) {
      root = next->second;
    }
  }
}

int64_t MemoryClasses::scratch_bytes(Value root) const {
  if (root.node->is_placeholder() || elsewhere_.contains(root)) return 0;
  return root.type().num_bytes();
}

LiveRanges::LiveRanges(const ir::Graph& graph) : classes_(graph) {
  const int num_nodes = graph.num_nodes();
  for (int at = 0; at < num_nodes; ++at) {
    Node& node = *graph.nodes()[at];
    if (node.is_placeholder() || is_view(node)) continue;
    const auto access = [&](Value value) {
      const Value root = classes_.root(value);
      if (classes_.scratch_bytes(root) == 0) return;
      const auto [found, is_new] = accesses_.try_emplace(root);
      if (is_new) order_.push_back(root);
      if (is_new || found->second.back() != at) found->second.push_back(at);
    };
    for (Value operand : node.operands()) access(operand);
    for (int i = 0; i < node.num_results(); ++i) access(node.result(i));
  }
  std::vector<int64_t> change(num_nodes + 1, 0);
  for (Value root : order_) {
    const std::vector<int>& positions = accesses_.at(root);
    change[positions.front()] += classes_.scratch_bytes(root);
    change[positions.back() + 1] -= classes_.scratch_bytes(root);
  }
  int64_t live = 0;
  for (int at = 0; at < num_nodes; ++at) {
    live += change[at];
    if (live > peak_bytes_) {
      peak_bytes_ = live;
      peak_position_ = at;
    }
  }
}

}  // namespace monograph::analysis
