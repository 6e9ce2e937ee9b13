#include "comm/job.h"

#include <fmt/format.h>

namespace monograph::comm {

CommError error_of(const Group& group, const Call& call, const Failure& failure) {
  const CommError::Place place = {group.world_rank(), std::string(name_of(call.operation)),
                                  std::string(call.label_text()), call.sequence, failure.at_fault};
  return CommError(fmt::format("[{}] #{} of group '{}' failed in rank {} ({}): {}",
                               name_of(call.operation), call.sequence, group.name,
                               group.world_rank(), describe(call, group), failure.reason),
                   place);
}

}  // namespace monograph::comm
