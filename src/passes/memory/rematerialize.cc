#include "passes/memory/rematerialize.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/memory_classes.h"
#include "ops/registry.h"
#include "passes/memory/kernel_part.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

constexpr double kFlopsPerByte = 16;  // what a core does while it moves a byte
constexpr int64_t kSmallShare = 8;    // a leaf this many times smaller may be kept for a value
constexpr int kMaxDepth = 8;          // of values that are made again for a value

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
  double score() const { return static_cast<double>(freed_bytes) / cost; }
};

class Rematerializer {
 public:
  Rematerializer(ir::Graph& graph, PassContext& context)
      : graph_(graph), context_(context), goal_(context.memory_goal()) {}

  bool run() {
    bool changed = false;
    // Each step frees bytes at one peak; the bound ends a chase from peak to peak.
    for (int steps_left = 4 * graph_.num_nodes(); steps_left > 0; --steps_left) {
      graph_.renumber();
      ranges_.emplace(graph_);
      if (ranges_->peak_bytes() <= goal_.live_bytes) break;
      std::optional<Plan> best;
      for (Value root : ranges_->roots()) {
        std::optional<Plan> plan = plan_for(root);
        if (plan && (!best || plan->score() > best->score())) best = std::move(plan);
      }
      if (!best) break;
      apply(*best);
      changed = true;
    }
    graph_.renumber();
    return changed;
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

  // A plan to make the value again after the peak, if it only waits there and that frees bytes.
  std::optional<Plan> plan_for(Value root) const {
    const std::vector<int>& accesses = ranges_->accesses(root);
    const int peak = ranges_->peak_position();
    if (accesses.front() >= peak || accesses.back() <= peak) return std::nullopt;
    const auto next = std::lower_bound(accesses.begin(), accesses.end(), peak);
    if (*next == peak) return std::nullopt;
    for (auto reader = next; reader != accesses.end(); ++reader) {
      // The optimizer writes over what others read.
      if (graph_.nodes()[*reader]->phase() == ir::Phase::kOptimizer) return std::nullopt;
    }
    Plan plan;
    plan.position = *next;
    plan.freed_bytes = bytes_of(root);
    if (!add_copy(root, 0, plan) || plan.freed_bytes <= 0) return std::nullopt;
    return plan;
  }

  // Adds to the plan what makes the value again at its position.
  bool add_copy(Value root, int depth, Plan& plan) const {
    Node& node = *root.node;
    if (depth > kMaxDepth) return false;
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
    } else if (goal_.recompute_products && ops::has_trait(node, ops::kLibrary)) {
      const ops::Cost cost = ops::cost_of(node);
      plan.cost += cost.flops / kFlopsPerByte + cost.bytes;
    } else {
      return false;
    }
    for (Value leaf : leaves) {
      if (!reach(leaf, root, depth, plan)) return false;
    }
    plan.copies.push_back(std::move(copy));
    return true;
  }

  bool is_small(Value value, Value target) const {
    return value.type().num_bytes() * kSmallShare <= target.type().num_bytes();
  }

  // Sees to it that the leaf of a copy of `target` can be read at the plan's position: it is there
  // anyway, or again; or it is made again too, or kept longer.
  bool reach(Value leaf, Value target, int depth, Plan& plan) const {
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
    const int64_t freed = plan.freed_bytes;
    if (goal_.recompute_products && !is_small(root, target)) {
      Plan attempt = plan;
      if (add_copy(root, depth + 1, attempt)) {
        plan = std::move(attempt);
        return true;
      }
    }
    if (last_access(root) < ranges_->peak_position()) plan.freed_bytes = freed - bytes_of(root);
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
    Node* copy = graph_.add(view.op(), {moved(view.operand(0))}, view.attributes(), view.types());
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
  // While a plan is applied: where, and what its readers read instead.
  int position_ = 0;
  ir::ValueMap<Value> again_;
};

}  // namespace

bool rematerialize(ir::Graph& graph, PassContext& context) {
  return Rematerializer(graph, context).run();
}

}  // namespace monograph::passes
