#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/compile/job.h"

namespace monograph::diagnose {

enum class CauseKind { kFrame, kGuard, kChange, kBreak };

struct CauseNode {
  CauseKind kind = CauseKind::kFrame;
  std::string label;       // "size of x at dimension 0: 4 -> 5"
  std::string place;       // "s1.py:4"; may be empty
  std::int64_t count = 0;  // recompiles that pass through it
  double seconds = 0;      // compile time of those; 0: unknown
};

struct CauseEdge {
  std::size_t from = 0;  // indices into nodes
  std::size_t to = 0;
  std::int64_t count = 0;
  double seconds = 0;
};

// The way of some recompiles through the graph: indices into nodes.
struct CauseChain {
  std::size_t frame = 0, guard = 0, change = 0;
  std::optional<std::size_t> earlier_break;
  std::int64_t count = 0;

  bool passes(std::size_t node) const { return change == node || earlier_break == node; }
};

// Frame -> failing guard -> what changed -> earlier break that split the frame. Weights add up
// along the way: each recompile passes through one node of each kind but the last, which only
// continuations have.
struct CauseGraph {
  std::vector<CauseNode> nodes;
  std::vector<CauseEdge> edges;
  std::vector<CauseChain> chains;
  std::vector<std::size_t> roots;  // changes and breaks, heaviest first
};

CauseGraph build_cause_graph(const CompileJob& job);

// The roots, heaviest first, each with the chains that lead to it.
std::string to_text(const CauseGraph& graph);

// In Graphviz's language, weights as labels.
std::string to_dot(const CauseGraph& graph);

// Four columns, edges as wide as their weight.
std::string to_svg(const CauseGraph& graph);

}  // namespace monograph::diagnose
