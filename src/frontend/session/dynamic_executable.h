#pragma once

#include <memory>
#include <span>
#include <string>

#include "frontend/session/dynamic_inputs.h"
#include "frontend/session/executable.h"

namespace monograph::session {

// Runs a step at all sizes of a grid.
class DynamicExecutable : public Executable {
 public:
  // From now on, run() is given inputs of these sizes; `graph`: the step traced at them.
  virtual void set_sizes(const ir::SizeSteps& steps, const ir::Graph& graph) = 0;
  // As set_sizes, of sizes that it knows.
  virtual void set_sizes(const ir::SizeSteps& steps) = 0;
};

// Compiles once. `traced`: one graph an instance of the grid. Null, and `why`, where the sizes
// decide more than numbers.
std::unique_ptr<DynamicExecutable> make_dynamic_cpu(const ir::SizeGrid& grid,
                                                    std::span<const ir::Graph* const> traced,
                                                    CpuStates& states,
                                                    const CompileOptions& options, Mesh mesh,
                                                    std::string& why);
std::unique_ptr<DynamicExecutable> make_dynamic_interpreted(HostStates& states, Mesh mesh);

}  // namespace monograph::session
