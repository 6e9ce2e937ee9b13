#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "ir/graph.h"

namespace monograph::analysis {

using Axes = std::set<std::string>;

// Over which mesh axes all ranks have the same value: what follows from constants, from
// placeholders that are equal, and from what was reduced, gathered or broadcast over the axis.
class EqualValues {
 public:
  // `axes`: those that are asked for. `of_placeholder`: those over which an input or state is
  // equal; null: none.
  explicit EqualValues(Axes axes, std::function<Axes(const ir::Node&)> of_placeholder = nullptr)
      : axes_(std::move(axes)), of_placeholder_(std::move(of_placeholder)) {}

  void visit(const ir::Node& node);  // in order
  // Another node has the value of a visited one.
  void replace(const ir::Node& node, ir::Value by) { equal_.emplace(by.node, equal_.at(&node)); }
  bool are_equal(ir::Value value, const std::string& axis) const;

 private:
  Axes axes_of(const ir::Node& node) const;

  const Axes axes_;
  const std::function<Axes(const ir::Node&)> of_placeholder_;
  std::map<const ir::Node*, Axes> equal_;
};

// The axes of the graph's collectives.
Axes axes_of_collectives(const ir::Graph& graph);

}  // namespace monograph::analysis
