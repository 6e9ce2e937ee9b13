#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "diagnose/hang/progress.h"

namespace monograph::diagnose {

// Rank `waiter` cannot go on before rank `waited_on` does something.
struct WaitEdge {
  enum class Why {
    kNotEntered,  // waited_on has not issued the collective (or the other half of the pair)
    kNotStarted,  // waited_on issued it, but its device has not come to it, while the waiter's has
    kNoRecord,    // nothing is known of waited_on, and everybody known has entered
  };
  int waiter = -1;
  int waited_on = -1;
  Why why = Why::kNotEntered;
  std::string group;
  int64_t sequence = -1;
  std::string op;          // empty if not recorded
  int64_t created_ns = 0;  // when the waiter entered; 0 is unknown
  int64_t progress = -1;   // last number that waited_on is known to have issued in the group
};

// The ranks of a group: as recorded, else those that left any trace in it, and for the default
// group everybody between the first and last rank seen.
std::vector<int> members_of(const Progress& progress, const std::string& group);

// For each rank and group the first call that has not finished, and who has not come to it. Later
// calls of the same rank and group say nothing more.
std::vector<WaitEdge> wait_edges(const Progress& progress);

// Where the waiting ends.
struct WaitSinks {
  std::set<int> ranks;  // somebody waits for them, they wait for nobody
  std::vector<std::vector<int>>
      cycles;  // rings of ranks that wait for each other and for nobody else
};
WaitSinks find_sinks(const std::vector<WaitEdge>& edges);

}  // namespace monograph::diagnose
