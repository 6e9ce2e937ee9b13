#pragma once

#include <array>
#include <string>
#include <vector>

#include "compiler/compile.h"

namespace monograph::verify {

// Steps that do the same in equal blocks of a model ("h.0", "h.1", ...), as one.
struct FoldedStep {
  enum class Kind : uint8_t { kKernel, kLibrary, kCollective };
  std::string work;   // "kernel 3", "matmul f32 2048x512x128"
  std::string ops;    // of a kernel: "add,mul,tanh"
  std::string scope;  // "h.*.attn"
  std::string phase;  // forward, backward, optimizer, communication
  Kind kind = Kind::kKernel;
  std::vector<int> steps;   // of the Program
  std::vector<int> blocks;  // ascending; empty: outside of blocks
  std::string place;        // file and line
};

struct FoldedEdge {
  int from = 0, to = 0;
  bool is_across_blocks = false;  // from one block to another
  auto operator<=>(const FoldedEdge&) const = default;
};

struct FoldedSteps {
  std::vector<FoldedStep> nodes;
  std::vector<FoldedEdge> edges;
};

FoldedSteps fold_steps(const compiler::Compilation& compilation);

// "0 to 11", "0, 2": numbers of blocks.
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace monograph::verify
