#pragma once

#include <vector>

#include "compiler/compile.h"

namespace monograph::compiler {

// As compile(), but scratch has no offsets yet: its buffers are given back. `like`: the program of
// the same step at other sizes, whose kernels' schedules are taken; null: none.
Compilation compile_unplaced(const ir::Graph& traced, passes::StateLayout& states,
                             const PassOptions& options, const ir::Program* like,
                             std::vector<passes::LayoutBuffer>& buffers);

}  // namespace monograph::compiler
