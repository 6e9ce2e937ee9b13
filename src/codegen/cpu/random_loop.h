#pragma once

#include <cstdint>
#include <vector>

#include "ir/loop/loop.h"

namespace monograph::codegen {

inline constexpr int64_t kRandomIndexExtent = 6;  // loaded integers must be below it

// Well-formed Loops of all constructs but philox and segment sums, for tests; equal seeds give
// equal Loops.
std::vector<ir::Loop> random_loops(uint64_t first_seed, int count);

}  // namespace monograph::codegen
