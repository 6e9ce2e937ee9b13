#pragma once

#include <limits>
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

// Something reads the value, and nothing that does goes into a generated kernel.
bool is_used_outside_kernels(const ir::ValueMap<std::vector<ir::Node*>>& users, ir::Value value);

// Rows x inner: the last `inner_rank` dims are the inner axes. kFree: no node has fixed them yet.
struct IterationSpace {
  static constexpr int kFree = -1;
  ir::Shape shape;
  int inner_rank = kFree;
  bool has_reduction = false;  // its shape may no longer grow
  // How many trailing dims can be one inner axis: a value inside is broadcast along all of them or
  // along none.
  int mergeable_rank = std::numeric_limits<int>::max();

  ir::Shape row_shape() const;  // the inner dims are 1
};

IterationSpace iteration_space(const ir::Node& node);  // for roles other than kNone

// The space of a kernel's body. InternalError when its nodes do not join.
IterationSpace kernel_space(const ir::Graph& body);

// A kernel with this body steps through its inner axes as one: whether a value of this shape and
// these strides (in elements) lets it. Dense strides always do.
bool inner_axes_merge(const ir::Graph& body, const ir::Shape& shape,
                      const std::vector<int64_t>& strides);

// Joins b into a; returns why not, empty when done (a is unchanged when refused).
std::string_view join(IterationSpace& a, const IterationSpace& b);

// A value of this shape can be stored by a kernel over the space: all of it, a row value, a scalar.
bool can_store(const IterationSpace& space, const ir::Shape& shape);

}  // namespace monograph::analysis
