#pragma once

#include <memory>
#include <string>

#include "comm/checked_communicator.h"
#include "comm/shared/arena.h"
#include "comm/shared/peer_memory.h"

namespace monograph::comm {

// Collectives of ranks that share memory. Every rank shows where its data lies, and each pulls what
// it needs out of the others' buffers; an all_reduce has each rank reduce one slice of all buffers
// in place, in order of rank, so that a sum does not depend on who is early. Data that the others
// cannot reach goes through a piece of shared memory, in chunks.
class SharedCommunicator : public CheckedCommunicator {
 public:
  SharedCommunicator(std::string name, Group group, Job job, Arena arena,
                     std::shared_ptr<PeerMemory> memory);

  std::shared_ptr<void> allocate(int64_t bytes) override { return memory_->allocate(bytes); }
  std::string name() const override { return name_; }

 protected:
  void perform(const Call& call, const void* from, void* to, Clock::time_point deadline) override;

 private:
  struct Views;

  void wait_for(SharedCounter& counter, uint32_t target, int peer);
  void reach_barrier();
  void post(const Call& call, const BufferPlace& place);
  const Arena::Post& posted(int rank);
  void meet(const Call& call);
  template <typename Pull>
  void exchange(const Call& call, const void* source, int64_t num_blocks, char* result, Pull pull);
  void all_reduce_slice(const Views& views);
  void send_to(const Call& call, const void* data);
  void recv_from(const Call& call, void* data);

  const std::string name_;
  Arena arena_;
  const std::shared_ptr<PeerMemory> memory_;
  uint32_t phase_ = 0;
  size_t parity_ = 0;  // which of a rank's two posts is of this call
  Clock::time_point deadline_;
};

}  // namespace monograph::comm
