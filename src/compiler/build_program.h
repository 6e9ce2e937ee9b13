#pragma once

#include "ir/program/program.h"
#include "passes/memory/layout.h"

namespace monograph::compiler {

// Turns a fused graph with its layout into a Program: one step a kernel or library call, in graph
// order; equal Loops once; scratch offsets from the lifetimes of the buffers.
ir::Program build_program(const ir::Graph& graph, const passes::Layout& layout);

}  // namespace monograph::compiler
