#include "passes/fuse/fused_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "base/error.h"

namespace monograph::passes {
namespace {

using analysis::FuseRole;
using ir::Node;
using ir::Value;
using Group = Clusters::Group;

// What a group does: members, clones, and the creation nodes that they read.
std::vector<Node*> body_nodes(const Clusters& clusters, const Group& group) {
  std::vector<Node*> pending = group.members;
  pending.insert(pending.end(), group.clones.begin(), group.clones.end());
  std::vector<Node*> nodes;
  std::unordered_set<const Node*> seen;
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    if (!seen.insert(node).second) continue;
    nodes.push_back(node);
    for (Value operand : node->operands()) {
      if (clusters.role(operand.node) == FuseRole::kCreation) pending.push_back(operand.node);
    }
  }
  return nodes;
}

struct Kernel {
  std::vector<Node*> nodes;
  std::vector<Value> operands;  // values of the original graph
  std::vector<Value> results;
};

class FusedGraph {
 public:
  FusedGraph(ir::Graph& graph, Clusters& clusters) : graph_(graph), clusters_(clusters) {
    for (Group* group : clusters.groups()) {
      if (group->is_kernel) kernels_[group].nodes = body_nodes(clusters, *group);
    }
    // A value done again elsewhere may leave nothing to do here, and so on upwards.
    while (prune()) {
    }
    for (auto& [group, kernel] : kernels_) collect_operands(kernel);
  }

  // Streams the graph back: kernels and other nodes in a topological order that stays close to the
  // original one (a kernel stands where its last member stood).
  void rebuild() {
    old_nodes_ = graph_.take_nodes();
    std::unordered_map<Group*, int> waiting;
    std::unordered_map<Group*, std::vector<Group*>> followers;
    for (Group* group : clusters_.groups()) {
      if (is_dropped(*group)) continue;
      std::unordered_set<Group*> before;
      for (Value operand : operands_of(group)) before.insert(clusters_.group_of(operand.node));
      waiting[group] = static_cast<int>(before.size());
      for (Group* producer : before) followers[producer].push_back(group);
    }
    const auto later = [](const Group* a, const Group* b) {
      return a->members.back()->id() > b->members.back()->id();
    };
    std::priority_queue<Group*, std::vector<Group*>, decltype(later)> ready(later);
    for (const auto& [group, count] : waiting) {
      if (count == 0) ready.push(group);
    }
    size_t num_emitted = 0;
    while (!ready.empty()) {
      Group* group = ready.top();
      ready.pop();
      emit(group);
      ++num_emitted;
      for (Group* follower : followers[group]) {
        if (--waiting[follower] == 0) ready.push(follower);
      }
    }
    check(num_emitted == waiting.size(), "fuse: kernels form a cycle ({} of {} emitted)",
          num_emitted, waiting.size());
    graph_.substitute(moved_);
  }

 private:
  // Collects operands and results of all kernels, and drops nodes that no result needs.
  bool prune() {
    read_.clear();
    for (Group* group : clusters_.groups()) {
      if (group->is_kernel) collect_operands(kernels_.at(group));
    }
    bool changed = false;
    for (Group* group : clusters_.groups()) {
      if (!group->is_kernel) continue;
      Kernel& kernel = kernels_.at(group);
      collect_results(kernel, *group);
      changed = keep_needed(kernel) || changed;
    }
    return changed;
  }

  void collect_operands(Kernel& kernel) {
    kernel.operands.clear();
    const std::unordered_set<const Node*> inside(kernel.nodes.begin(), kernel.nodes.end());
    for (Node* node : kernel.nodes) {
      for (Value operand : node->operands()) {
        const bool is_new = std::find(kernel.operands.begin(), kernel.operands.end(), operand) ==
                            kernel.operands.end();
        if (inside.contains(operand.node) || !is_new) continue;
        kernel.operands.push_back(operand);
        read_.insert(operand);
      }
    }
  }

  void collect_results(Kernel& kernel, const Group& group) {
    kernel.results.clear();
    for (Node* node : group.members) {
      const Value value = node->result();
      bool leaves = clusters_.is_root(value) || read_.contains(value);
      for (const Node* user : clusters_.users(value)) {
        leaves = leaves || !clusters_.group_of(user)->is_kernel;
      }
      if (leaves) kernel.results.push_back(value);
    }
  }

  // The nodes that the results need, operands first: an order that depends on the structure alone,
  // so that equal layers give equal kernels.
  static std::vector<Node*> needed_nodes(const Kernel& kernel) {
    const std::unordered_set<const Node*> inside(kernel.nodes.begin(), kernel.nodes.end());
    std::unordered_set<const Node*> done;
    std::vector<Node*> order, pending;
    for (auto result = kernel.results.rbegin(); result != kernel.results.rend(); ++result) {
      pending.push_back(result->node);
    }
    while (!pending.empty()) {
      Node* node = pending.back();
      const auto& operands = node->operands();
      const auto missing = std::find_if(operands.begin(), operands.end(), [&](Value operand) {
        return inside.contains(operand.node) && !done.contains(operand.node);
      });
      if (missing != operands.end()) {
        pending.push_back(missing->node);
        continue;
      }
      pending.pop_back();
      if (done.insert(node).second) order.push_back(node);
    }
    return order;
  }

  static bool keep_needed(Kernel& kernel) {
    std::vector<Node*> needed = needed_nodes(kernel);
    const bool changed = needed.size() != kernel.nodes.size();
    kernel.nodes = std::move(needed);
    return changed;
  }

  bool is_dropped(Group& group) const {
    if (group.is_kernel) return kernels_.at(&group).nodes.empty();
    return clusters_.role(group.members.front()) == FuseRole::kCreation;
  }

  const std::vector<Value>& operands_of(Group* group) const {
    return group->is_kernel ? kernels_.at(group).operands : group->members.front()->operands();
  }

  Value moved(Value value) const {
    const auto found = moved_.find(value);
    return found == moved_.end() ? value : found->second;
  }

  void emit(Group* group) {
    if (group->is_kernel) return emit_kernel(kernels_.at(group));
    Node* node = group->members.front();
    for (int i = 0; i < node->num_operands(); ++i) node->set_operand(i, moved(node->operand(i)));
    graph_.append(std::move(old_nodes_[node->id()]));
  }

  void emit_kernel(const Kernel& kernel) {
    auto body = std::make_unique<ir::Graph>("kernel");
    ir::ValueMap<Value> inside;
    std::vector<Value> operands;
    for (Value operand : kernel.operands) {
      const std::string name = fmt::format("x{}", operands.size());
      inside[operand] = body->add_input(name, operand.type())->result();
      operands.push_back(moved(operand));
    }
    for (Node* node : kernel.nodes) {
      std::vector<Value> arguments;
      for (Value operand : node->operands()) arguments.push_back(inside.at(operand));
      Node* twin = body->add(node->op(), std::move(arguments), node->attributes(), node->types());
      twin->set_phase(node->phase());
      twin->set_provenance(node->provenance());
      inside[node->result()] = twin->result();
    }
    for (Value result : kernel.results) {
      body->add_output(fmt::format("y{}", body->outputs().size()), inside.at(result));
    }
    const Node& last = *kernel.results.back().node;
    Node* fused = graph_.add_fused(std::move(operands), std::move(body));
    fused->set_phase(last.phase());
    fused->set_provenance(last.provenance());
    for (int i = 0; i < fused->num_results(); ++i) moved_[kernel.results[i]] = fused->result(i);
  }

  ir::Graph& graph_;
  Clusters& clusters_;
  std::unordered_map<Group*, Kernel> kernels_;
  ir::ValueSet read_;  // by some kernel, from memory
  std::vector<std::unique_ptr<Node>> old_nodes_;
  ir::ValueMap<Value> moved_;
};

}  // namespace

void put_into_kernels(ir::Graph& graph, Clusters& clusters) {
  FusedGraph(graph, clusters).rebuild();
  graph.renumber();
}

}  // namespace monograph::passes
