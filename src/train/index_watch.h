#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace monograph::train {

// Watches which elements of each gradient are sent (compression topk). What is kept back grows, so
// that others must be sent in time: a set that does not change for `patience` steps was not chosen
// anew. An index that comes twice in a step is sent twice.
class IndexWatch {
 public:
  explicit IndexWatch(int64_t patience = 8) : patience_(patience) {}

  // `indices`: of `count` elements, in step `step`.
  void observe(const std::string& gradient, int64_t step, std::span<const int32_t> indices,
               int64_t count);

  // One line for each gradient and fault, the first time it is seen: "step 9: the 12 indices of
  // 'wte.weight' have not changed for 8 steps".
  const std::vector<std::string>& findings() const { return findings_; }

 private:
  struct Seen {
    std::vector<int32_t> sorted;
    int64_t num_unchanged = 0;
    bool is_frozen = false, has_duplicates = false;  // and reported
  };
  const int64_t patience_;
  std::map<std::string, Seen> seen_;
  std::vector<std::string> findings_;
};

}  // namespace monograph::train
