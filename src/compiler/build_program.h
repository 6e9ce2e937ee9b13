#pragma once

#include "compiler/assign_memory.h"
#include "ir/device_spec.h"
#include "ir/program/program.h"
#include "passes/memory/layout.h"

namespace monograph::compiler {

// Turns a fused graph with its layout into a Program: one step a kernel or library call, in graph
// order; equal Loops once; scratch offsets from the lifetimes of the buffers. Loops are made for
// the device.
ir::Program build_program(const ir::Graph& graph, const passes::Layout& layout,
                          const ir::DeviceSpec& device);

// The same before scratch has offsets: addresses there are those of address_in_buffer
// (assign_memory.h).
struct UnplacedProgram {
  ir::Program program;
  std::vector<passes::LayoutBuffer> buffers;
};

// `deterministic`: library calls on a GPU add up in one order. `like`: the same step at other
// sizes, whose kernels' schedules are taken; null: none.
UnplacedProgram build_unplaced_program(const ir::Graph& graph, const passes::Layout& layout,
                                       const ir::DeviceSpec& device, bool deterministic = true,
                                       const ir::Program* like = nullptr);

}  // namespace monograph::compiler
