#pragma once

#include <string_view>

#include "ir/graph.h"

// The iteration space of a generated kernel, and how a node sits in it.
namespace monograph::analysis {

// What a node does inside a kernel.
enum class FuseRole : uint8_t {
  kNone,          // not for generated kernels: library calls, views, placeholders
  kCreation,      // a function of the index: done again in every kernel that needs it
  kElement,       // pointwise, or a broadcast copy
  kRowReduction,  // over the inner axes, kept as dims of 1: its result is used in the same row
  kTerminal,      // over rows: complete only when the kernel ends
  kIndexed,       // embedding, gather, segment_sum: reads operand 0 through an index
};
FuseRole fuse_role(const ir::Node& node);

// Rows x inner: the last `inner_rank` dims are the inner axes. kFree: no node has fixed them yet.
struct IterationSpace {
  static constexpr int kFree = -1;
  ir::Shape shape;
  int inner_rank = kFree;
  bool has_reduction = false;  // its shape may no longer grow

  ir::Shape row_shape() const;  // the inner dims are 1
};

IterationSpace iteration_space(const ir::Node& node);  // for roles other than kNone

// Joins b into a; returns why not, empty when done (a is unchanged when refused).
std::string_view join(IterationSpace& a, const IterationSpace& b);

// A value of this shape can be stored by a kernel over the space: all of it, a row value, a scalar.
bool can_store(const IterationSpace& space, const ir::Shape& shape);

}  // namespace monograph::analysis
