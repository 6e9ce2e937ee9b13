#include "passes/fuse/recompute.h"

#include <fmt/format.h>

#include <algorithm>

namespace monograph::passes {
namespace {

using analysis::FuseRole;
using ir::Node;
using ir::Value;
using Group = Clusters::Group;

constexpr size_t kMaxClones = 24;   // longer chains cost more arithmetic than the loads they save
constexpr int64_t kSmallShare = 8;  // a leaf this many times smaller may be stored for it

template <typename T>
bool contains(const std::vector<T*>& list, const T* item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool precedes(const Node* a, const Node* b) {
  return a->id() < b->id();
}

class Recompute {
 public:
  Recompute(const ir::Graph& graph, Clusters& clusters, PassContext& context)
      : clusters_(clusters), context_(context) {
    for (const auto& node : graph.nodes()) {
      order_.push_back(node.get());
      Group* group = clusters.group_of(node.get());
      for (Value operand : node->operands()) {
        if (clusters.group_of(operand.node) != group) add_reader(operand, group);
      }
    }
  }

  void run() {
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      if (clusters_.role(*node) == FuseRole::kElement) visit(**node);
    }
  }

 private:
  struct Plan {
    std::vector<Node*> clones;
    std::vector<Value> new_reads;
    int64_t bytes = 0;
    bool possible = true;
  };

  void add_reader(Value value, Group* reader) {
    std::vector<Group*>& readers = readers_[value];
    if (!contains(readers, reader)) readers.push_back(reader);
  }

  bool must_store(Value value) const {
    if (clusters_.is_root(value)) return true;
    for (const Node* user : clusters_.users(value)) {
      if (clusters_.role(user) == FuseRole::kIndexed) return true;  // it reads memory
    }
    const auto found = readers_.find(value);
    return found != readers_.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [](const Group* reader) { return !reader->is_kernel; });
  }

  bool is_materialised(Value value) const {
    if (!clusters_.group_of(value.node)->is_kernel) {
      return clusters_.role(value.node) != FuseRole::kCreation;
    }
    const auto found = readers_.find(value);
    return clusters_.is_root(value) || (found != readers_.end() && !found->second.empty());
  }

  bool is_here(const Node* node, const Group& group, const Plan& plan) const {
    return clusters_.group_of(node) == &group || contains(group.clones, node) ||
           contains(plan.clones, node);
  }

  // Adds to the plan what `group` must do or read to have `value`.
  void reach(Value value, const Group& group, int64_t target_bytes, Plan& plan) {
    if (!plan.possible || is_here(value.node, group, plan)) return;
    if (clusters_.role(value.node) == FuseRole::kCreation) {
      for (Value operand : value.node->operands()) reach(operand, group, target_bytes, plan);
      return;
    }
    const auto found = readers_.find(value);
    const bool is_read = found != readers_.end() && contains(found->second, &group);
    const bool is_planned =
        std::find(plan.new_reads.begin(), plan.new_reads.end(), value) != plan.new_reads.end();
    if (is_read || is_planned) return;
    const int64_t bytes = value.type().num_bytes();
    const bool is_small = bytes * kSmallShare <= target_bytes || is_rounding(*value.node);
    if (is_materialised(value) || (is_small && can_store_here(value))) {
      plan.new_reads.push_back(value);
      plan.bytes += is_materialised(value) ? bytes : 2 * bytes;
      return;
    }
    if (clusters_.role(value.node) != FuseRole::kElement || plan.clones.size() >= kMaxClones ||
        !fits(*value.node, group)) {
      plan.possible = false;
      return;
    }
    for (Value operand : value.node->operands()) reach(operand, group, target_bytes, plan);
    plan.clones.push_back(value.node);
  }

  // What was rounded to 16 bits is stored so, and widened by who reads it.
  static bool is_rounding(const Node& node) {
    return node.is("convert") && ir::dtype_bytes(node.types()[0].dtype) == 2 &&
           ir::dtype_bytes(node.operand(0).dtype()) > 2;
  }

  static bool fits(const Node& clone, const Group& group) {
    analysis::IterationSpace joined = group.space;
    return analysis::join(joined, analysis::iteration_space(clone)).empty();
  }

  bool can_store_here(Value value) const {
    return analysis::can_store(clusters_.group_of(value.node)->space, value.shape());
  }

  void visit(Node& node) {
    const Value value = node.result();
    const auto found = readers_.find(value);
    if (found == readers_.end() || found->second.empty() || must_store(value)) return;
    const int64_t bytes = value.type().num_bytes();
    std::vector<std::pair<Group*, Plan>> plans;
    int64_t total = 0;
    for (Group* reader : found->second) {
      Plan plan;
      if (!fits(node, *reader)) return;
      for (Value operand : node.operands()) reach(operand, *reader, bytes, plan);
      plan.clones.push_back(&node);
      if (!plan.possible) return;
      total += plan.bytes;
      plans.emplace_back(reader, std::move(plan));
    }
    const int64_t stored = bytes * (1 + static_cast<int64_t>(plans.size()));
    if (total >= stored) return;
    for (auto& [reader, plan] : plans) apply(*reader, plan);
    readers_.erase(value);
    context_.remark(node, fmt::format("done again in {} kernels: {} bytes moved instead of {}",
                                      plans.size(), total, stored));
  }

  void apply(Group& reader, const Plan& plan) {
    for (Value value : plan.new_reads) add_reader(value, &reader);
    reader.clones.insert(reader.clones.end(), plan.clones.begin(), plan.clones.end());
    std::sort(reader.clones.begin(), reader.clones.end(), precedes);
  }

  Clusters& clusters_;
  PassContext& context_;
  std::vector<Node*> order_;
  ir::ValueMap<std::vector<Group*>> readers_;  // groups other than its own that load the value
};

}  // namespace

void recompute_across_kernels(const ir::Graph& graph, Clusters& clusters, PassContext& context) {
  Recompute(graph, clusters, context).run();
}

}  // namespace monograph::passes
