#pragma once

#include <memory>
#include <vector>

#include "compiler/assign_memory.h"
#include "compiler/pass_runner.h"
#include "ir/program/program.h"
#include "passes/memory/layout.h"

namespace monograph::compiler {

// How much memory a step may take, all segments together. Neither bytes nor fraction: any.
struct MemoryBudget {
  int64_t bytes = 0;
  double fraction = 0;              // of what it takes without recomputation
  bool recompute_products = false;  // see passes::MemoryGoal
};

// What compiling a traced step gave: the Program, and how it came about.
struct Compilation {
  std::unique_ptr<ir::Graph> graph;  // after all passes; its nodes are the Program's steps
  ir::Program program;
  std::vector<PassRecord> passes;
  std::vector<passes::Remark> remarks;
  int num_traced_nodes = 0;
  int64_t lower_ns = 0;                   // layout, Loops, memory
  std::vector<passes::Lifetime> scratch;  // of the buffers, in steps of the program
  std::vector<LineageStep> lineage;       // where asked for; the last step is the graph above
  passes::Recomputation recomputation;
  passes::LeftOut left_out;
};

// Runs the pipeline on a copy of the traced graph, lays it out and lowers it. `states` is the
// layout of the session's states: new ones are added, old ones stay where they are. While the
// planned peak is above the budget, values are made again rather than kept. UserError for options
// that name no pass, and for a budget that cannot be met: the message says what can. `steps`: all
// that lowering needs are among them.
Compilation compile(const ir::Graph& traced, passes::StateLayout& states,
                    const PassOptions& options, const MemoryBudget& budget = {},
                    std::span<const PipelineStep> steps = pipeline());

}  // namespace monograph::compiler
