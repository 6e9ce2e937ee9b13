#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace monograph::passes {

// Where a value lies: in a buffer, at an offset, with a stride per dim (all in its own elements).
struct Placement {
  int buffer = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides;
  bool operator==(const Placement&) const = default;
};

// Strides that show memory of shape `from` and `strides` as shape `to`; none when a copy is needed.
std::optional<std::vector<int64_t>> reshape_strides(const ir::Shape& from,
                                                    const std::vector<int64_t>& strides,
                                                    const ir::Shape& to);

// Element offsets of the operands of a `pack` or the results of an `unpack`, in order, and the
// total.
std::vector<int64_t> pack_offsets(const std::vector<ir::Shape>& shapes, int64_t alignment);

// Where the operands of a `pack` begin in it, in bytes; empty when there is padding.
std::vector<int64_t> unpadded_parts(const ir::Node& pack);

// The placement of result `index` of a view-like node, given its operand's; none: a copy is needed.
std::optional<Placement> view_placement(const ir::Node& view, int index, const Placement& operand);

// The placement that operand 0 must have for result `index` to lie at `result`; none when no
// placement gives it (a slice or a split part says nothing about the rest of its operand).
std::optional<Placement> operand_placement(const ir::Node& view, int index,
                                           const Placement& result);

// The placement of operand `index` inside the result of a `cat`, a `pack`, or a collective that
// runs in place.
Placement part_placement(const ir::Node& gather, int index, const Placement& result);

// A product that is added to a whole matrix, its first operand, where that lies.
bool is_accumulation(const ir::Node& node);

// Rows of [batch, head, position, width] lie anywhere, but are whole.
bool has_whole_rows(const ir::Shape& shape, const std::vector<int64_t>& strides);

// One of the last two dims has stride 1 and the other steps over whole lines: a matrix product can
// read or write it (transposed, if it is the first).
bool is_matrix(const ir::Shape& shape, const std::vector<int64_t>& strides);

}  // namespace monograph::passes
