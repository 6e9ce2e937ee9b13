#pragma once

#include <span>
#include <string_view>

#include "passes/pass.h"

namespace monograph::compiler {

// One application of a pass; a pass may stand in the pipeline more than once.
struct PipelineStep {
  std::string_view name;
  passes::Pass run;
  std::string_view why_here;
  bool is_required = false;  // lowering needs it: it cannot be switched off
};

inline constexpr std::string_view kRematerialize = "rematerialize";
inline constexpr std::string_view kJoinCopies = "join_copies";

// The passes from the traced step (backward and optimizer in it) to the graph that is lowered.
std::span<const PipelineStep> pipeline();

}  // namespace monograph::compiler
