#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ir/graph.h"
#include "verify/divergence.h"
#include "verify/random_graph.h"

namespace monograph::verify {

// A random graph whose compiled form gives other numbers than the interpreter.
struct RandomFailure {
  uint64_t seed = 0;
  std::string pass_off;              // empty: with all passes
  std::string difference;            // "output y3, element 5: 1 against 2, allowed 1e-05"
  std::unique_ptr<ir::Graph> graph;  // the smallest one found that still fails
};

struct RandomCheck {
  uint64_t first_seed = 0;
  int num_graphs = 100;
  int num_nodes = 16;      // of each graph
  int num_ranks = 1;       // threads of this process; above 1, graphs have collectives over them
  bool passes_off = true;  // each pass that can be, in turn
  int num_at_once = 25;    // graphs compiled together: the compiler runs seldom
  KernelMaker make_kernels = nullptr;  // null: the compiler's own
};

struct RandomVerdict {
  int num_compared = 0;       // graphs
  int num_refused = 0;        // whose drawn values an op refuses (an id out of range)
  int num_compilations = 0;   // graphs times passes off
  std::set<std::string> ops;  // that occurred, in the graphs or in what passes made of them
  std::optional<RandomFailure> failure;  // the first; no graph after its batch was looked at
};

// Compares compiled random graphs with the interpreter. An element may be off by the tolerance of
// its dtype, relative to 1 and to itself, and by 64 times what the interpreter in float64, with
// noise on sums, says that rounding does to it: ops that amplify rounding (exp, div, log) are in
// all graphs. A graph that fails is shrunk: outputs are dropped, and nodes replaced by inputs, as
// long as it fails.
RandomVerdict check_random_graphs(const RandomCheck& check);

}  // namespace monograph::verify
