#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "frontend/trace/state.h"

namespace monograph::trace {

// Elements first, first + 1, .. of the f32 state `name` as they begin with this seed; `first` is a
// multiple of 4. Not for a table (kFunction).
void fill_initial(const Initializer& initializer, std::string_view name, int64_t seed,
                  int64_t first, std::span<float> elements);

}  // namespace monograph::trace
