#pragma once

#include "ir/graph.h"

namespace monograph::analysis {

// Which values share memory once they are laid out, as far as the graph alone tells: a view lies in
// its operand, and what a `cat` or `pack` joins lies in its result (passes/memory/layout.h). The
// value that owns the memory is the root of its class.
class MemoryClasses {
 public:
  explicit MemoryClasses(const ir::Graph& graph);

  ir::Value root(ir::Value value) const { return roots_.at(value); }
  // Bytes of scratch that a root takes. None for placeholders, what leaves the step, and packed
  // gradients: those lie in segments of their own from beginning to end.
  int64_t scratch_bytes(ir::Value root) const;

 private:
  ir::ValueMap<ir::Value> roots_;
  ir::ValueSet elsewhere_;
};

// Bytes of scratch alive while each node of the graph runs, in graph order: from the node that
// writes a class first to the one that reads it last, both included.
class LiveRanges {
 public:
  explicit LiveRanges(const ir::Graph& graph);  // renumbered

  const MemoryClasses& classes() const { return classes_; }
  // Positions of the nodes that write or read the class, ascending; views do neither.
  const std::vector<int>& accesses(ir::Value root) const { return accesses_.at(root); }
  // Roots with scratch bytes, in the order of their first write.
  const std::vector<ir::Value>& roots() const { return order_; }
  int peak_position() const { return peak_position_; }
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  MemoryClasses classes_;
  ir::ValueMap<std::vector<int>> accesses_;
  std::vector<ir::Value> order_;
  int peak_position_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace monograph::analysis
