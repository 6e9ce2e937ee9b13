#pragma once

#include <string>

namespace monograph::ops {

// docs/ops.md: what every op takes, is and does, from the registry.
std::string document_ops();

}  // namespace monograph::ops
