#include "passes/collective/bucket_sizes.h"

#include <algorithm>

#include "passes/memory/place_states.h"

namespace monograph::passes {

std::vector<BucketRange> bucket_ranges(const std::vector<int64_t>& tensor_offsets,
                                       const ir::LinkModel& link) {
  constexpr double kBandwidthShare = 0.9;
  const auto tail_bytes = std::max<int64_t>(1, static_cast<int64_t>(link.half_bandwidth_bytes()));
  const auto bucket_bytes =
      static_cast<int64_t>(kBandwidthShare / (1 - kBandwidthShare) * link.half_bandwidth_bytes());
  const int64_t end = tensor_offsets.back();
  std::vector<int64_t> cuts;  // where a bucket may begin
  int64_t last_cut = 0;       // the latest that leaves enough for the last bucket
  for (const int64_t offset : tensor_offsets) {
    const int64_t page = offset / kPageBytes * kPageBytes;
    if (end - page >= tail_bytes) last_cut = page;
    if (page > 0 && (cuts.empty() || page > cuts.back())) cuts.push_back(page);
  }
  std::vector<BucketRange> buckets;
  int64_t begin = 0;
  for (const int64_t cut : cuts) {
    const bool is_large_enough = cut - begin >= bucket_bytes && end - cut >= tail_bytes;
    const bool begins_tail = cut == last_cut && cut - begin >= tail_bytes;
    if (!is_large_enough && !begins_tail) continue;
    buckets.push_back({begin, cut});
    begin = cut;
  }
  buckets.push_back({begin, end});
  return buckets;
}

}  // namespace monograph::passes
