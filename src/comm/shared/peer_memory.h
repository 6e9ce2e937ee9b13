#pragma once

#include <cstdint>
#include <memory>

namespace monograph::comm {

// Where a buffer lies for the other ranks of a host.
struct BufferPlace {
  static constexpr int64_t kPrivate = -1;  // nowhere: others cannot reach it
  static constexpr int64_t kUnused = -2;   // the rank gives no buffer
  int64_t segment = kPrivate;
  int64_t offset = 0;

  bool is_private() const { return segment == kPrivate; }
};

// The memory that the ranks of a group can reach in each other: all of it between threads, mapped
// segments between processes.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  virtual BufferPlace locate(const void* data, int64_t bytes) const = 0;
  // The address, here, of a buffer that is not private.
  virtual char* resolve(int rank, const BufferPlace& place) = 0;
  virtual std::shared_ptr<void> allocate(int64_t bytes) = 0;
};

}  // namespace monograph::comm
