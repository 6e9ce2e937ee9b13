#include "passes/memory/rematerialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/liveness.h"
#include "analysis/memory_classes.h"
#include "ops/registry.h"
#include "passes/memory/kernel_part.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

constexpr double kFlopsPerByte = 16;     // what a core does while it moves a byte
constexpr double kLaunchCost = 1 << 15;  // of a kernel, however small
constexpr int64_t kSmallShare = 8;       // a leaf this many times smaller may be kept for a value
constexpr size_t kMaxCopies = 12;        // of a plan: a block of a transformer
constexpr int kPatience = 64;            // steps without a lower peak

bool is_product(const Node& node) {
  return node.is("matmul") || node.is("addmm") || node.is("scaled_dot_product_attention");
}

// One node that is to run again.
struct Copy {
  Value root;                      // what it makes
  std::optional<KernelPart> part;  // of a kernel; a library call is done again as it is
};

// How one value is made again.
struct Plan {
  int position = 0;            // before which node
  std::vector<Copy> copies;    // in order; the last makes the value
  std::vector<Value> hoisted;  // earlier copies that are needed earlier now
  int64_t freed_bytes = 0;     // at the peak
  double cost = 0;             // in bytes moved

  Value root() const { return copies.back().root; }
  bool is_simple() const { return copies.size() == 1 && hoisted.empty(); }
  std::vector<Value> leaves() const {
    const Copy& copy = copies.back();
    return copy.part ? copy.part->leaves : copy.root.node->operands();
  }
  double score() const { return static_cast<double>(freed_bytes) / cost; }
};

class Rematerializer {
 public:
  Rematerializer(ir::Graph& graph, PassContext& context)
      : graph_(graph), context_(context), goal_(context.memory_goal()) {}

  bool run() {
    graph_.renumber();
    ranges_.emplace(graph_);
    const int64_t peak_before = ranges_->peak_bytes();
    int64_t least = std::numeric_limits<int64_t>::max();
    double cost_left = goal_.max_cost * (std::isinf(goal_.max_cost) ? 1 : cost_of_step());
    bool changed = false;
    // Each round frees bytes at one peak; patience ends a chase from peak to peak.
    for (int patience = kPatience; patience > 0; --patience) {
      if (ranges_->peak_bytes() <= goal_.live_bytes) break;
      if (ranges_->peak_bytes() < least) patience = kPatience;
      least = std::min(least, ranges_->peak_bytes());
      const std::vector<Plan> plans = best_plans(cost_left);
      if (plans.empty()) break;
      for (const Plan& plan : plans) apply(plan);
      changed = true;
      ranges_.emplace(graph_);
    }
    if (!changed) return false;
    context_.recomputation().freed_bytes += peak_before - ranges_->peak_bytes();
    // Views whose readers have gone to a copy.
    const auto live = analysis::live_nodes(graph_);
    graph_.erase_if([&](const Node& node) { return !live.contains(&node); });
    graph_.renumber();
    return true;
  }

 private:
  // --- lifetimes ------------------------------------------------------------------------------

  const analysis::MemoryClasses& classes() const { return ranges_->classes(); }
  int64_t bytes_of(Value root) const { return classes().scratch_bytes(root); }
  int first_access(Value root) const { return ranges_->accesses(root).front(); }
  int last_access(Value root) const { return ranges_->accesses(root).back(); }

  bool is_alive(Value value, int position) const {
    const Value root = classes().root(value);
    if (bytes_of(root) == 0) return true;  // it stays from beginning to end
    return first_access(root) < position && position <= last_access(root);
  }

  // --- planning -------------------------------------------------------------------------------

  // What all nodes cost, in bytes moved.
  double cost_of_step() const {
    double sum = 0;
    for (const auto& node : graph_.nodes()) {
      if (node->is_placeholder() || ops::has_trait(*node, ops::kViewLike)) continue;
      const ops::Cost cost = ops::cost_of(*node);
      sum += cost.flops / kFlopsPerByte + cost.bytes;
    }
    return sum;
  }

  // The plans with the best score that together free what is above the goal, for no more than
  // `cost_left`. One alone, if it moves or copies more than its value; the last position first
  // otherwise, so that the others' positions hold while they are applied.
  std::vector<Plan> best_plans(double& cost_left) {
    hopeless_.clear();
    std::vector<Plan> plans;
    for (Value root : ranges_->roots()) {
      if (std::optional<Plan> plan = plan_for(root)) plans.push_back(std::move(*plan));
    }
    std::stable_sort(plans.begin(), plans.end(),
                     [](const Plan& a, const Plan& b) { return a.score() > b.score(); });
    int64_t excess = ranges_->peak_bytes() - goal_.live_bytes;
    std::vector<Plan> best;
    ir::ValueSet made, read;
    for (Plan& plan : plans) {
      if (excess <= 0) break;
      if (plan.cost > cost_left) continue;
      if (!best.empty() && (!plan.is_simple() || !is_independent(plan, made, read))) continue;
      excess -= plan.freed_bytes;
      cost_left -= plan.cost;
      made.insert(plan.root());
      for (Value leaf : plan.leaves()) read.insert(classes().root(leaf));
      best.push_back(std::move(plan));
      if (!best.back().is_simple()) break;
    }
    std::stable_sort(best.begin(), best.end(),
                     [](const Plan& a, const Plan& b) { return a.position > b.position; });
    return best;
  }

  // It reads nothing that the others make again, and makes nothing again that they read.
  bool is_independent(const Plan& plan, const ir::ValueSet& made, const ir::ValueSet& read) const {
    const std::vector<Value> leaves = plan.leaves();
    return !read.contains(plan.root()) &&
           std::none_of(leaves.begin(), leaves.end(),
                        [&](Value leaf) { return made.contains(classes().root(leaf)); });
  }

  // A plan to make the value again after the peak, if it only waits there and that frees bytes.
  std::optional<Plan> plan_for(Value root) {
    const std::vector<int>& accesses = ranges_->accesses(root);
    const int peak = ranges_->peak_position();
    if (accesses.front() >= peak || accesses.back() <= peak) return std::nullopt;
    if (classes().is_rewritten(root)) return std::nullopt;
    const auto next = std::lower_bound(accesses.begin(), accesses.end(), peak);
    if (*next == peak) return std::nullopt;
    for (auto reader = next; reader != accesses.end(); ++reader) {
      // The optimizer writes over what others read.
      if (graph_.nodes()[*reader]->phase() == ir::Phase::kOptimizer) return std::nullopt;
    }
    Plan plan;
    plan.cost = kLaunchCost;
    plan.position = *next;
    plan.freed_bytes = bytes_of(root);
    if (!add_copy(root, plan) || plan.freed_bytes <= 0) return std::nullopt;
    return plan;
  }

  // Adds to the plan what makes the value again at its position.
  bool add_copy(Value root, Plan& plan) {
    Node& node = *root.node;
    Copy copy{root, std::nullopt};
    std::vector<Value> leaves = node.operands();
    if (node.body() != nullptr) {
      copy.part = cut_kernel(node, root, [&](Value value) {
        return is_alive(value, plan.position) || is_small(value, root);
      });
      if (!copy.part) return false;
      leaves = copy.part->leaves;
      plan.cost += copy.part->flops / kFlopsPerByte + static_cast<double>(bytes_of(root));
      for (Value leaf : leaves) plan.cost += static_cast<double>(leaf.type().num_bytes());
    } else if (goal_.recompute_products && is_product(node)) {
      const ops::Cost cost = ops::cost_of(node);
      plan.cost += cost.flops / kFlopsPerByte + cost.bytes;
    } else {
      return false;
    }
    for (Value leaf : leaves) {
      if (!reach(leaf, root, plan)) return false;
    }
    plan.copies.push_back(std::move(copy));
    return plan.copies.size() <= kMaxCopies;
  }

  bool is_small(Value value, Value target) const {
    return value.type().num_bytes() * kSmallShare <= target.type().num_bytes();
  }

  // Sees to it that the leaf of a copy of `target` can be read at the plan's position: it is there
  // anyway, or again; or it is made again too, or kept longer.
  bool reach(Value leaf, Value target, Plan& plan) {
    if (classes().is_rewritten(classes().root(leaf))) return false;
    const Value root = source_of(classes().root(leaf), plan.position);
    if (is_alive(root, plan.position) || contains(plan.hoisted, root)) return true;
    for (const Copy& copy : plan.copies) {
      if (copy.root == root) return true;
    }
    if (first_access(root) >= plan.position) {  // a copy that stands further down
      plan.hoisted.push_back(root);
      return std::all_of(root.node->operands().begin(), root.node->operands().end(),
                         [&](Value operand) { return is_alive(operand, plan.position); });
    }
    const bool may_copy =
        goal_.recompute_products && !is_small(root, target) && !hopeless_.contains(root);
    if (may_copy) {
      Plan attempt = plan;
      if (add_copy(root, attempt)) {
        plan = std::move(attempt);
        return true;
      }
      hopeless_.insert(root);  // for the other plans of this step too: it bounds the search
    }
    if (last_access(root) < ranges_->peak_position()) plan.freed_bytes -= bytes_of(root);
    return plan.freed_bytes > 0;
  }

  static bool contains(const std::vector<Value>& list, Value value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }

  // Where a reader at the position finds a value: in its newest copy, if it is gone by then.
  Value source_of(Value root, int position) const {
    if (is_alive(root, position)) return root;
    for (auto found = copies_.find(root); found != copies_.end(); found = copies_.find(root)) {
      root = found->second;
    }
    return root;
  }

  // --- rewriting ------------------------------------------------------------------------------

  void apply(const Plan& plan) {
    const Value old = plan.root();
    context_.remark(
        *old.node,
        fmt::format("result {} is made again at %{} by {} nodes: {} bytes fewer at %{}", old.index,
                    plan.position, plan.copies.size(), plan.freed_bytes, ranges_->peak_position()));
    std::vector<std::unique_ptr<Node>> nodes = graph_.take_nodes();
    for (int at = 0; at < plan.position; ++at) graph_.append(std::move(nodes[at]));
    position_ = plan.position;
    again_.clear();
    for (Value hoisted : plan.hoisted) hoist(*hoisted.node, nodes);
    for (const Copy& copy : plan.copies) {
      const Value made = emit(copy);
      again_[copy.root] = copies_[copy.root] = made;
    }
    for (size_t at = plan.position; at < nodes.size(); ++at) {
      if (nodes[at] == nullptr) continue;
      redirect(*nodes[at], old);
      graph_.append(std::move(nodes[at]));
    }
    graph_.renumber();
  }

  // Moves a copy up to the position, with the views that it reads through.
  void hoist(const Node& node, std::vector<std::unique_ptr<Node>>& nodes) {
    for (Value operand : node.operands()) {
      if (operand.node->id() >= position_) hoist(*operand.node, nodes);
    }
    if (nodes[node.id()] != nullptr) graph_.append(std::move(nodes[node.id()]));
  }

  Value emit(const Copy& copy) {
    Node& node = *copy.root.node;
    std::vector<Value> operands;
    for (Value leaf : copy.part ? copy.part->leaves : node.operands()) {
      operands.push_back(moved(leaf));
    }
    Node* made = copy.part
                     ? graph_.add_fused(std::move(operands), make_body(node, *copy.part))
                     : graph_.add(node.op(), std::move(operands), node.attributes(), node.types());
    made->set_phase(ir::Phase::kBackward);
    made->set_provenance(node.provenance());
    Recomputation& sum = context_.recomputation();
    ++sum.num_kernels;
    sum.num_nodes += copy.part ? copy.part->num_nodes : 1;
    sum.flops += copy.part ? copy.part->flops : ops::cost_of(node).flops;
    return made->result(copy.part ? 0 : copy.root.index);
  }

  // The value as it is there now: of a copy, or seen through a copy of its views.
  Value moved(Value value) {
    const auto found = again_.find(value);
    if (found != again_.end()) return found->second;
    const Value root = classes().root(value);
    const Value source = source_of(root, position_);
    const Value newest = again_.contains(source) ? again_.at(source) : source;
    if (newest == root) return value;
    if (value == root) return newest;
    Node& view = *value.node;
    std::vector<Value> operands = view.operands();  // `after` has more than one
    operands[0] = moved(operands[0]);
    Node* copy = graph_.add(view.op(), std::move(operands), view.attributes(), view.types());
    copy->set_phase(ir::Phase::kBackward);
    copy->set_provenance(view.provenance());
    for (int i = 0; i < view.num_results(); ++i) again_[view.result(i)] = copy->result(i);
    return again_.at(value);
  }

  // Readers behind the position read the copy; views behind it follow by themselves.
  void redirect(Node& node, Value old) {
    for (int i = 0; i < node.num_operands(); ++i) {
      const Value operand = node.operand(i);
      if (operand.node->id() >= position_ || classes().root(operand) != old) continue;
      node.set_operand(i, moved(operand));
    }
  }

  ir::Graph& graph_;
  PassContext& context_;
  const MemoryGoal goal_;
  std::optional<analysis::LiveRanges> ranges_;
  ir::ValueMap<Value> copies_;  // root -> its newest copy
  ir::ValueSet hopeless_;       // roots that no plan of this step could make again as a leaf
  // While a plan is applied: where, and what its readers read instead.
  int position_ = 0;
  ir::ValueMap<Value> again_;
};

}  // namespace

bool rematerialize(ir::Graph& graph, PassContext& context) {
  return Rematerializer(graph, context).run();
}

}  // namespace monograph::passes
