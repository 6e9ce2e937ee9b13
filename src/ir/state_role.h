#pragma once

#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace monograph::ir {

// The role with that name (role_name); none when it names no role.
std::optional<StateRole> parse_role(std::string_view name);

}  // namespace monograph::ir
