#include "analysis/memory_classes.h"

#include <algorithm>

#include "analysis/in_place.h"
#include "ops/registry.h"

namespace monograph::analysis {
namespace {

using ir::Node;
using ir::Value;

bool is_view(const Node& node) {
  return ops::has_trait(node, ops::kViewLike);
}

// A product that is added to a whole matrix where that lies.
bool is_accumulation(const Node& node) {
  return node.is("addmm") && node.operand(0).type() == node.types()[0];
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
  for (const auto& node : nodes) {
    for (int i = 0; i < node->num_results(); ++i) {
      const Value value = node->result(i);
      const bool lies_in_operand = is_view(*node) || is_accumulation(*node);
      roots_[value] = lies_in_operand ? roots_.at(node->operand(0)) : value;
      if (is_accumulation(*node)) rewritten_.insert(roots_.at(value));
    }
  }
  ir::ValueMap<Value> joined;  // root -> the cat or pack that it is written into
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!ops::has_trait(**node, ops::kGather)) continue;
    const Value result = (*node)->result();
    if ((*node)->is("pack")) elsewhere_.insert(result);
    if (is_state_pack(**node)) continue;
    for (Value operand : (*node)->operands()) {
      while (is_whole_view(*operand.node)) operand = operand.node->operand(0);
      if ((*node)->is("pack")) parts_.push_back({roots_.at(operand), result});
      if (!is_view(*operand.node) && !roots_.at(operand).node->is_placeholder()) {
        joined.emplace(roots_.at(operand), result);
      }
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

Value MemoryClasses::root(Value value) const {
  const auto found = roots_.find(value);
  return found == roots_.end() ? value : found->second;
}

int64_t MemoryClasses::scratch_bytes(Value root) const {
  if (root.node->is_placeholder() || elsewhere_.contains(root)) return 0;
  return root.type().num_bytes();
}

LiveRanges::LiveRanges(const ir::Graph& graph) : classes_(graph) {
  find_accesses(graph);
  const std::vector<int64_t> change = changes(graph);
  int64_t live = 0;
  for (int at = 0; at < graph.num_nodes(); ++at) {
    live += change[at];
    if (live > peak_bytes_) {
      peak_bytes_ = live;
      peak_position_ = at;
    }
  }
}

void LiveRanges::find_accesses(const ir::Graph& graph) {
  for (int at = 0; at < graph.num_nodes(); ++at) {
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
}

// Those whose last reader is a kernel that may write a result over them, as the layout has it.
ir::ValueSet LiveRanges::overwritten_roots(const ir::Graph& graph) const {
  ir::ValueMap<int> num_reads;
  for (const auto& node : graph.nodes()) {
    for (Value operand : node->operands()) ++num_reads[operand];
  }
  ir::ValueSet overwritten;
  for (const auto& kernel : graph.nodes()) {
    if (kernel->body() == nullptr) continue;
    for (int result = 0; result < kernel->num_results(); ++result) {
      for (int i = 0; i < kernel->num_operands(); ++i) {
        const Value operand = kernel->operand(i), root = classes_.root(operand);
        const bool is_whole = root.type().num_bytes() == operand.type().num_bytes();
        if (!is_whole || operand.type() != kernel->types()[result]) continue;
        const auto found = accesses_.find(root);
        const bool is_last = found != accesses_.end() && found->second.back() == kernel->id() &&
                             found->second.size() > 1 && num_reads.at(operand) == 1;
        if (!is_last || overwritten.contains(root)) continue;
        if (!may_overwrite(*kernel->body(), result, i)) continue;
        overwritten.insert(root);
        break;
      }
    }
  }
  return overwritten;
}

// Of live bytes, at each position.
std::vector<int64_t> LiveRanges::changes(const ir::Graph& graph) const {
  std::vector<int64_t> change(graph.num_nodes() + 1, 0);
  const ir::ValueSet overwritten = overwritten_roots(graph);
  for (Value root : order_) {
    const std::vector<int>& positions = accesses_.at(root);
    const int end = overwritten.contains(root) ? positions.back() : positions.back() + 1;
    change[positions.front()] += classes_.scratch_bytes(root);
    change[end] -= classes_.scratch_bytes(root);
  }
  ir::ValueMap<int> last_reader;  // of each pack
  for (const MemoryClasses::Part& part : classes_.parts()) last_reader[part.pack] = 0;
  for (const auto& node : graph.nodes()) {
    for (Value operand : node->operands()) {
      const auto pack = last_reader.find(classes_.root(operand));
      if (pack != last_reader.end()) pack->second = node->id();
    }
  }
  for (const MemoryClasses::Part& part : classes_.parts()) {
    if (part.first.node->is_placeholder()) continue;
    change[part.first.node->id()] += part.first.type().num_bytes();
    change[last_reader.at(part.pack) + 1] -= part.first.type().num_bytes();
  }
  return change;
}

}  // namespace monograph::analysis
