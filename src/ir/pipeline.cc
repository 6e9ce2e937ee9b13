#include "ir/pipeline.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace monograph::ir {

std::string_view schedule_name(Pipeline::Schedule schedule) {
  switch (schedule) {
    case Pipeline::Schedule::k1F1B:
      return "1f1b";
    case Pipeline::Schedule::kInterleaved:
      return "interleaved";
    case Pipeline::Schedule::kZeroBubble:
      return "zb-h1";
  }
  return "?";
}

std::vector<int> balanced_parts(const std::vector<double>& costs, int num_parts) {
  const int count = static_cast<int>(costs.size());
  check(num_parts >= 1 && count >= num_parts, "{} elements in {} parts", count, num_parts);
  std::vector<double> sums(count + 1, 0);
  for (int i = 0; i < count; ++i) sums[i + 1] = sums[i] + costs[i];
  // least[k][n]: of the largest sum, when the first n elements are in k parts; cut[k][n]: where the
  // last of them begins, as late as can be.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector least(num_parts + 1, std::vector<double>(count + 1, kNever));
  std::vector cut(num_parts + 1, std::vector<int>(count + 1, 0));
  least[0][0] = 0;
  for (int parts = 1; parts <= num_parts; ++parts) {
    for (int end = parts; end <= count; ++end) {
      for (int begin = parts - 1; begin < end; ++begin) {
        const double largest = std::max(least[parts - 1][begin], sums[end] - sums[begin]);
        if (largest > least[parts][end]) continue;
        least[parts][end] = largest;
        cut[parts][end] = begin;
      }
    }
  }
  std::vector<int> part_of(count);
  for (int part = num_parts, end = count; part > 0; --part) {
    const int begin = cut[part][end];
    std::fill(part_of.begin() + begin, part_of.begin() + end, part - 1);
    end = begin;
  }
  return part_of;
}

}  // namespace monograph::ir
