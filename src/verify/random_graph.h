#pragma once

#include <functional>
#include <memory>

#include "ir/graph.h"
#include "ops/op_def.h"

namespace monograph::verify {

struct RandomGraphOptions {
  uint64_t seed = 0;
  int num_nodes = 40;
  int num_ranks = 0;  // of axis "data", over which collectives occur; 0: none does
  // Which ops and dtypes may occur; null: all.
  std::function<bool(const ops::OpDef&)> allows_op = {};
  std::function<bool(ir::DType)> allows_dtype = {};
};

// A graph of registered ops on small tensors, with inputs, a state that is updated, constants that
// algebra looks for (0, 1, -1, 2, ...) and more than one output. Every op's own rules decide what
// is a valid node: a new op occurs without a change here. Equal options give equal graphs.
std::unique_ptr<ir::Graph> random_graph(const RandomGraphOptions& options);

// A value for each placeholder, by name; integers are small and not negative. Those of inputs that
// are floating differ by rank.
std::map<std::string, ir::Literal> random_values(const std::vector<ir::Node*>& placeholders,
                                                 uint64_t seed, int rank = 0);

}  // namespace monograph::verify
