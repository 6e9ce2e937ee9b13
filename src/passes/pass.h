#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/link_model.h"

namespace monograph::passes {

// A decision that a pass took about a node, shown by `explain`.
struct Remark {
  std::string pass;
  std::string node;  // "%12 = add" with its scope
  std::string reason;
  std::string cause = {};  // why an edge between two kernels did not fuse: reasons to be counted
};

// What `rematerialize` aims at.
struct MemoryGoal {
  int64_t live_bytes = std::numeric_limits<int64_t>::max();  // by analysis::LiveRanges
  bool recompute_products = false;  // matrix products and attention too, not cheap kernels only
  // Of the time of all nodes, by a model of it: no more is spent on making values again.
  double max_cost = std::numeric_limits<double>::infinity();
};

// What the passes have decided to do twice, to hold fewer bytes.
struct Recomputation {
  int num_kernels = 0;  // kernels and library calls added
  int num_nodes = 0;    // graph nodes in them
  double flops = 0;
  int64_t freed_bytes = 0;  // of the most that were live at one node
};

// Exchanges between ranks that were written and are not done.
struct LeftOut {
  int num_collectives = 0;
  int64_t bytes = 0;  // a step, of the larger buffers
};

// What a pass may use beside the graph. Collects remarks.
class PassContext {
 public:
  void set_pass(std::string_view name) { pass_ = name; }
  void remark(const ir::Node& node, std::string reason, std::string_view cause = {});
  const std::vector<Remark>& remarks() const { return remarks_; }
  // A remark about a collective that is not done, and its bytes, if not all of them.
  void leave_out(const ir::Node& collective, std::string reason, std::optional<int64_t> bytes = {});
  const LeftOut& left_out() const { return left_out_; }

  ir::LinkModel link;  // of collectives (see bucket_all_reduce)
  // Most bytes of logits at a time (see chunk_loss_head).
  static constexpr int64_t kLossChunkBytes = int64_t{64} << 20;
  int64_t loss_chunk_bytes = kLossChunkBytes;
  bool joins_copies = false;  // see join_copies

  void set_memory_goal(MemoryGoal goal) { goal_ = goal; }
  const MemoryGoal& memory_goal() const { return goal_; }
  Recomputation& recomputation() { return recomputation_; }

 private:
  std::string pass_;
  std::vector<Remark> remarks_;
  LeftOut left_out_;
  MemoryGoal goal_;
  Recomputation recomputation_;
};

// A pass rewrites the graph in place and says whether it changed it; the runner checks the claim.
using Pass = bool (*)(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
