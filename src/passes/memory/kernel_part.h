#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace monograph::passes {

// The pointwise part of a kernel that makes one of its results, to be a kernel of its own.
struct KernelPart {
  std::vector<const ir::Node*> nodes;  // of the kernel's body, in order, without inputs
  std::vector<ir::Value> leaves;       // what it reads: the kernel's operands and other results
  ir::Value result;                    // in the body
  double flops = 0;
  int num_nodes = 0;  // without constants
};

// The part that makes `result` again from the kernel's operands and those of its other results for
// which `is_readable` holds. A row reduction is never done again, for its order of addition may
// depend on what else the kernel does: it is a leaf if it is a result at all; if not, there is no
// such part. A result that is rounded when it is stored is no leaf: the kernel itself went on with
// more digits.
std::optional<KernelPart> cut_kernel(ir::Node& kernel, ir::Value result,
                                     const std::function<bool(ir::Value)>& is_readable);

// A body with one input a leaf, in order.
std::unique_ptr<ir::Graph> make_body(const ir::Node& kernel, const KernelPart& part);

}  // namespace monograph::passes
