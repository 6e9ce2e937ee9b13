#pragma once

#include <cstdint>
#include <vector>

namespace monograph::passes {

// A buffer that must keep its bytes from step `begin` to step `end`, both included. If it has
// parts, the bytes of each are needed from its own beginning only.
struct Lifetime {
  struct Part {
    int64_t offset = 0, num_bytes = 0;
    int begin = 0;
  };
  int64_t num_bytes = 0;
  int begin = 0;
  int end = 0;
  std::vector<Part> parts = {};
};

struct OffsetPlan {
  std::vector<int64_t> offsets;  // in the order given
  int64_t peak_bytes = 0;
  int64_t bound_bytes = 0;  // the most bytes alive at one step: no plan needs less
};

// The bytes alive at each step, up to the last end.
std::vector<int64_t> live_bytes(const std::vector<Lifetime>& buffers);

// Gives each buffer an offset so that no two bytes that live at the same step overlap. Places
// buffers one after the other at the lowest offset free over their lifetime, first those with
// parts, then the largest; then, while the peak is above the bound, moves the buffer that makes the
// peak to the front and tries again, keeping the best plan (hill climbing as in TVM's USMP).
// Deterministic.
OffsetPlan assign_offsets(const std::vector<Lifetime>& buffers);

}  // namespace monograph::passes
