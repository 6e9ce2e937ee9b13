#include "passes/memory/offsets.h"

#include <algorithm>
#include <numeric>

namespace monograph::passes {
namespace {

constexpr int kMaxAttempts = 400;
constexpr int64_t kGoodEnough = 200;        // no more attempts when the bound is this near: 0.5 %
constexpr int64_t kWorkLimit = 60'000'000;  // attempts x buffers^2, so that compiling stays fast

// Bytes of one buffer that begin and end together.
struct Block {
  int64_t offset = 0;  // in the buffer
  int64_t num_bytes = 0;
  int begin = 0, end = 0;
};

std::vector<Block> blocks_of(const Lifetime& buffer) {
  if (buffer.parts.empty()) return {{0, buffer.num_bytes, buffer.begin, buffer.end}};
  std::vector<Block> blocks;
  for (const Lifetime::Part& part : buffer.parts) {
    blocks.push_back({part.offset, part.num_bytes, part.begin, buffer.end});
  }
  return blocks;
}

// Places buffers one after the other.
class Placer {
 public:
  explicit Placer(const std::vector<std::vector<Block>>& buffers) : buffers_(buffers) {}

  // Returns the peak; `peak_buffer` is the one that makes it.
  int64_t place(const std::vector<int>& order, std::vector<int64_t>& offsets, int& peak_buffer) {
    placed_.clear();
    int64_t peak = 0;
    for (int at : order) {
      offsets[at] = lowest_fit(buffers_[at]);
      for (Block block : buffers_[at]) {
        block.offset += offsets[at];
        const int64_t end = block.offset + block.num_bytes;
        placed_.insert(
            std::upper_bound(placed_.begin(), placed_.end(), block,
                             [](const Block& a, const Block& b) { return a.offset < b.offset; }),
            block);
        if (end <= peak) continue;
        peak = end;
        peak_buffer = at;
      }
    }
    return peak;
  }

 private:
  // The lowest offset where the buffer fits between the blocks already placed that live with it.
  int64_t lowest_fit(const std::vector<Block>& blocks) const {
    int64_t offset = 0, before = -1;
    while (offset != before) {  // until no block has to move any more
      before = offset;
      for (const Block& block : blocks) {
        offset = lowest_fit(block, offset + block.offset) - block.offset;
      }
    }
    return offset;
  }

  // The lowest place of one block that is not below `place`.
  int64_t lowest_fit(const Block& block, int64_t place) const {
    for (const Block& other : placed_) {
      if (other.end < block.begin || block.end < other.begin) continue;
      if (other.offset >= place + block.num_bytes) break;
      place = std::max(place, other.offset + other.num_bytes);
    }
    return place;
  }

  const std::vector<std::vector<Block>>& buffers_;
  std::vector<Block> placed_;  // by offset
};

}  // namespace

std::vector<int64_t> live_bytes(const std::vector<Lifetime>& buffers) {
  int num_steps = 0;
  for (const Lifetime& buffer : buffers) num_steps = std::max(num_steps, buffer.end + 1);
  std::vector<int64_t> live(num_steps + 1, 0);  // changes first
  for (const Lifetime& buffer : buffers) {
    for (const Block& block : blocks_of(buffer)) {
      live[block.begin] += block.num_bytes;
      live[block.end + 1] -= block.num_bytes;
    }
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

OffsetPlan assign_offsets(const std::vector<Lifetime>& buffers) {
  OffsetPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  if (buffers.empty()) return plan;
  std::vector<std::vector<Block>> blocks;
  for (const Lifetime& buffer : buffers) blocks.push_back(blocks_of(buffer));
  const std::vector<int64_t> live = live_bytes(buffers);
  plan.bound_bytes = *std::max_element(live.begin(), live.end());
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const bool has_parts = !buffers[a].parts.empty();
    if (has_parts != !buffers[b].parts.empty()) return has_parts;
    if (buffers[a].num_bytes != buffers[b].num_bytes) {
      return buffers[a].num_bytes > buffers[b].num_bytes;
    }
    return buffers[a].end - buffers[a].begin > buffers[b].end - buffers[b].begin;
  });
  const auto num_with_parts = std::count_if(
      buffers.begin(), buffers.end(), [](const Lifetime& buffer) { return !buffer.parts.empty(); });
  std::vector<int64_t> offsets(buffers.size(), 0);
  const int64_t work = static_cast<int64_t>(buffers.size() * buffers.size());
  const int attempts = static_cast<int>(std::clamp<int64_t>(kWorkLimit / work, 1, kMaxAttempts));
  Placer placer(blocks);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    int peak_buffer = 0;
    const int64_t peak = placer.place(order, offsets, peak_buffer);
    if (attempt == 0 || peak < plan.peak_bytes) {
      plan.peak_bytes = peak;
      plan.offsets = offsets;
    }
    const bool is_good = plan.peak_bytes <= plan.bound_bytes + plan.bound_bytes / kGoodEnough;
    if (is_good || !buffers[peak_buffer].parts.empty()) break;
    const auto at = std::find(order.begin(), order.end(), peak_buffer);
    std::rotate(order.begin() + num_with_parts, at, at + 1);
  }
  return plan;
}

}  // namespace monograph::passes
