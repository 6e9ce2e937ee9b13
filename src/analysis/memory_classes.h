#pragma once

#include <vector>

#include "ir/graph.h"

namespace monograph::analysis {

// Which values share memory once they are laid out, as far as the graph alone tells: a view lies in
// its operand, as does a product in the matrix that it is added to, and what a `cat` or `pack`
// joins lies in its result (passes/memory/layout.h). The value that owns the memory is the root of
// its class.
class MemoryClasses {
 public:
  explicit MemoryClasses(const ir::Graph& graph);

  // A value that the graph did not have yet is its own root.
  ir::Value root(ir::Value value) const;
  // Bytes of scratch that a root takes. None for placeholders and what leaves the step: those lie
  // in segments of their own from beginning to end. None for a pack: its parts come one by one.
  int64_t scratch_bytes(ir::Value root) const;
  // A part of a pack, as gradients are: it is there from the node that writes it first to the last
  // that reads the pack.
  struct Part {
    ir::Value first;  // before anything is added to it
    ir::Value pack;
  };
  const std::vector<Part>& parts() const { return parts_; }
  // Something is added to the root's value where it lies: later readers see another one.
  bool is_rewritten(ir::Value root) const { return rewritten_.contains(root); }

 private:
  ir::ValueMap<ir::Value> roots_;
  ir::ValueSet elsewhere_, rewritten_;
  std::vector<Part> parts_;
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
  void find_accesses(const ir::Graph& graph);
  ir::ValueSet overwritten_roots(const ir::Graph& graph) const;
  std::vector<int64_t> changes(const ir::Graph& graph) const;

  MemoryClasses classes_;
  ir::ValueMap<std::vector<int>> accesses_;
  std::vector<ir::Value> order_;
  int peak_position_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace monograph::analysis
