#pragma once

#include <string>
#include <string_view>

#include "ir/loop/loop.h"

namespace monograph::codegen {

// The Loop as a C++ function `extern "C" void NAME(void* const* args)`, args: the buffers in order.
// It needs prelude() before it. Outputs may be the same memory as inputs where each element is
// loaded no later than it is stored (docs/loop.md). The result does not depend on the number of
// threads.
//
// `bounds`: the same loop at the largest sizes that the text is to serve (null: this loop). Types
// of counters, sizes of arrays and whether threads are woken follow from it, so that the texts of
// one loop at several sizes differ in numbers only (sized_kernel.h).
std::string render(const ir::Loop& loop, std::string_view name, const ir::Loop* bounds = nullptr);

}  // namespace monograph::codegen
