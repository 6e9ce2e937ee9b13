#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/literal.h"
#include "ir/loop/loop.h"
#include "runtime/cpu/executor.h"

namespace monograph::verify {

// Kernels for Loops, in order; they live as long as what the maker keeps.
using KernelMaker = std::function<std::vector<runtime::Kernel>(std::span<const ir::Loop>)>;

// How far one step of a compiled graph is from its reference on the same operands.
struct NodeError {
  std::string node;   // "%12 = fused(%3, %4) : f32[8,64] @fused_mul"
  std::string scope;  // module path
  std::string file;   // where the user wrote it
  int line = 0;
  double error = 0;      // |found - expected| / |expected|, in the norm; infinite for a NaN
  double tolerance = 0;  // by dtype
  bool is_over() const { return !(error <= tolerance); }
};

// What a result of this dtype may be off.
double tolerance_of(ir::DType dtype);

// |found - expected| / |expected|, in the norm; infinite where one is not finite and the other is.
double relative_error(const ir::Literal& found, const ir::Literal& expected);

// The graph without updates, and with every result of a node that becomes a step as an output, in
// order; `seen` gets these values of the graph given.
std::unique_ptr<ir::Graph> with_all_in_sight(const ir::Graph& graph, std::vector<ir::Value>& seen);

// Runs the graph, which all passes went over, with each value in sight, and each kernel and library
// call beside its reference on the operands that it got: an error is that of one step alone, and
// the first one over its tolerance is where a run goes wrong. In graph order.
std::vector<NodeError> compare_each_node(const ir::Graph& fused,
                                         const std::map<std::string, ir::Literal>& inputs,
                                         const std::map<std::string, ir::Literal>& states,
                                         const KernelMaker& make_kernels);

}  // namespace monograph::verify
