#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/checked_communicator.h"
#include "comm/process/process_world.h"

namespace monograph::comm {

// What the ranks of a group need to find each other.
struct Wiring {
  Group group;
  Job job;
  std::shared_ptr<Store> store;
  std::string prefix;   // of the group's keys; no two groups of a job have the same
  std::string address;  // of this host
};

// Makes the communicator of a group of processes. kAuto times shared memory, where the ranks are on
// one host and can map each other's memory, against Gloo; all ranks take the same. Collective.
std::unique_ptr<Communicator> wire_up(const Wiring& wiring, bool is_one_host, Transport transport,
                                      const std::function<void(const std::string&)>& log);

// Through shared memory alone. nullptr, in all ranks, when some rank cannot map another's; the
// reason goes to *problem.
std::unique_ptr<CheckedCommunicator> make_shared_memory_communicator(const Wiring& wiring,
                                                                     std::string* problem);

}  // namespace monograph::comm
