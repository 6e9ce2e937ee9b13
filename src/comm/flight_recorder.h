#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/call.h"

namespace monograph::comm {

// How far a rank is in one group: the last collective that it began.
struct Progress {
  Call call;
  bool is_done = false;
};

// The last collectives that one rank began, over all its groups. Calls may come from any thread.
class FlightRecorder {
 public:
  static constexpr size_t kCapacity = 256;

  explicit FlightRecorder(int rank) : rank_(rank) {}

  void add_group(const Group& group);
  // The number by which the call is found again; numbers ascend.
  int64_t begin(const std::string& group, const Call& call);
  void finish(int64_t number);

  // Nothing where the group began no collective (send and recv are left out).
  std::optional<Progress> progress(const std::string& group) const;
  std::map<std::string, Progress> all_progress() const;

  // The JSON form of PyTorch's flight recorder (what `monograph logs` reads), version 2.10, without
  // stack frames. Times are of the wall clock.
  std::string json(std::string_view backend, int64_t timeout_ms) const;

 private:
  struct Entry {
    int64_t number;
    std::string group;
    Call call;
    int64_t began_ns;
    int64_t finished_ns = 0;  // 0: not yet
  };

  const int rank_;
  mutable std::mutex mutex_;
  std::map<std::string, Group> groups_;
  std::map<std::string, Progress> progress_;
  std::deque<Entry> entries_;
  int64_t num_begun_ = 0;
};

}  // namespace monograph::comm
