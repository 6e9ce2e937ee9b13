#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "comm/element_type.h"

namespace monograph::comm {

// One group of ranks. A call blocks its caller (each Communicator is used by one thread at a time:
// the executor's communication lane), and every rank of the group makes the same calls in the same
// order. A peer that is dead, stopped, absent or that calls something else ends the call with
// CommError within the timeout: it names ranks, collective, label and sequence number. After a
// CommError the group is finished: each further call throws the same error.
// Counts are in elements, may be 0, and buffers of one call do not overlap.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // In place. Results are bitwise equal on all ranks and from run to run.
  virtual void all_reduce(void* data, int64_t count, ElementType type, ReduceOp op,
                          std::string_view label) = 0;
  virtual void broadcast(void* data, int64_t count, ElementType type, int root,
                         std::string_view label) = 0;
  // count: elements of one rank; the larger buffer holds size() * count, in order of rank.
  virtual void all_gather(const void* mine, void* all, int64_t count, ElementType type,
                          std::string_view label) = 0;
  virtual void reduce_scatter(const void* all, void* mine, int64_t count, ElementType type,
                              ReduceOp op, std::string_view label) = 0;
  // Block r of `from` goes to rank r; block r of `to` comes from rank r. count: of one block.
  virtual void all_to_all(const void* from, void* to, int64_t count, ElementType type,
                          std::string_view label) = 0;
  // A send may return before its recv began. Sends to one rank arrive in order.
  virtual void send(const void* data, int64_t count, ElementType type, int to,
                    std::string_view label) = 0;
  virtual void recv(void* data, int64_t count, ElementType type, int from,
                    std::string_view label) = 0;
  virtual void barrier(std::string_view label) = 0;

  // Memory that collectives run on without a copy (shared inside a host), zeroed and page-aligned;
  // other memory is taken too, with one copy.
  virtual std::shared_ptr<void> allocate(int64_t bytes) = 0;
  virtual std::string name() const = 0;  // "threads", "shared memory", "gloo"
};

}  // namespace monograph::comm
