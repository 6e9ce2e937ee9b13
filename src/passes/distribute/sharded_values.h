#pragma once

#include <string_view>
#include <vector>

#include "ir/placement.h"
#include "passes/distribute/axis_moves.h"

namespace monograph::passes {

// How each value of a graph lies over the ranks of an axis, and its forms in the graph that is
// made: as it was made, and moved to where others need it, once for each form.
class ShardedValues {
 public:
  ShardedValues(ops::Builder& build, AxisMoves& moves) : build_(build), moves_(moves) {}

  void set(ir::Value value, ir::Value local, ir::Placement placement) {
    made_[value] = {local, std::move(placement)};
  }
  // Replicated, for values that were not set.
  const ir::Placement& placement(ir::Value value) const;
  ir::Value as_made(ir::Value value) const;

  // Moved to where it is wanted; `why` becomes the remark of the collective, if there is one.
  ir::Value moved(ir::Value value, const ir::Placement& wanted, std::string_view why);
  ir::Value whole(ir::Value value, std::string_view why) {
    return moved(value, ir::Placement::replicate(), why);
  }

 private:
  struct Made {
    ir::Value local;
    ir::Placement placement;
  };
  struct Form {
    ir::Placement placement;
    ir::Value local;
  };
  ir::Value make_whole(ir::Value value, std::string_view why);
  ir::Value make_part(ir::Value value, const ir::Placement& shard, std::string_view why);
  // What is a function of the index, or adds up rows by their ids, is made in parts, not cut.
  ir::Value made_in_part(ir::Value value, const ir::Placement& shard, std::string_view why);
  ir::Value segments_in_part(const ir::Node& node, const ir::Placement& shard,
                             std::string_view why);
  bool is_made_in_part(ir::Value value, const ir::Placement& shard, int depth = 0) const;

  ops::Builder& build_;
  AxisMoves& moves_;
  ir::ValueMap<Made> made_;
  ir::ValueMap<std::vector<Form>> forms_;
};

}  // namespace monograph::passes
