#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/call.h"
#include "comm/shared/futex.h"
#include "comm/shared/peer_memory.h"

namespace monograph::comm {

// The memory that the ranks of one group share for their calls, laid out in one zeroed block: for
// each rank a counter of the barriers that it reached and its last two calls, for each ordered pair
// of ranks a mailbox, and for each rank a piece through which data that others cannot reach goes.
class Arena {
 public:
  // A call and its buffer, as a rank shows them to the others.
  struct Post {
    Call call;
    BufferPlace place;
  };
  struct alignas(128) RankSlot {
    SharedCounter phase;
    Post posts[2];  // a rank may post its next call while others still read this one
  };
  struct alignas(128) Mailbox {
    SharedCounter sent;
    alignas(64) SharedCounter taken;
    Post post;
  };
  static constexpr int64_t kStagingBytes = int64_t{1} << 20;

  // base: page-aligned, bytes(num_ranks) long.
  Arena(char* base, int num_ranks) : base_(base), num_ranks_(num_ranks) {}
  static int64_t bytes(int num_ranks) {
    return staging_offset(num_ranks) + num_ranks * kStagingBytes;
  }

  RankSlot& slot(int rank) {
    return *reinterpret_cast<RankSlot*>(base_ + rank * int64_t{sizeof(RankSlot)});
  }
  Mailbox& mailbox(int from, int to) {
    char* first = base_ + num_ranks_ * int64_t{sizeof(RankSlot)};
    return *reinterpret_cast<Mailbox*>(first + (from * num_ranks_ + to) * int64_t{sizeof(Mailbox)});
  }
  char* staging(int rank) { return base_ + staging_offset(num_ranks_) + rank * kStagingBytes; }

 private:
  static int64_t staging_offset(int num_ranks) {
    const int64_t used = num_ranks * int64_t{sizeof(RankSlot)} +
                         int64_t{num_ranks} * num_ranks * int64_t{sizeof(Mailbox)};
    return (used + 4095) / 4096 * 4096;
  }

  char* base_;
  int num_ranks_;
};

}  // namespace monograph::comm
