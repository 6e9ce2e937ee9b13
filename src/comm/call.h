#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/element_type.h"

namespace monograph::comm {

enum class Operation : uint8_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kRecv,
  kBarrier,
};

std::string_view name_of(Operation operation);  // "all_reduce"
inline bool is_pairwise(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kRecv;
}

// The ranks of one communicator.
struct Group {
  std::string name;
  std::vector<int> ranks;  // of the world, ascending
  int index = 0;           // this rank's position among them

  int size() const { return static_cast<int>(ranks.size()); }
  int world_rank() const { return ranks[static_cast<size_t>(index)]; }
};

// One call of one rank: what the ranks of a group must agree on. Plain bytes: it goes over the wire
// and lies in shared memory.
struct Call {
  int64_t sequence = 0;  // 1 for the first call of the group; send and recv count by pair
  int64_t count = 0;
  Operation operation = Operation::kBarrier;
  ElementType type = ElementType::kU8;
  ReduceOp reduce = ReduceOp::kSum;
  int32_t peer = -1;  // broadcast: the root; send and recv: the other rank (index in the group)
  std::array<char, 40> label = {};  // cut off where it is longer

  std::string_view label_text() const;
};

Call make_call(Operation operation, int64_t count, ElementType type, std::string_view label);

// True if the two calls may meet. For a send and its recv: same type, count, label and number.
bool agree(const Call& mine, const Call& other);

// "all_reduce sum of 100 f32 'bucket0'"
std::string describe(const Call& call, const Group& group);
// "rank 3", "ranks 1, 3"
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace monograph::comm
