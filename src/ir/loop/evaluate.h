#pragma once

#include <span>

#include "ir/loop/loop.h"

namespace monograph::ir {

// Runs a loop on host memory, slowly and obviously: row by row, value by value, f32 values rounded
// after every operation, sums in double. The oracle for generated code. `buffers` are the addresses
// of the loop's buffers in order; outputs may be the memory of inputs as docs/loop.md allows.
// Workspaces are not touched and may be null. `arguments`: the launch's scalars.
void evaluate(const Loop& loop, std::span<void* const> buffers,
              std::span<const int64_t> arguments = {});

}  // namespace monograph::ir
