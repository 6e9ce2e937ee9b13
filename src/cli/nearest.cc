#include "cli/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace monograph::cli {
namespace {

// Optimal string alignment distance.
std::size_t edits(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return cost[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const std::size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({replaced, at(i - 1, j) + 1, at(i, j - 1) + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::string nearest(std::string_view given, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_edits = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edits(given, candidate);
    const std::size_t longer = std::max(given.size(), candidate.size());
    if (distance * 3 > std::max<std::size_t>(longer, 3)) continue;
    if (!best.empty() && distance >= best_edits) continue;
    best = candidate;
    best_edits = distance;
  }
  return best;
}

}  // namespace monograph::cli
