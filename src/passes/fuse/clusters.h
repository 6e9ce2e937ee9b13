#pragma once

#include <string_view>
#include <vector>

#include "analysis/ancestry.h"
#include "analysis/iteration_space.h"

namespace monograph::passes {

// Groups the nodes of a graph into kernels. Greedy: first along edges in graph order (a consumer
// joins its producers), then siblings that read the same value. Two groups join only if their
// spaces do, no path between them leaves them (the groups stay acyclic), and no value inside is
// complete only at the kernel's end. Creation nodes are in no group unless something outside
// kernels needs them. Nodes of different micro-batches (a forward node after a backward one begins
// another) stay apart: together, their activations would live together. So do those of different
// frames of a pipeline (analysis/walls.h).
class Clusters {
 public:
  struct Group {
    analysis::IterationSpace space;
    std::vector<ir::Node*> members;  // in graph order
    std::vector<ir::Node*> clones;   // done again here rather than read (see recompute.h)
    bool is_kernel = false;
    int position = 0;      // in a topological order of the groups
    int micro_batch = 0;   // of its members; in a pipeline, their frame
    mutable int mark = 0;  // of the last walk that came by
  };

  explicit Clusters(const ir::Graph& graph);  // the graph must be renumbered

  // Values that are made of constants and single numbers alone join one of their readers at most:
  // the others make them again (see recompute.h), rather than become one kernel for their sake.
  void merge_along_edges();
  void merge_siblings();

  // The groups with members, in no particular order.
  std::vector<Group*> groups();
  bool has_kernels() const;  // some group is one
  Group* group_of(const ir::Node* node) { return groups_by_node_[node->id()]; }
  analysis::FuseRole role(const ir::Node* node) const { return roles_[node->id()]; }
  const std::vector<ir::Node*>& users(ir::Value value) const;
  bool is_root(ir::Value value) const { return roots_.contains(value); }

  // Why these two groups may not be one; empty when they may.
  std::string_view why_not(const Group& a, const Group& b);

 private:
  void merge(Group& a, Group& b);
  void reorder(Group& first, Group& second);
  template <typename Visit>
  void walk(const Group& from, int last_position, const Visit& visit) const;
  bool try_merge(const ir::Node* a, const ir::Node* b);
  std::vector<ir::Node*> siblings_of(ir::Value value);
  bool is_free(ir::Value value) const { return free_.contains(value); }
  bool is_barrier(const ir::Node& producer, const ir::Node& user) const;
  bool has_barrier(const Group& from, const Group& to) const;
  bool has_detour(const Group& a, const Group& b) const;
  bool has_known_detour(const Group& from, const Group& to) const;
  bool can_store_outputs(const Group& a, const Group& b,
                         const analysis::IterationSpace& joined) const;

  const ir::Graph& graph_;
  std::vector<analysis::FuseRole> roles_;  // by node
  std::vector<std::unique_ptr<Group>> storage_;
  std::vector<Group*> groups_by_node_;
  std::vector<Group*> order_;  // topological
  ir::ValueMap<std::vector<ir::Node*>> users_;
  std::vector<std::vector<ir::Node*>> followers_;  // by node: the users of its results
  analysis::Ancestry ancestry_;
  mutable int last_mark_ = 0;
  ir::ValueSet roots_;
  ir::ValueSet free_;  // wide values that are made of constants and single numbers alone
};

}  // namespace monograph::passes
