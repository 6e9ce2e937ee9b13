#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace monograph::compiler {

// A node of a graph after some pass. Nodes of fused bodies stand after their fused node.
struct LineageNode {
  std::string text;  // "%57 = tanh(%56) : f32[16,128,512]"
  std::string op;
  int origin = -1;                 // in the list before the pass; -1: nothing there led to it
  int inside = -1;                 // the fused node that holds it, in the same list
  std::vector<int> operands = {};  // in the same list
  ir::Phase phase = ir::Phase::kForward;
  ir::Provenance provenance;
};

// The graph after one application of a pass that changed it; the first: as it was traced.
struct LineageStep {
  std::string pass;
  std::vector<LineageNode> nodes;
};

// Follows nodes through passes: between begin() and end() each node carries, as the line of its
// provenance, the number that it had before the pass. Passes hand provenance on to what they make,
// and read only its scope.
class LineageRecorder {
 public:
  explicit LineageRecorder(const ir::Graph& traced);
  void begin(ir::Graph& graph);
  // Puts the provenance back, and records a step if the pass changed the graph.
  void end(ir::Graph& graph, std::string pass, bool has_changed);
  std::vector<LineageStep> take() { return std::move(steps_); }

 private:
  std::vector<LineageStep> steps_;
  std::vector<ir::Provenance> before_;
};

}  // namespace monograph::compiler
