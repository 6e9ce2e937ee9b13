#pragma once

#include <cstdint>
#include <vector>

#include "ir/link_model.h"

namespace monograph::passes {

struct BucketRange {
  int64_t begin = 0, end = 0;  // bytes
  bool operator==(const BucketRange&) const = default;
};

// Cuts a flat range of gradients into buckets. tensor_offsets: where each tensor begins, in bytes,
// in about the order in which they are made; and the end of the last one.
// A bucket begins at the page that a tensor begins in: then it never waits for that tensor's
// successor, and all of a large tensor, which is complete at one moment, is sent at once.
// A bucket is as large as 90 % of the bandwidth needs, 9 x latency x bandwidth. The last one, which
// nothing is left to hide, is as small as half of the bandwidth needs, latency x bandwidth: below
// that the latency counts more than what is saved.
std::vector<BucketRange> bucket_ranges(const std::vector<int64_t>& tensor_offsets,
                                       const ir::LinkModel& link);

}  // namespace monograph::passes
