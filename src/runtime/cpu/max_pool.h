#pragma once

#include <cstddef>

#include "ir/program/program.h"

namespace monograph::runtime {

// Images are shared out over the threads; the numbers do not depend on how many there are. f32,
// f64, bf16. grad_x: backward only.
void run_max_pool(const ir::MaxPoolStep& step, std::byte* x, std::byte* y, std::byte* grad_x);

}  // namespace monograph::runtime
