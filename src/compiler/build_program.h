#pragma once

#include "ir/device_spec.h"
#include "ir/program/program.h"
#include "passes/memory/layout.h"

namespace monograph::compiler {

// Turns a fused graph with its layout into a Program: one step a kernel or library call, in graph
// order; equal Loops once; scratch offsets from the lifetimes of the buffers. Loops are made for
// the device.
ir::Program build_program(const ir::Graph& graph, const passes::Layout& layout,
                          const ir::DeviceSpec& device);

}  // namespace monograph::compiler
