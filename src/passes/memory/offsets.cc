#include "passes/memory/offsets.h"

#include <algorithm>
#include <numeric>

namespace monograph::passes {
namespace {

constexpr int kMaxAttempts = 400;
constexpr int64_t kWorkLimit = 60'000'000;  // attempts x buffers^2, so that compiling stays fast

int64_t live_bound(const std::vector<Lifetime>& buffers) {
  int last = 0;
  for (const Lifetime& buffer : buffers) last = std::max(last, buffer.end);
  std::vector<int64_t> change(last + 2, 0);
  for (const Lifetime& buffer : buffers) {
    change[buffer.begin] += buffer.num_bytes;
    change[buffer.end + 1] -= buffer.num_bytes;
  }
  int64_t live = 0, bound = 0;
  for (int64_t bytes : change) bound = std::max(bound, live += bytes);
  return bound;
}

// The lowest offset where the buffer fits between those already placed that live with it.
int64_t lowest_fit(const std::vector<Lifetime>& buffers, int at, const std::vector<int>& by_offset,
                   const std::vector<int64_t>& offsets) {
  const Lifetime& buffer = buffers[at];
  int64_t offset = 0;
  for (int other : by_offset) {
    const Lifetime& placed = buffers[other];
    if (placed.end < buffer.begin || buffer.end < placed.begin) continue;
    if (offsets[other] >= offset + buffer.num_bytes) break;
    offset = std::max(offset, offsets[other] + placed.num_bytes);
  }
  return offset;
}

int64_t place_in_order(const std::vector<Lifetime>& buffers, const std::vector<int>& order,
                       std::vector<int64_t>& offsets, int& peak_buffer) {
  std::vector<int> by_offset;
  int64_t peak = 0;
  for (int at : order) {
    offsets[at] = lowest_fit(buffers, at, by_offset, offsets);
    const auto place =
        std::upper_bound(by_offset.begin(), by_offset.end(), offsets[at],
                         [&](int64_t offset, int other) { return offset < offsets[other]; });
    by_offset.insert(place, at);
    const int64_t end = offsets[at] + buffers[at].num_bytes;
    if (end > peak) {
      peak = end;
      peak_buffer = at;
    }
  }
  return peak;
}

}  // namespace

OffsetPlan assign_offsets(const std::vector<Lifetime>& buffers) {
  OffsetPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  if (buffers.empty()) return plan;
  plan.bound_bytes = live_bound(buffers);
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (buffers[a].num_bytes != buffers[b].num_bytes) {
      return buffers[a].num_bytes > buffers[b].num_bytes;
    }
    return buffers[a].end - buffers[a].begin > buffers[b].end - buffers[b].begin;
  });
  std::vector<int64_t> offsets(buffers.size(), 0);
  const int64_t work = static_cast<int64_t>(buffers.size() * buffers.size());
  const int attempts = static_cast<int>(std::clamp<int64_t>(kWorkLimit / work, 1, kMaxAttempts));
  for (int attempt = 0; attempt < attempts; ++attempt) {
    int peak_buffer = 0;
    const int64_t peak = place_in_order(buffers, order, offsets, peak_buffer);
    if (attempt == 0 || peak < plan.peak_bytes) {
      plan.peak_bytes = peak;
      plan.offsets = offsets;
    }
    if (plan.peak_bytes == plan.bound_bytes) break;
    const auto at = std::find(order.begin(), order.end(), peak_buffer);
    std::rotate(order.begin(), at, at + 1);
  }
  return plan;
}

}  // namespace monograph::passes
