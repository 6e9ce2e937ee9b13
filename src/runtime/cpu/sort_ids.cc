#include "runtime/cpu/sort_ids.h"

#include <algorithm>

#include "base/error.h"

namespace monograph::runtime {
namespace {

template <typename Id>
void counting_sort(const Id* ids, int64_t num_positions, int64_t num_ids, int32_t* order,
                   int32_t* offsets) {
  std::fill(offsets, offsets + num_ids + 1, 0);
  for (int64_t p = 0; p < num_positions; ++p) {
    if (ids[p] < 0 || ids[p] >= num_ids) {
      throw_user_error("id {} at position {} is out of range: use 0..{}", ids[p], p, num_ids - 1);
    }
    ++offsets[ids[p]];
  }
  // offsets[v]: first the end of id v, which the positions, backwards, count down to its begin.
  for (int64_t v = 1; v <= num_ids; ++v) offsets[v] += offsets[v - 1];
  for (int64_t p = num_positions; p-- > 0;) order[--offsets[ids[p]]] = static_cast<int32_t>(p);
}

}  // namespace

void sort_ids(const int64_t* ids, int64_t num_positions, int64_t num_ids, int32_t* order,
              int32_t* offsets) {
  counting_sort(ids, num_positions, num_ids, order, offsets);
}

void sort_ids(const int32_t* ids, int64_t num_positions, int64_t num_ids, int32_t* order,
              int32_t* offsets) {
  counting_sort(ids, num_positions, num_ids, order, offsets);
}

}  // namespace monograph::runtime
