#include "codegen/choose_kept.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "codegen/schedule_loop.h"
#include "codegen/thread_map.h"

namespace monograph::codegen {
namespace {

using ir::Domain;
using ir::Instruction;
using ir::Loop;
using Kind = ir::InstructionKind;

constexpr int64_t kMaxKeptRow = 8192;  // elements of a row buffer of a CPU

bool is_costly(const Instruction& i) {
  return i.kind == Kind::kPhilox || i.kind == Kind::kSegmentSum ||
         (i.kind == Kind::kApply && ir::is_transcendental(i.op));
}

// By instruction: the sweeps that need an element value. `keep(at, needed)` is asked for each that
// several sweeps need, last to first; what is kept needs its operands in its first sweep only.
template <typename Keep>
std::vector<std::set<int>> needed_sweeps(Loop& loop, const Keep& keep) {
  std::vector<std::set<int>> needed(loop.instructions.size());
  for (int at = static_cast<int>(loop.instructions.size()) - 1; at >= 0; --at) {
    Instruction& i = loop.instructions[at];
    if (is_sink(i)) {
      needed[at] = {i.sweep};
    } else if (i.domain == Domain::kElement && needed[at].size() > 1 && keep(at)) {
      i.keep = true;
      i.sweep = *needed[at].begin();
      needed[at] = {i.sweep};
    }
    for (int operand : i.operands) {
      if (loop.instructions[operand].domain != Domain::kElement) continue;
      needed[operand].insert(needed[at].begin(), needed[at].end());
    }
  }
  return needed;
}

bool is_row_load(const Instruction& i) {  // what comes from memory, not from a cache, row by row
  const ir::Access& access = i.access;
  return i.kind == Kind::kLoad && i.domain == Domain::kElement && access.inner_stride != 0 &&
         (access.index >= 0 || std::any_of(access.row_strides.begin(), access.row_strides.end(),
                                           [](int64_t stride) { return stride != 0; }));
}

std::vector<std::vector<int>> users_of(const Loop& loop) {
  std::vector<std::vector<int>> users(loop.instructions.size());
  for (size_t at = 0; at < loop.instructions.size(); ++at) {
    for (int operand : loop.instructions[at].operands) {
      users[operand].push_back(static_cast<int>(at));
    }
  }
  return users;
}

// Bytes a column of the loads that serve `value` alone: keeping it saves keeping them.
int64_t bytes_served(const Loop& loop, const std::vector<std::vector<int>>& users, int value) {
  std::vector<bool> serves(loop.instructions.size(), false);
  serves[value] = true;
  int64_t bytes = 0;
  for (int at = value - 1; at >= 0; --at) {
    const Instruction& i = loop.instructions[at];
    if (i.domain != Domain::kElement || users[at].empty()) continue;
    serves[at] = std::all_of(users[at].begin(), users[at].end(),
                             [&](int user) { return user <= value && serves[user]; });
    if (serves[at] && is_row_load(i)) bytes += kept_bytes(loop, i);
  }
  return bytes;
}

int64_t bytes_kept(const Loop& loop) {
  int64_t bytes = 0;
  for (const Instruction& i : loop.instructions) {
    if (i.keep || i.kind == Kind::kSegmentSum) bytes += kept_bytes(loop, i);
  }
  return bytes;
}

}  // namespace

void keep_costly_values(Loop& loop) {
  needed_sweeps(loop, [&](int at) {
    return is_costly(loop.instructions[at]) && loop.inner_extent <= kMaxKeptRow;
  });
}

void keep_row_on_chip(Loop& loop, const ir::DeviceSpec& device) {
  const auto users = users_of(loop);
  const auto brings_rows = [&](const Loop& kept) {
    return !map_threads(kept, device).loads_of_next_row.empty();
  };
  std::optional<Loop> best;
  for (const bool keeps_costly : {true, false}) {
    Loop kept = loop;
    needed_sweeps(kept, [&](int at) {
      const Instruction& i = kept.instructions[at];
      if (is_costly(i)) return keeps_costly;
      if (is_row_load(i)) return true;
      return i.kind == Kind::kApply && bytes_served(loop, users, at) >= kept_bytes(loop, i);
    });
    if (!fits_on_chip(loop, bytes_kept(kept), device)) continue;
    // Where the next row comes while one is worked on, there is time to compute again.
    if (!best ||
        (brings_rows(kept) && !brings_rows(*best) && !map_threads(*best, device).in_registers))
      best = std::move(kept);
  }
  if (best) loop = std::move(*best);
}

}  // namespace monograph::codegen
