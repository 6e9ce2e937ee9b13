#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/program/program.h"
#include "passes/memory/placement.h"

namespace monograph::passes {

// Where the states of a session lie, by logical name: shared by all its programs. Grows only.
struct StateLayout {
  struct Entry {
    ir::TensorType type;
    ir::StateRole role;
    ir::Address address;
  };
  std::map<std::string, Entry> entries;
  std::vector<int64_t> segment_bytes = std::vector<int64_t>(ir::kNumSegments, 0);
};

inline constexpr int64_t kTensorAlignment = 256;  // bytes
inline constexpr int64_t kPageBytes = 4096;
int64_t align_up(int64_t value, int64_t alignment);

struct StatePlacements {
  ir::ValueMap<Placement> states;
  std::unordered_map<const ir::Node*, Placement> packs;  // of states that lie as it has them
};

// Places every state of the graph; new ones are added to `layout`. Those that are packed together
// lie as their `pack` has them, from a page on: then it is no copy but their own memory. UserError
// for a state that the session has with another type.
StatePlacements place_states(const ir::Graph& graph, StateLayout& layout);

}  // namespace monograph::passes
