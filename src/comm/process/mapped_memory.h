#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/shared/peer_memory.h"

namespace monograph::comm {

// Memory that other processes of the host can map: each allocation is a memfd, which they open
// through /proc. It needs no room in /dev/shm, and a process that is killed leaves nothing behind.
class MappedMemory : public PeerMemory {
 public:
  MappedMemory() : own_(std::make_shared<Segments>()) {}
  ~MappedMemory() override;

  // The processes of the ranks of the group, once they are known.
  void set_peers(std::vector<pid_t> pids) { pids_ = std::move(pids); }

  BufferPlace locate(const void* data, int64_t bytes) const override;
  // CommError when the other process's memory cannot be opened.
  char* resolve(int rank, const BufferPlace& place) override;
  std::shared_ptr<void> allocate(int64_t bytes) override;

 private:
  struct Segment {
    int64_t id;  // a serial number and the file descriptor in the process that owns it
    int64_t bytes;
  };
  struct Segments {
    std::mutex mutex;
    std::map<const char*, Segment> by_base;
    int64_t num_made = 0;
  };
  struct Mapping {
    char* base;
    size_t bytes;
  };

  const std::shared_ptr<Segments> own_;  // outlives this while allocations do
  std::vector<pid_t> pids_;
  std::map<std::pair<int, int64_t>, Mapping> mapped_;  // by rank and segment
};

}  // namespace monograph::comm
