#pragma once

#include <memory>
#include <string>

#include "comm/checked_communicator.h"

namespace monograph::comm {

// Collectives over TCP by Gloo. `prefix`: under which the ranks exchange addresses in the store;
// `address`: of this host, on which it listens. Collective: all ranks of the group call it.
// CommError when they do not connect within the job's timeout.
std::unique_ptr<CheckedCommunicator> make_gloo_communicator(const Group& group, const Job& job,
                                                            std::shared_ptr<Store> store,
                                                            const std::string& prefix,
                                                            const std::string& address);

}  // namespace monograph::comm
