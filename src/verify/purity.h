#pragma once

#include <string>
#include <vector>

#include "frontend/session/session.h"

namespace monograph::verify {

// Something that a traced function does beside tracing, or depends on beside its inputs.
struct Impurity {
  std::string what;      // what was seen, and what to write instead
  ir::Provenance place;  // the node at which it shows
  std::string str() const;
};

// Captures the function twice on inputs of these types. A value that changes between the captures
// (a counter, a clock, random numbers that are no op) shows at the first node that differs; input
// and output of the process (files, pipes, the terminal) at the node after which it was seen, by
// the counters of /proc/self/io: where there are none, it is not looked for. Values read on the
// host are zero here.
std::vector<Impurity> find_impurities(const session::TracedFunction& function,
                                      const std::vector<ir::TensorType>& inputs,
                                      const session::CompileOptions& options);

}  // namespace monograph::verify
