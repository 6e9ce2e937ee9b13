#pragma once

#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace monograph::trace {

// The Philox stream of a name: fixed for all time, for it decides the random numbers of a run.
inline uint32_t stream_of(std::string_view name) {
  return static_cast<uint32_t>(hash_of(name).low);
}

}  // namespace monograph::trace
