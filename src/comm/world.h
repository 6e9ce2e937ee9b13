#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "comm/call.h"
#include "comm/communicator.h"
#include "comm/job.h"
#include "comm/store.h"

namespace monograph::comm {

// The ranks of a job as one of them sees it: threads (comm/threads/thread_world.h) or processes
// (comm/process/process_world.h). Destroying it tells the others that this rank left.
class World {
 public:
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  std::string host;
  std::shared_ptr<Store> store;

  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  // A group of the ranks given (of the world, ascending, this one among them). Each of them calls
  // this with the same ranks and name; a name serves once at a time. The world must outlive it.
  virtual std::unique_ptr<Communicator> split(std::span<const int> ranks,
                                              std::string_view name) = 0;
  std::unique_ptr<Communicator> all(std::string_view name);

  // For communicators that are made elsewhere (comm/nccl): whom they report to.
  virtual Job job() const = 0;
  // Checks what split() was given.
  Group make_group(std::span<const int> ranks, std::string_view name) const;
};

}  // namespace monograph::comm
