#pragma once

#include <string>
#include <vector>

#include "frontend/trace/trace.h"
#include "ir/type.h"

namespace monograph::session {

// What a traced graph holds for: the guards of one variant of a compiled function.
struct Signature {
  std::vector<ir::TensorType> inputs;
  std::vector<trace::Trace::Switch> switches;

  bool serves(const std::vector<ir::TensorType>& types) const;
};

// Why none of the signatures (at least one) serves inputs of these types: the guards of the nearest
// that missed, each with what was expected, what was given, and what to do about it.
std::string recompile_reason(const std::vector<const Signature*>& known,
                             const std::vector<ir::TensorType>& types,
                             const std::vector<std::string>& input_names);

// The same for a path that was traced with another number read on the host.
std::string read_reason(const trace::HostRead& read, double expected, double given);

}  // namespace monograph::session
