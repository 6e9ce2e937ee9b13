#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace monograph::runtime {

// Finds the k largest elements of x, in values and indices the largest first: equal ones by place,
// NaN above all. A histogram of the upper bits says which elements can be among them; those are
// then sorted. Keeps its memory from one call to the next.
class TopK {
 public:
  // k: 1 .. x.size(), which is below 2^31.
  void run(std::span<const float> x, int64_t k, float* values, int32_t* indices);

 private:
  std::vector<uint64_t> candidates_;
  std::vector<int64_t> histogram_;
};

}  // namespace monograph::runtime
