#include "comm/world.h"

#include <numeric>
#include <vector>

#include "base/error.h"

namespace monograph::comm {

std::unique_ptr<Communicator> World::all(std::string_view name) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return split(ranks, name);
}

Group World::make_group(std::span<const int> ranks, std::string_view name) const {
  Group group = {std::string(name), {ranks.begin(), ranks.end()}, -1};
  for (size_t i = 0; i < ranks.size(); ++i) {
    check(ranks[i] >= 0 && ranks[i] < size && (i == 0 || ranks[i - 1] < ranks[i]),
          "[split] group '{}' of {}: ranks ascend and lie in 0..{}", name,
          describe_ranks(group.ranks), size - 1);
    if (ranks[i] == rank) group.index = static_cast<int>(i);
  }
  check(group.index >= 0, "[split] rank {} is not in group '{}' of {}", rank, name,
        describe_ranks(group.ranks));
  return group;
}

}  // namespace monograph::comm
