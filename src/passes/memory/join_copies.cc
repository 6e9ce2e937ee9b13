#include "passes/memory/join_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/in_place.h"
#include "analysis/iteration_space.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

constexpr int kWindow = 48;         // nodes between a copy and the kernel
constexpr int kMaxMoved = 8;        // nodes that move behind the kernel, views not counted
constexpr int64_t kSmallShare = 8;  // an operand this many times smaller may be loaded once more

bool contains(const std::vector<Value>& list, Value value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// A kernel's body with that of another after it; equal nodes are there once.
class JoinedBody {
 public:
  explicit JoinedBody(const std::vector<Value>& operands)
      : body_(std::make_unique<ir::Graph>("kernel")) {
    for (const Value operand : operands) {
      const std::string name = fmt::format("x{}", body_->num_nodes());
      inputs_[operand] = body_->add_input(name, operand.type())->result();
    }
  }

  void add(const Node& kernel) {
    ir::ValueMap<Value> inside;
    int number = 0;
    for (const auto& node : kernel.body()->nodes()) {
      inside[node->result()] =
          node->is("input") ? inputs_.at(kernel.operand(number++)) : twin(*node, inside);
    }
    for (const auto& output : kernel.body()->outputs()) {
      body_->add_output(fmt::format("y{}", body_->outputs().size()), inside.at(output.value));
    }
  }

  std::unique_ptr<ir::Graph> take() { return std::move(body_); }

 private:
  Value twin(const Node& node, const ir::ValueMap<Value>& inside) {
    std::vector<Value> operands;
    for (const Value operand : node.operands()) operands.push_back(inside.at(operand));
    for (const auto& known : body_->nodes()) {
      if (known->op() == node.op() && known->operands() == operands &&
          known->attributes() == node.attributes() && known->types() == node.types() &&
          !known->is_placeholder()) {
        return known->result();
      }
    }
    Node* twin = body_->add(node.op(), std::move(operands), node.attributes(), node.types());
    twin->set_phase(node.phase());
    twin->set_provenance(node.provenance());
    return twin->result();
  }

  std::unique_ptr<ir::Graph> body_;
  ir::ValueMap<Value> inputs_;
};

class Joiner {
 public:
  Joiner(ir::Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    bool changed = false;
    graph_.renumber();
    for (int at = 0; at < graph_.num_nodes(); ++at) {
      Node& copy = *graph_.nodes()[at];
      if (!is_copy(copy)) continue;
      const int host = host_of(copy);
      if (host < 0) continue;
      join(at, host);
      changed = true;
    }
    return changed;
  }

 private:
  // Of the form that rematerialize gives kernels that it does again.
  static bool is_copy(const Node& node) {
    return node.body() != nullptr && node.phase() == ir::Phase::kBackward &&
           node.num_results() == 1 && analysis::is_elementwise(*node.body());
  }

  // The nearest kernel that can make the copy's value too; -1: none.
  int host_of(const Node& copy) {
    const int begin = std::max(0, copy.id() - kWindow);
    const int end = std::min(graph_.num_nodes(), copy.id() + kWindow + 1);
    int best = -1;
    for (int at = begin; at < end; ++at) {
      const bool is_nearer = best < 0 || std::abs(at - copy.id()) < std::abs(best - copy.id());
      if (at == copy.id() || !is_nearer) continue;
      const Node& kernel = *graph_.nodes()[at];
      if (kernel.body() == nullptr || kernel.phase() != copy.phase()) continue;
      if (reads_what_it_needs(kernel, copy) && spaces_join(kernel, copy) && can_wait(copy, at)) {
        best = at;
      }
    }
    return best;
  }

  static bool reads_what_it_needs(const Node& kernel, const Node& copy) {
    const int64_t bytes = copy.types()[0].num_bytes();
    bool shares = false;
    for (const Value operand : copy.operands()) {
      const bool is_shared = contains(kernel.operands(), operand);
      const bool is_there = operand.node->id() < kernel.id();
      if (!is_shared && (!is_there || operand.type().num_bytes() * kSmallShare > bytes)) {
        return false;
      }
      shares = shares || is_shared;
    }
    return shares;
  }

  static bool spaces_join(const Node& kernel, const Node& copy) {
    analysis::IterationSpace space = analysis::kernel_space(*kernel.body());
    const ir::Shape shape = space.shape;
    return analysis::join(space, analysis::kernel_space(*copy.body())).empty() &&
           space.shape == shape && analysis::can_store(space, copy.types()[0].shape);
  }

  // What comes of the copy before the kernel can be done after it; `moved_` gets it.
  bool can_wait(const Node& copy, int host) {
    moved_.clear();
    std::unordered_set<const Node*> seen = {&copy};
    int num_moved = 0;
    for (int at = copy.id() + 1; at <= host; ++at) {
      const Node& node = *graph_.nodes()[at];
      const auto& operands = node.operands();
      const bool depends = std::any_of(operands.begin(), operands.end(),
                                       [&](Value operand) { return seen.contains(operand.node); });
      if (!depends) continue;
      if (at == host || node.phase() == ir::Phase::kOptimizer) return false;
      seen.insert(&node);
      moved_.insert(at);
      num_moved += !ops::has_trait(node, ops::kViewLike);
    }
    return num_moved <= kMaxMoved;
  }

  void join(int copy_at, int host_at) {
    Node& copy = *graph_.nodes()[copy_at];
    Node& host = *graph_.nodes()[host_at];
    can_wait(copy, host_at);
    context_.remark(host, fmt::format("makes %{} too, of what it reads: {} nodes wait for it",
                                      copy_at, moved_.size()));
    std::vector<Value> operands = host.operands();
    for (const Value operand : copy.operands()) {
      if (!contains(operands, operand)) operands.push_back(operand);
    }
    JoinedBody body(operands);
    body.add(host);
    body.add(copy);
    std::vector<std::unique_ptr<Node>> nodes = graph_.take_nodes();
    ir::ValueMap<Value> replacement;
    for (int at = 0; at < static_cast<int>(nodes.size()); ++at) {
      if (at == host_at) {
        Node* joined = graph_.add_fused(operands, body.take());
        joined->set_phase(host.phase());
        joined->set_provenance(host.provenance());
        for (int i = 0; i < host.num_results(); ++i) {
          replacement[host.result(i)] = joined->result(i);
        }
        replacement[copy.result()] = joined->result(host.num_results());
        for (const int late : moved_) graph_.append(std::move(nodes[late]));
      } else if (at != copy_at && !moved_.contains(at)) {
        graph_.append(std::move(nodes[at]));
      }
    }
    graph_.substitute(replacement);
    graph_.renumber();
  }

  ir::Graph& graph_;
  PassContext& context_;
  std::set<int> moved_;  // positions
};

}  // namespace

bool join_copies(ir::Graph& graph, PassContext& context) {
  if (!context.joins_copies || context.recomputation().num_kernels == 0) return false;
  return Joiner(graph, context).run();
}

}  // namespace monograph::passes
