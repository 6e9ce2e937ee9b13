#include "ir/state_role.h"

namespace monograph::ir {

std::optional<StateRole> parse_role(std::string_view name) {
  for (StateRole role : {StateRole::kParameter, StateRole::kMoment, StateRole::kBuffer}) {
    if (role_name(role) == name) return role;
  }
  return std::nullopt;
}

}  // namespace monograph::ir
