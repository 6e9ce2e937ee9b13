#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "diagnose/hang/progress.h"

// The parts of single lines that PyTorch's watchdog and c10d write.
namespace monograph::diagnose {

inline constexpr int kMaxRank = 1 << 24;

std::optional<int> valid_rank(std::optional<int64_t> rank);

// "[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616]": nanoseconds since the start of the year,
// near enough to subtract; 0 if the line has none.
int64_t glog_time(std::string_view text);

struct WatchdogPrefix {
  std::string group;  // empty if the line names none
  std::string description;
  std::optional<int> rank;  // inside the group
};

// "[Rank 2]", "[PG 3 Rank 4]", "[PG ID 0 PG GUID 0(default_pg) Rank 1]".
WatchdogPrefix read_watchdog_prefix(std::string_view text);

// The fields of WorkNCCL(...) and CollectiveFingerPrint(...): NAME=VALUE up to a comma outside
// brackets.
std::string_view field(std::string_view text, std::string_view name);

// Of "[4096, 5120]"; -1 if there is no shape.
int64_t count_elements(std::string_view shape);

// What follows "CollectiveFingerPrint(".
void read_fingerprint(std::string_view text, Call& call);

}  // namespace monograph::diagnose
