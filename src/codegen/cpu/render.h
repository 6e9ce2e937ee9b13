#pragma once

#include <string>
#include <string_view>

#include "ir/loop/loop.h"

namespace monograph::codegen {

// The Loop as a C++ function `extern "C" void NAME(void* const* args)`, args: the buffers in order.
// It needs prelude() before it. Outputs may be the same memory as inputs where each element is
// loaded no later than it is stored (docs/loop.md). The result does not depend on the number of
// threads.
std::string render(const ir::Loop& loop, std::string_view name);

}  // namespace monograph::codegen
