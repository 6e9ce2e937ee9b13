#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/program/program.h"

namespace monograph::compiler {

// Every number of a Program that sizes of tensors decide, in a fixed order: dims of inputs and
// outputs, sizes and strides of library calls. Not addresses, and not what only reports read.
void for_each_number(ir::Program& program, const std::function<void(int64_t&)>& visit);

// The same of a Loop: extents, places in memory. Its constants are reals, and the size of its
// workspace is that of the largest.
void for_each_number(ir::Loop& loop, const std::function<void(int64_t&)>& visit);

// What must be equal for two Programs to do the same at different sizes, as text: kinds of steps,
// flags, dtypes, names; one line a tensor or step.
std::vector<std::string> structure_of(const ir::Program& program);

}  // namespace monograph::compiler
