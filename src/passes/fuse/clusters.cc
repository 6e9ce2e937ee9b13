#include "passes/fuse/clusters.h"

#include <algorithm>

#include "analysis/walls.h"
#include "base/error.h"
#include "ops/registry.h"

namespace monograph::passes {

using analysis::FuseRole;
using analysis::IterationSpace;
using ir::Node;
using ir::Value;

// Where a micro-batch may begin: not at views, constants and single numbers.
static bool does_work(const Node& node, FuseRole role) {
  return !node.is_placeholder() && node.types()[0].num_elements() > 1 &&
         role != FuseRole::kCreation && !ops::has_trait(node, ops::kViewLike) &&
         !ops::has_trait(node, ops::kGather);
}

Clusters::Clusters(const ir::Graph& graph)
    : graph_(graph),
      users_(ir::users_of(graph)),
      followers_(analysis::followers_of(graph)),
      ancestry_(followers_) {
  for (Value root : graph.roots()) roots_.insert(root);
  for (const auto& node : graph.nodes()) roles_.push_back(analysis::fuse_role(*node));
  for (const auto& node : graph.nodes()) {
    const auto is_free = [&](Value operand) {
      return operand.type().num_elements() == 1 || free_.contains(operand);
    };
    const FuseRole role = this->role(node.get());
    const bool is_cheap = role == FuseRole::kElement || role == FuseRole::kCreation;
    if (is_cheap && node->types()[0].num_elements() > 1 &&
        std::all_of(node->operands().begin(), node->operands().end(), is_free)) {
      free_.insert(node->result());
    }
  }
  const std::vector<int> walls = analysis::walls_of(graph);
  int micro_batch = 0;
  ir::Phase phase = ir::Phase::kForward;
  for (const auto& node : graph.nodes()) {
    const FuseRole role = this->role(node.get());
    if (does_work(*node, role)) {
      micro_batch += node->phase() == ir::Phase::kForward && phase == ir::Phase::kBackward;
      phase = node->phase();
    }
    // A chunk of a loss head is no micro-batch: it waits for the chunk before by itself.
    if (node->is("after")) phase = node->phase();
    auto group = std::make_unique<Group>();
    group->is_kernel = role != FuseRole::kNone && role != FuseRole::kCreation;
    if (role == FuseRole::kCreation) {
      const auto& users_here = users(node->result());
      group->is_kernel = is_root(node->result()) ||
                         std::any_of(users_here.begin(), users_here.end(), [&](const Node* user) {
                           return this->role(user) == FuseRole::kNone;
                         });
    }
    if (group->is_kernel) group->space = analysis::iteration_space(*node);
    group->members.push_back(node.get());
    groups_by_node_.push_back(group.get());
    group->position = static_cast<int>(order_.size());
    group->micro_batch = walls.empty() ? micro_batch : walls[node->id()];
    order_.push_back(group.get());
    storage_.push_back(std::move(group));
  }
}

const std::vector<Node*>& Clusters::users(Value value) const {
  static const std::vector<Node*> kNone;
  const auto found = users_.find(value);
  return found == users_.end() ? kNone : found->second;
}

std::vector<Clusters::Group*> Clusters::groups() {
  std::vector<Group*> result;
  for (const auto& group : storage_) {
    if (!group->members.empty()) result.push_back(group.get());
  }
  return result;
}

bool Clusters::has_kernels() const {
  return std::any_of(storage_.begin(), storage_.end(),
                     [](const auto& group) { return group->is_kernel && !group->members.empty(); });
}

// A result that is complete only at the end, or an operand that must lie in memory, keeps the two
// nodes of an edge apart.
bool Clusters::is_barrier(const Node& producer, const Node& user) const {
  return role(&producer) == FuseRole::kTerminal || role(&user) == FuseRole::kIndexed;
}

bool Clusters::has_barrier(const Group& from, const Group& to) const {
  for (const Node* node : from.members) {
    for (const Node* user : followers_[node->id()]) {
      if (groups_by_node_[user->id()] == &to && is_barrier(*node, *user)) return true;
    }
  }
  return false;
}

// The groups that a path from `from` leads to, up to a position in the order; `visit` says whether
// to go on.
template <typename Visit>
void Clusters::walk(const Group& from, int last_position, const Visit& visit) const {
  from.mark = ++last_mark_;
  std::vector<const Group*> pending = {&from};
  while (!pending.empty()) {
    const Group& group = *pending.back();
    pending.pop_back();
    for (const Node* node : group.members) {
      for (const Node* user : followers_[node->id()]) {
        const Group* next = groups_by_node_[user->id()];
        if (next->position > last_position || next->mark == last_mark_) continue;
        if (!visit(group, *next)) return;
        if (next->position == last_position) continue;  // the end: every edge to it is visited
        next->mark = last_mark_;
        pending.push_back(next);
      }
    }
  }
}

// A path of nodes through a third group that is seen without a walk. Walks between a layer's
// forward and its backward are as long as the rest of the model: without this, their sum grows with
// the square of the depth.
bool Clusters::has_known_detour(const Group& from, const Group& to) const {
  for (const Node* node : from.members) {
    for (const Node* user : followers_[node->id()]) {
      const Group* next = groups_by_node_[user->id()];
      if (next == &from || next == &to || next->position > to.position) continue;
      for (const Node* end : to.members) {
        if (ancestry_.is_ancestor(*user, *end)) return true;
      }
    }
  }
  return false;
}

// Whether a path leads from one group to the other through a third.
bool Clusters::has_detour(const Group& a, const Group& b) const {
  const Group& from = a.position < b.position ? a : b;
  const Group& to = a.position < b.position ? b : a;
  if (has_known_detour(from, to)) return true;
  bool found = false;
  walk(from, to.position, [&](const Group& at, const Group& next) {
    found = &next == &to && &at != &from;
    return !found;
  });
  return found;
}

bool Clusters::can_store_outputs(const Group& a, const Group& b,
                                 const IterationSpace& joined) const {
  for (const Group* group : {&a, &b}) {
    for (Node* node : group->members) {
      if (role(node) == FuseRole::kTerminal || analysis::can_store(joined, node->types()[0].shape))
        continue;
      const Value value = node->result();
      const auto& users_here = users(value);
      const bool leaves = is_root(value) ||
                          std::any_of(users_here.begin(), users_here.end(), [&](const Node* user) {
                            const Group* at = groups_by_node_[user->id()];
                            return at != &a && at != &b;
                          });
      if (leaves) return false;
    }
  }
  return true;
}

std::string_view Clusters::why_not(const Group& a, const Group& b) {
  if (!a.is_kernel || !b.is_kernel) return "a library call, a view or an input";
  if (a.micro_batch != b.micro_batch) return "another micro-batch, or frame of a pipeline";
  IterationSpace joined = a.space;
  if (const std::string_view reason = join(joined, b.space); !reason.empty()) return reason;
  if (has_barrier(a, b) || has_barrier(b, a)) return "complete only when the kernel ends";
  if (!can_store_outputs(a, b, joined)) return "a broadcast value is needed in memory";
  if (has_detour(a, b)) return "a path between them leaves the kernel";
  return {};
}

// Keeps `order_` topological (Pearce & Kelly, A Dynamic Topological Sort Algorithm, 2006): of the
// groups between the two, those that the first leads to come after the merged group, the others
// before.
void Clusters::reorder(Group& first, Group& second) {
  walk(first, second.position, [](const Group&, const Group&) { return true; });
  std::vector<Group*> window, late;
  for (int at = first.position + 1; at < second.position; ++at) {
    (order_[at]->mark == last_mark_ ? late : window).push_back(order_[at]);
  }
  window.push_back(&first);
  window.insert(window.end(), late.begin(), late.end());
  window.push_back(&second);  // empty from now on
  const int begin = first.position;
  for (size_t i = 0; i < window.size(); ++i) {
    order_[begin + i] = window[i];
    window[i]->position = begin + static_cast<int>(i);
  }
}

void Clusters::merge(Group& a, Group& b) {
  Group& into = a.position < b.position ? a : b;
  Group& from = a.position < b.position ? b : a;
  reorder(into, from);
  analysis::join(into.space, from.space);
  const size_t middle = into.members.size();
  for (Node* node : from.members) {
    groups_by_node_[node->id()] = &into;
    into.members.push_back(node);
  }
  std::inplace_merge(into.members.begin(), into.members.begin() + middle, into.members.end(),
                     [](const Node* x, const Node* y) { return x->id() < y->id(); });
  from.members.clear();
}

bool Clusters::try_merge(const Node* a, const Node* b) {
  Group* first = group_of(a);
  Group* second = group_of(b);
  if (first == second || !why_not(*first, *second).empty()) return false;
  merge(*first, *second);
  return true;
}

void Clusters::merge_along_edges() {
  for (const auto& node : graph_.nodes()) {
    if (!group_of(node.get())->is_kernel) continue;
    for (Value operand : node->operands()) {
      if (is_free(operand) && users(operand).size() > 1 && !is_free(node->result())) continue;
      try_merge(operand.node, node.get());
    }
  }
}

// A shared scalar saves no traffic: it joins kernels of scalars with each other and with the last
// kernel that reads it, so that a counter can be written in place.
std::vector<Node*> Clusters::siblings_of(Value value) {
  std::vector<Node*> siblings = users(value);
  if (is_free(value)) return {};
  if (value.type().num_elements() > 1) return siblings;
  const auto is_wide = [&](const Node* sibling) {
    return group_of(sibling)->space.shape.num_elements() > 1;
  };
  const auto last = std::find_if(siblings.rbegin(), siblings.rend(), is_wide);
  const Node* last_wide = last == siblings.rend() ? nullptr : *last;
  std::erase_if(siblings,
                [&](const Node* sibling) { return is_wide(sibling) && sibling != last_wide; });
  return siblings;
}

void Clusters::merge_siblings() {
  for (const auto& node : graph_.nodes()) {
    for (int i = 0; i < node->num_results(); ++i) {
      const std::vector<Node*> siblings = siblings_of(node->result(i));
      for (size_t first = 0; first < siblings.size(); ++first) {
        for (size_t second = first + 1; second < siblings.size(); ++second) {
          try_merge(siblings[first], siblings[second]);
        }
      }
    }
  }
}

}  // namespace monograph::passes
