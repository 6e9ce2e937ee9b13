#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"

namespace monograph::verify {

// Numbers, in the traced graph, of the nodes that `name` means: "%57"; a source location
// "layers.cc:88"; an op; the name of an input or state; a scope, with all below it.
// UserError when there is none (it names a few that are there).
std::vector<int> find_traced(const compiler::Compilation& compilation, std::string_view name);

// Where a traced node went, pass by pass, to the steps and kernels that do its work: one line a
// pass that changed it. The compilation must have its lineage.
std::string path_of(const compiler::Compilation& compilation, int traced);

// The traced nodes that a step of the Program came from, in order; and back.
std::vector<int> origins_of_step(const compiler::Compilation& compilation, int step);
std::vector<int> steps_of(const compiler::Compilation& compilation, int traced);

// "%57 = tanh(%56) : f32[16,128,512]   h.0.mlp   layers.cc:88"
std::string describe_traced(const compiler::Compilation& compilation, int traced);

}  // namespace monograph::verify
