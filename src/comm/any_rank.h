#pragma once

#include <string_view>

#include "comm/communicator.h"

namespace monograph::comm {

// Whether some rank of the group says so; every rank calls it and hears the same. A loop over data
// of which ranks have different numbers of batches goes on while any has one:
//
//   while (comm::any_rank(group, data.has_next(), "data")) step(data.next_or_empty());
bool any_rank(Communicator& group, bool says, std::string_view label);

}  // namespace monograph::comm
