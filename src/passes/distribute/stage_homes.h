#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analysis/pipeline_schedule.h"
#include "ir/graph.h"

namespace monograph::passes {

// A step of one rank, and how it is divided over those of a pipeline.
struct PipelineRequest {
  const ir::Pipeline& pipeline;
  int rank = 0;  // whose part is wanted: a place on the pipeline's axis
  // The part of the batch of which a node was traced; -1: none.
  std::function<int(const ir::Node&)> part_of = {};
  std::map<std::string, std::vector<int>> ranks_of_states =
      {};  // by name, ascending; others: all ranks
};

// Where a node of the step runs.
struct StageHome {
  enum class Kind : uint8_t {
    kAnywhere,  // made of inputs, states and constants alone: wherever it is read
    kFrame,     // in one frame of one stage
    kSummands,  // a sum over frames of several ranks: of gradients of a parameter that they share
    kEnd,       // behind all frames: the optimizer's, and what the step returns
    kEndSummands,  // a sum over the ends of several ranks: the square of a norm
  };
  Kind kind = Kind::kAnywhere;
  analysis::Frame frame = {};   // of kFrame
  std::vector<int> ranks = {};  // whose it is, ascending; empty: of all

  bool is(Kind other) const { return kind == other; }
  bool is_on(int rank) const;
};

// A value that a frame makes and others, of another rank, read.
struct StageTransfer {
  ir::Value value;
  analysis::Frame from, to;  // `to`: the first frame of that rank that reads it
  int from_rank = 0, to_rank = 0;
};

// Finds the frame of every node: layers by their scope, others by what they read. UserError for
// steps that are no pipelines: a layer that reads what a later one makes, a state that a frame
// updates, an optimizer that mixes parameters, another number of micro-batches.
class StageHomes {
 public:
  StageHomes(const ir::Graph& graph, const PipelineRequest& request);  // renumbered

  const StageHome& of(const ir::Node& node) const { return homes_[node.id()]; }
  int rank_of(const analysis::Frame& frame) const { return pipeline_.rank_of(frame.stage); }
  const analysis::FrameOrders& orders() const { return orders_; }
  // In one order for all ranks: that in which frames of equal cost end. Each rank begins its sends
  // and recvs in this order; then none waits for ever, even if each waits for its other side.
  const std::vector<StageTransfer>& transfers() const { return transfers_; }
  const ir::ValueMap<std::vector<ir::Node*>>& users() const { return users_; }
  // By the cost model, in bytes moved.
  double cost_of(const analysis::Frame& frame) const;
  analysis::PipelineReport report() const;

 private:
  using Kind = StageHome::Kind;
  int layer_of(const ir::Node& node) const;  // -1: of none
  void find_parts();
  void find_sums();
  StageHome place(const ir::Node& node) const;
  StageHome place_at_end(const ir::Node& node) const;
  int stage_of(const ir::Node& node) const;
  std::vector<int> ranks_read(const ir::Node& node, bool& mixes) const;
  std::vector<int> ranks_of_all(const ir::Node& node) const;
  [[noreturn]] static void refuse_mixture(const ir::Node& node);
  void check_state(const ir::Node& node) const;
  void check_updates() const;
  void split_backward();
  void find_transfers();

  const ir::Graph& graph_;
  const PipelineRequest& request_;
  const ir::Pipeline& pipeline_;
  const ir::ValueMap<std::vector<ir::Node*>> users_;
  bool has_backward_ = false;
  int num_parts_ = 0;  // 0: the step is not divided
  std::vector<char> only_summed_;
  std::vector<StageHome> homes_;
  analysis::FrameOrders orders_;
  std::vector<StageTransfer> transfers_;
  std::map<analysis::Frame, double> costs_;
};

}  // namespace monograph::passes
