#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/size_grid.h"

namespace monograph::session {

// Where two traces of one function differ otherwise than by their sizes.
struct Specialization {
  std::string what;      // "reshape in one trace, expand in another"
  ir::Provenance place;  // the line that makes it so
  std::string str() const;
};

// The graphs of one function at all sizes of a grid: equal nodes, and each number in them a
// polynomial of the sizes (a real one also a constant divided by one).
class GraphFamily {
 public:
  // `graphs`: one an instance of the grid. Nothing, and `why`, where they are no such family.
  static std::optional<GraphFamily> fit(const ir::SizeGrid& grid,
                                        std::span<const ir::Graph* const> graphs,
                                        Specialization& why);

  // Where a graph, traced at these sizes, is not the one that the family has for them, not even
  // after simplification (at size 1 nothing is expanded or summed).
  std::optional<Specialization> difference(const ir::Graph& graph,
                                           const ir::SizeSteps& steps) const;

 private:
  struct Numbers;  // of one graph
  std::unique_ptr<ir::Graph> graph_at(const ir::SizeSteps& steps) const;

  std::shared_ptr<const ir::Graph> largest_;
  std::vector<std::string> structure_;  // by node
  std::vector<ir::Provenance> places_;
  std::vector<ir::SizeNumber> numbers_;
  std::vector<ir::SizeReal> reals_;
};

}  // namespace monograph::session
