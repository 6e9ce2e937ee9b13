#pragma once

#include "ir/device_spec.h"
#include "ir/loop/loop.h"

namespace monograph::codegen {

// Stores, accumulations and row reductions: what a sweep is made for.
bool is_sink(const ir::Instruction& instruction);

// Decides when and how often things are computed in a loop whose instructions are complete: the
// sweep of every sink and row value, which element values a row buffer keeps, the split into
// blocks, and the workspace for partial results (added as the last buffer). `like`: the same loop
// at other sizes, whose decisions are taken over; null: none.
void schedule_loop(ir::Loop& loop, const ir::DeviceSpec& device, const ir::Loop* like = nullptr);

}  // namespace monograph::codegen
