#include "train/index_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace monograph::train {

void IndexWatch::observe(const std::string& gradient, int64_t step,
                         std::span<const int32_t> indices, int64_t count) {
  std::vector<int32_t> sorted(indices.begin(), indices.end());
  std::sort(sorted.begin(), sorted.end());
  Seen& seen = seen_[gradient];
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end() && !seen.has_duplicates) {
    seen.has_duplicates = true;
    findings_.push_back(
        fmt::format("step {}: index {} of '{}' is sent more than once", step, *twice, gradient));
  }
  // All elements are the same set in each step.
  const bool is_same = sorted == seen.sorted && static_cast<int64_t>(sorted.size()) < count;
  seen.num_unchanged = is_same ? seen.num_unchanged + 1 : 0;
  if (seen.num_unchanged >= patience_ && !seen.is_frozen) {
    seen.is_frozen = true;
    findings_.push_back(fmt::format("step {}: the {} indices of '{}' have not changed for {} steps",
                                    step, sorted.size(), gradient, patience_));
  }
  seen.sorted = std::move(sorted);
}

}  // namespace monograph::train
