#pragma once

#include "compiler/assign_memory.h"
#include "ir/device_spec.h"
#include "ir/program/program.h"
#include "passes/memory/layout.h"

namespace monograph::compiler {

// Turns a fused graph with its layout into a Program: one step a kernel or library call, in graph
// order; equal Loops once; scratch offsets from the lifetimes of the buffers. Loops are made for
// the device. `scratch`: null, or gets when each buffer lives.
ir::Program build_program(const ir::Graph& graph, const passes::Layout& layout,
                          const ir::DeviceSpec& device,
                          std::vector<passes::Lifetime>* scratch = nullptr);

}  // namespace monograph::compiler
