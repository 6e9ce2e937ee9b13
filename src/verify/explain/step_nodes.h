#pragma once

#include <vector>

#include "compiler/compile.h"

namespace monograph::verify {

// A node of the compiled graph that became a step of the Program, and the steps whose results it
// reads, through views and concatenations.
struct StepNode {
  const ir::Node* node = nullptr;
  std::vector<int> producers;
};

// True for nodes that become a step: no placeholders and nothing that only names memory.
bool is_step(const ir::Node& node);

// One for each step of the Program, in its order.
std::vector<StepNode> step_nodes(const compiler::Compilation& compilation);

// What runs a step: "kernel 3", "matmul f32 2048x512x128", "attention", "all_reduce".
std::string work_of(const ir::Step& step, const ir::Node& node);

}  // namespace monograph::verify
