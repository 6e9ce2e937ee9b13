#pragma once

#include <string>

#include "verify/explain/folded_steps.h"

namespace monograph::verify {

// The steps as a graph in Graphviz's language: filled by phase, framed by device, library calls as
// boxes and generated kernels as rounded ones, clusters by phase and scope, equal blocks once.
// `device`: "cpu", "h200".
std::string to_dot(const FoldedSteps& steps, const std::string& title, const std::string& device);

// Draws by `dot`. UserError when it is not installed, fails, or `path` cannot be written.
void write_svg(const std::string& dot, const std::string& path);

}  // namespace monograph::verify
